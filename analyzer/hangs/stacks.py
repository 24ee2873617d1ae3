"""Python stacks of ranks that stand still: who stands where, in a sentence, a tree and JSON.

Whose code a call is, ranks with the same calls, and whose stacks are asked for at all.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import takewhile
from typing import Any

from lockstep.analyzer.hangs.dumps import Fact, FactKind
from lockstep.analyzer.hangs.verdict import HangVerdict
from lockstep.collector.contract.stacks import Frame, Stacks, Thread

MOST_NAMED = 12
"""Stretches of ranks in a sentence; the JSON has them all."""


def ranks_in_words(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0-7, 9`."""
    every = sorted(set(ranks))
    return f"rank{'' if len(every) == 1 else 's'} {stretches(every)}"


def stretches(ranks: Iterable[int]) -> str:
    """`0-7, 9`."""
    every = sorted(set(ranks))
    runs: list[list[int]] = []
    for rank in every:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    words = [f"{a}" if a == b else f"{a}-{b}" for a, b in runs[:MOST_NAMED]]
    return ", ".join(words) + (f" and more ({len(every)})" if len(runs) > MOST_NAMED else "")


class Owner(IntEnum):
    """Whose code a frame is; of a stack the smallest of these names the line to look at."""

    PROGRAM = 0
    INSTALLED = 1
    STANDARD = 2
    NATIVE = 3


_INSTALLED = re.compile(r"(?:.*/)?(?:site|dist)-packages/(?P<rest>.+)", re.DOTALL)
_AROUND = re.compile(r"(?:.*/)?(?P<rest>(?:torch|workloads/sdk)/.+)", re.DOTALL)
"""torch and our recorder, which stands around calls, also from folders of their own: NVIDIA's
containers build torch in one, and who develops has the recorder in one."""
_STANDARD = re.compile(r"(?:.*/)?lib(?:64)?/python\d(?:\.\d+)?(?:t)?/(?P<rest>.+)", re.DOTALL)
_MULTIPROCESSING = "multiprocessing/process.py"


def owner(frame: Frame) -> Owner:
    """By where its file lies."""
    if frame.native:
        return Owner.NATIVE
    if _INSTALLED.fullmatch(frame.file) or _AROUND.fullmatch(frame.file):
        return Owner.INSTALLED
    if frame.file.startswith("<frozen ") or _STANDARD.fullmatch(frame.file):
        return Owner.STANDARD
    return Owner.PROGRAM


def shown_file(frame: Frame) -> str:
    """As the package has it; of the program's own files the name and its folder."""
    for pattern in (_INSTALLED, _AROUND, _STANDARD):
        if not frame.native and (match := pattern.fullmatch(frame.file)) is not None:
            return match["rest"]
    return "/".join(frame.file.split("/")[-1 if frame.native else -2 :])


def shown(frame: Frame) -> str:
    """`load_sample (project/data.py:41)`."""
    return f"{frame.function} ({shown_file(frame)}{f':{frame.line}' if frame.line else ''})"


def key(frame: Frame) -> tuple[str, str, int]:
    """Calls of the same line are one, with the class (py-spy) or without it (faulthandler)."""
    return frame.function.rpartition(".")[2], shown_file(frame), frame.line


def lines(thread: Thread) -> str:
    """The stack as a fact of kind `stack`: a call a line, the innermost first."""
    return "\n".join(shown(frame) for frame in reversed(thread.frames))


def blamed(thread: Thread) -> Frame | None:
    """The deepest call of the program's own; where there is none, of what is installed, and so on.

    What it calls there waits, computes or sleeps for it, and is in the tree.
    """
    frames = own_calls(thread)
    return min(reversed(frames), key=owner, default=None)


def own_calls(thread: Thread) -> Sequence[Frame]:
    """Without those of the process that it was forked from: they stand above multiprocessing's."""
    starts = [
        index
        for index, frame in enumerate(thread.frames)
        if owner(frame) is Owner.STANDARD and shown_file(frame) == _MULTIPROCESSING
    ]
    return thread.frames[starts[-1] + 1 :] if starts else thread.frames


def busy_child(stacks: Stacks) -> tuple[Thread, Frame] | None:
    """A process that the rank started and that stands in the program's own code."""
    for thread in stacks.threads:
        if thread.main and thread.pid != stacks.pid and own_calls(thread) is not thread.frames:
            line = blamed(thread)
            if line is not None and owner(line) is Owner.PROGRAM:
                return thread, line
    return None


MOST_SHOWN = 16
"""Calls that ranks share, in the table; the JSON has them all."""


@dataclass(frozen=True, slots=True)
class Node:
    """Ranks that stand in the same calls, and where they part.

    Attributes:
        ranks: Ascending.
        frames: The calls that all of them are in below the parent's, the outermost first.
        children: By first rank; ranks of none of them stand in the last of the frames.
    """

    ranks: tuple[int, ...]
    frames: tuple[Frame, ...]
    children: tuple["Node", ...] = ()


def prefix_tree(stacks: Mapping[int, Sequence[Frame]]) -> Node:
    """The prefix tree of all stacks, by rank, the outermost call first.

    As STAT merges the stacks of parallel programs (Arnold et al., "Stack Trace Analysis for Large
    Scale Debugging", IPDPS 2007): ranks share a node as long as all their calls from the outermost
    on are the same, and part where one differs.

    Every rank's calls are those along its way, and of two siblings the first calls differ.
    """
    ranks = tuple(sorted(stacks))
    if not ranks:
        return Node((), ())
    keys = {rank: [key(frame) for frame in stacks[rank]] for rank in ranks}
    levels = zip(*keys.values(), strict=False)
    common = sum(1 for _ in takewhile(lambda calls: len(set(calls)) == 1, levels))
    by_next: dict[Any, dict[int, Sequence[Frame]]] = {}
    for rank in ranks:
        if len(keys[rank]) > common:
            by_next.setdefault(keys[rank][common], {})[rank] = stacks[rank][common:]
    return Node(
        ranks,
        tuple(stacks[ranks[0]][:common]),
        tuple(prefix_tree(some) for some in by_next.values()),
    )


def as_tree(node: Node) -> dict[str, Any]:
    """As JSON."""
    return {
        "ranks": list(node.ranks),
        "calls": [shown(frame) for frame in node.frames],
        "children": [as_tree(child) for child in node.children],
    }


MOST_BLAMED = 8
"""Ranks that are blamed at once, and asked for; each with a peer."""
MOST_RANKS = 16
"""Asked for where nobody is blamed."""
MOST_CLAUSES = 3
"""In a sentence."""

_STANDS: Mapping[str, str] = {
    "T": "is stopped (state T) in", "t": "is stopped by a tracer (state t) in",
    "D": "is inside the kernel (state D) in",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Choice:
    """Whose stacks are asked for.

    Attributes:
        blamed: Whom the verdict names.
        peers: Of each of these one that waits for it, if there is one.
        others: Where nobody is named.
        left_out: Ranks that would be asked for, were there fewer.
    """

    blamed: tuple[int, ...] = ()
    peers: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    left_out: int = 0

    @property
    def ranks(self) -> tuple[int, ...]:
        """All of them, the blamed first."""
        return tuple(dict.fromkeys((*self.blamed, *self.peers, *self.others)))


def choice(verdict: HangVerdict | None, there: Collection[int]) -> Choice:
    """The blamed ranks and a healthy peer of each one's group; all, where nobody is blamed.

    Args:
        verdict: None = there are no dumps to judge by.
        there: Ranks whose stacks can be asked for.
    """
    origins = () if verdict is None else verdict.origins
    named = [origin for origin in origins if origin.rank in there]
    if not named:
        suspects = () if verdict is None else verdict.suspects
        order = dict.fromkeys((*(rank for rank in suspects if rank in there), *sorted(there)))
        every = tuple(order)
        return Choice(others=every[:MOST_RANKS], left_out=max(0, len(every) - MOST_RANKS))
    assert verdict is not None
    guilty = {origin.rank for origin in origins}
    peers = []
    for origin in named[:MOST_BLAMED]:
        members = verdict.merged.members.get(origin.operation.group, ())
        fit = [rank for rank in (*sorted(origin.waiting), *members) if rank in there]
        peers += [rank for rank in fit if rank not in guilty][:1]
    ranks = tuple(origin.rank for origin in named[:MOST_BLAMED])
    return Choice(ranks, tuple(dict.fromkeys(peers)), (), max(0, len(named) - MOST_BLAMED))


def facts(all_stacks: Sequence[Stacks]) -> list[Fact]:
    """What the main thread of each rank says: helper threads stand in queues at any time."""
    return [
        Fact(stacks.rank, FactKind.STACK, lines(stacks.main))
        for stacks in all_stacks
        if stacks.main is not None and stacks.main.frames
    ]


def sentence(verdict: HangVerdict) -> str:
    """Where who is blamed stands, and where one who waits; "" where no stacks were taken."""
    stacks = {stacks.rank: stacks for stacks in verdict.merged.dumps.stacks}
    chosen = choice(verdict, stacks)
    if not stacks:
        return ""
    if not chosen.blamed:
        return _together(verdict, list(stacks.values()))
    clauses = []
    groups: dict[str, list[int]] = {}
    for rank in chosen.blamed:
        groups.setdefault(_where(verdict, stacks[rank], culprit=True), []).append(rank)
    for where, ranks in list(groups.items())[:MOST_CLAUSES]:
        clauses.append(f"{ranks_in_words(ranks)} {_of_many(where, ranks)}")
    words = "; ".join(clauses)
    if chosen.peers:
        peer = stacks[chosen.peers[0]]
        words += f", while {ranks_in_words([peer.rank])} {_where(verdict, peer)}"
    return f"{words[:1].upper()}{words[1:]}."


def _together(verdict: HangVerdict, stacks: Sequence[Stacks]) -> str:
    groups: dict[str, list[int]] = {}
    for one in stacks:
        groups.setdefault(_where(verdict, one), []).append(one.rank)
    clauses = [
        f"{ranks_in_words(ranks)} {_of_many(where, ranks)}"
        for where, ranks in list(groups.items())[:MOST_CLAUSES]
    ]
    more = len(groups) - len(clauses)
    words = "; ".join(clauses) + (f"; and {more} more places" if more > 0 else "")
    return f"{words[:1].upper()}{words[1:]}."


def _of_many(where: str, ranks: Sequence[int]) -> str:
    """The clause with its verb for several."""
    verb, _, rest = where.partition(" ")
    several = {"stands": "stand", "waits": "wait", "is": "are", "gave": "gave"}
    return f"{several.get(verb, verb)} {rest}" if len(ranks) > 1 else where


def _where(verdict: HangVerdict, stacks: Stacks, *, culprit: bool = False) -> str:
    """`stands in load_sample (data.py:41)`."""
    main = stacks.main
    line = None if main is None else blamed(main)
    if main is None or line is None:
        return f"gave no stack: {stacks.why or 'it has no thread that runs Python'}"
    place = f"`{line.function}` ({_file(line)})"
    waits = verdict.graph.waits.get(stacks.rank, ())
    if waits and not culprit and stacks.state not in _STANDS:
        return f"waits in {waits[0].operation.op} ({_file(line)})"
    words = f"{_STANDS.get(stacks.state, 'stands in')} {place}"
    if culprit and main.holds_gil:
        words += ", holding the GIL"
    if (child := busy_child(stacks)) is not None:
        words += f", and process {child[0].pid} of it in `{child[1].function}` ({_file(child[1])})"
    return words


def _file(frame: Frame) -> str:
    name = frame.file.rpartition("/")[2]
    return f"{name}:{frame.line}" if frame.line else name


def document(verdict: HangVerdict) -> dict[str, Any] | None:
    """As JSON; None = no stacks were taken."""
    all_stacks = verdict.merged.dumps.stacks
    if not all_stacks:
        return None
    return {
        "sentence": sentence(verdict),
        "tree": as_tree(_tree(all_stacks)),
        "ranks": [
            {
                "rank": stacks.rank,
                "state": stacks.state or None,
                "reader": None if stacks.reader is None else stacks.reader.value,
                "native": stacks.native,
                "why": stacks.why,
                "blamed_line": _line(stacks),
            }
            for stacks in all_stacks
        ],
    }


def _line(stacks: Stacks) -> dict[str, Any] | None:
    line = None if stacks.main is None else blamed(stacks.main)
    if line is None:
        return None
    return {"function": line.function, "file": line.file, "line": line.line or None}


def table(verdict: HangVerdict) -> str:
    """For people: the sentence, then who stands where; "" = no stacks were taken."""
    all_stacks = verdict.merged.dumps.stacks
    if not all_stacks:
        return ""
    lines_shown = [sentence(verdict), *_drawn(_tree(all_stacks), "  ")]
    lines_shown += [
        f"  {ranks_in_words([stacks.rank])}: {stacks.why}" for stacks in all_stacks if stacks.why
    ]
    for stacks in all_stacks:
        if (child := busy_child(stacks)) is not None:
            lines_shown.append(f"  process {child[0].pid} of {ranks_in_words([stacks.rank])}:")
            lines_shown += [f"    {line}" for line in _calls(own_calls(child[0]))]
    return "\n".join(lines_shown)


def _tree(all_stacks: Sequence[Stacks]) -> Node:
    return prefix_tree(
        {stacks.rank: stacks.main.frames for stacks in all_stacks if stacks.main is not None}
    )


def _drawn(node: Node, indent: str) -> list[str]:
    if not node.ranks:
        return []
    drawn = [f"{indent}{ranks_in_words(node.ranks)}"]
    drawn += [f"{indent}  {line}" for line in _calls(node.frames)]
    for each in node.children:
        drawn += _drawn(each, f"{indent}  ")
    return drawn


def _calls(frames: Sequence[Frame]) -> list[str]:
    """The innermost of them; who calls those is told in the JSON."""
    calls = [shown(frame) for frame in frames[-MOST_SHOWN:]]
    left = len(frames) - len(calls)
    return [f"… {left} calls above", *calls] if left > 0 else calls
