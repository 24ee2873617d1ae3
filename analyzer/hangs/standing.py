"""Whose stacks are asked for, and where they stand in a sentence and a tree."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lockstep.analyzer.hangs.frames import blamed, busy_child, lines, own_calls, shown
from lockstep.analyzer.hangs.shapes import Fact, FactKind
from lockstep.analyzer.hangs.stack_tree import MOST_SHOWN, Node, as_tree, merged
from lockstep.analyzer.hangs.verdict import HangVerdict
from lockstep.analyzer.hangs.words import ranks_told
from lockstep.collector.contract.stacks import Frame, Stacks

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
    named = [one for one in origins if one.rank in there]
    if not named:
        suspects = () if verdict is None else verdict.suspects
        order = dict.fromkeys((*(rank for rank in suspects if rank in there), *sorted(there)))
        every = tuple(order)
        return Choice(others=every[:MOST_RANKS], left_out=max(0, len(every) - MOST_RANKS))
    assert verdict is not None
    guilty = {one.rank for one in origins}
    peers = []
    for one in named[:MOST_BLAMED]:
        members = verdict.merged.members.get(one.operation.group, ())
        fit = [rank for rank in (*sorted(one.waiting), *members) if rank in there]
        peers += [rank for rank in fit if rank not in guilty][:1]
    ranks = tuple(one.rank for one in named[:MOST_BLAMED])
    return Choice(ranks, tuple(dict.fromkeys(peers)), (), max(0, len(named) - MOST_BLAMED))


def facts(stacks: Sequence[Stacks]) -> list[Fact]:
    """What the main thread of each rank says: helper threads stand in queues at any time."""
    return [
        Fact(one.rank, FactKind.STACK, lines(one.main))
        for one in stacks
        if one.main is not None and one.main.frames
    ]


def sentence(verdict: HangVerdict) -> str:
    """Where who is blamed stands, and where one who waits; "" where no stacks were taken."""
    stacks = {one.rank: one for one in verdict.merged.dumps.stacks}
    chosen = choice(verdict, stacks)
    if not stacks:
        return ""
    if not chosen.blamed:
        return _together(verdict, list(stacks.values()))
    told = []
    groups: dict[str, list[int]] = {}
    for rank in chosen.blamed:
        groups.setdefault(_where(verdict, stacks[rank], culprit=True), []).append(rank)
    for where, ranks in list(groups.items())[:MOST_CLAUSES]:
        told.append(f"{ranks_told(ranks)} {_of_many(where, ranks)}")
    words = "; ".join(told)
    if chosen.peers:
        peer = stacks[chosen.peers[0]]
        words += f", while {ranks_told([peer.rank])} {_where(verdict, peer)}"
    return f"{words[:1].upper()}{words[1:]}."


def _together(verdict: HangVerdict, stacks: Sequence[Stacks]) -> str:
    groups: dict[str, list[int]] = {}
    for one in stacks:
        groups.setdefault(_where(verdict, one), []).append(one.rank)
    told = [
        f"{ranks_told(ranks)} {_of_many(where, ranks)}"
        for where, ranks in list(groups.items())[:MOST_CLAUSES]
    ]
    more = len(groups) - len(told)
    words = "; ".join(told) + (f"; and {more} more places" if more > 0 else "")
    return f"{words[:1].upper()}{words[1:]}."


def _of_many(where: str, ranks: Sequence[int]) -> str:
    """The clause with its verb for several."""
    verb, _, rest = where.partition(" ")
    several = {"stands": "stand", "waits": "wait", "is": "are", "gave": "gave"}
    return f"{several.get(verb, verb)} {rest}" if len(ranks) > 1 else where


def _where(verdict: HangVerdict, one: Stacks, *, culprit: bool = False) -> str:
    """`stands in load_sample (data.py:41)`."""
    main = one.main
    line = None if main is None else blamed(main)
    if main is None or line is None:
        return f"gave no stack: {one.why or 'it has no thread that runs Python'}"
    place = f"`{line.function}` ({_file(line)})"
    waits = verdict.graph.waits.get(one.rank, ())
    if waits and not culprit and one.state not in _STANDS:
        return f"waits in {waits[0].operation.op} ({_file(line)})"
    words = f"{_STANDS.get(one.state, 'stands in')} {place}"
    if culprit and main.holds_gil:
        words += ", holding the GIL"
    if (child := busy_child(one)) is not None:
        words += f", and process {child[0].pid} of it in `{child[1].function}` ({_file(child[1])})"
    return words


def _file(one: Frame) -> str:
    name = one.file.rpartition("/")[2]
    return f"{name}:{one.line}" if one.line else name


def document(verdict: HangVerdict) -> dict[str, Any] | None:
    """As JSON; None = no stacks were taken."""
    stacks = verdict.merged.dumps.stacks
    if not stacks:
        return None
    return {
        "sentence": sentence(verdict),
        "tree": as_tree(_tree(stacks)),
        "ranks": [
            {
                "rank": one.rank,
                "state": one.state or None,
                "reader": None if one.reader is None else one.reader.value,
                "native": one.native,
                "why": one.why,
                "blamed_line": _line(one),
            }
            for one in stacks
        ],
    }


def _line(one: Stacks) -> dict[str, Any] | None:
    line = None if one.main is None else blamed(one.main)
    if line is None:
        return None
    return {"function": line.function, "file": line.file, "line": line.line or None}


def table(verdict: HangVerdict) -> str:
    """For people: the sentence, then who stands where; "" = no stacks were taken."""
    stacks = verdict.merged.dumps.stacks
    if not stacks:
        return ""
    told = [sentence(verdict), *_drawn(_tree(stacks), "  ")]
    told += [f"  {ranks_told([one.rank])}: {one.why}" for one in stacks if one.why]
    for one in stacks:
        if (child := busy_child(one)) is not None:
            told.append(f"  process {child[0].pid} of {ranks_told([one.rank])}:")
            told += [f"    {line}" for line in _calls(own_calls(child[0]))]
    return "\n".join(told)


def _tree(stacks: Sequence[Stacks]) -> Node:
    return merged({one.rank: one.main.frames for one in stacks if one.main is not None})


def _drawn(node: Node, indent: str) -> list[str]:
    if not node.ranks:
        return []
    told = [f"{indent}{ranks_told(node.ranks)}"]
    told += [f"{indent}  {line}" for line in _calls(node.frames)]
    for each in node.children:
        told += _drawn(each, f"{indent}  ")
    return told


def _calls(frames: Sequence[Frame]) -> list[str]:
    """The innermost of them; who calls those is told in the JSON."""
    told = [shown(one) for one in frames[-MOST_SHOWN:]]
    left = len(frames) - len(told)
    return [f"… {left} calls above", *told] if left > 0 else told
