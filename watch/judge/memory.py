"""What `lockstep watch` remembers beside the streams of the sequential test, as JSON."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from lockstep.analyzer.findings.finding import Former, Tier, WatchFinding, Who
from lockstep.analyzer.findings.finding_lifecycle import Course
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.metric_rows.ranges import COUNT, FLAG, NVLINKS, Range
from lockstep.collector.contract.words import Cause
from lockstep.watch.judge.hardware import Event, Gpu, Target
from lockstep.watch.judge.inventory import Inventory
from lockstep.watch.judge.progress import Progress
from lockstep.watch.judge.reporting import Before
from lockstep.watch.judge.run_life import End, Life, Lost, Place
from lockstep.watch.judge.shaped import WHOLE, ShapeError, moment, number, shaped

T = TypeVar("T")

FORMAT = "lockstep watch memory 1"
FIRST = frozenset({"open", "waiting", "runs", "unwritten", "unclosed"})
"""Parts that every version writes."""
ODD = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError)
"""What is raised over values of other types."""
MOST_SEEN = {"nodes": FLAG, "links": NVLINKS, "ports": FLAG}
"""How many of each thing of the inventory there can be at one place."""


class MemoryFileError(ValueError):
    """A text is no memory; the message says why."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Findings, how runs go, and what should be there.

    Attributes:
        unwritten: Folders of findings whose archive is not written yet, and how many processes
            began with it.
        unclosed: Folders of findings that closed, and when, which do not say so yet.
        nodes: (job, instance) -> node, and unix seconds at which its collector answered last.
        gpus: (job, instance) -> uuids of the GPUs of its ranks, as they were told last.
        pages: Run of a finding -> those that told of it last.
        events: The errors of GPUs, and whom they hit.
        told: Node -> what is told of its GPUs -> when it was last.
        since: Unix seconds since which it was looked without a pause; None = that is not known.
        lives: Run -> how it was seen last.
        closed: Findings that closed lately, or whose folder does not say so yet: their end may not
            have been told yet.
        renamed: New name of a node -> the name by which open findings call it.
        taken: Address of an Alertmanager -> which alerts it took, by `Alert.mark`.
    """

    course: Course = field(default_factory=lambda: Course({}, {}))
    runs: Mapping[str, Progress] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)
    unwritten: Mapping[str, int] = field(default_factory=dict)
    unclosed: Mapping[str, float] = field(default_factory=dict)
    nodes: Mapping[Target, tuple[str, float]] = field(default_factory=dict)
    gpus: Mapping[Target, frozenset[str]] = field(default_factory=dict)
    pages: Mapping[str, frozenset[Target]] = field(default_factory=dict)
    events: Mapping[Gpu, Event] = field(default_factory=dict)
    told: Before = field(default_factory=dict)
    since: float | None = None
    lives: Mapping[str, Life] = field(default_factory=dict)
    closed: tuple[WatchFinding, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, frozenset[str]] = field(default_factory=dict)


def to_json(memory: Memory) -> str:
    """The text; `from_json` reads it back."""
    course, inventory = memory.course, memory.inventory
    tree = {
        "format": FORMAT,
        "open": [asdict(one) for one in course.open.values()],
        "waiting": [
            {"who": asdict(who), "tier": tier, "first": first, "last": last}
            for (who, tier), (first, last) in course.waiting.items()
        ],
        "runs": {run: asdict(one) for run, one in memory.runs.items()},
        "inventory": {
            name: [[list(names), *one] for names, one in getattr(inventory, name).items()]
            for name in ("nodes", "links", "ports")
        },
        "unwritten": memory.unwritten,
        "unclosed": memory.unclosed,
        "nodes": [[*target, *told] for target, told in memory.nodes.items()],
        "gpus": [[*target, sorted(some)] for target, some in memory.gpus.items()],
        "pages": {run: sorted(some) for run, some in memory.pages.items()},
        "events": [[*gpu, asdict(one)] for gpu, one in memory.events.items()],
        "told": memory.told,
        "since": memory.since,
        "lives": {run: _of_life(one) for run, one in memory.lives.items()},
        "closed": [asdict(one) for one in memory.closed],
        "renamed": memory.renamed,
        "taken": {url: sorted(marks) for url, marks in memory.taken.items()},
    }
    return json.dumps(_plain(tree), allow_nan=False)


def from_json(text: str, refused: Callable[[str], None] = lambda _: None) -> Memory:
    """What `to_json` wrote; an entry that cannot be is left out, and the others stay.

    Args:
        text: The whole of it.
        refused: Is told of every entry that is left out, in a clause.

    Raises:
        MemoryFileError: It is something else.
    """
    try:
        tree = bounded_json.loads(text)
        if tree["format"] != FORMAT:
            raise MemoryFileError(f"it says {str(tree['format'])[:40]!r}, not {FORMAT!r}")
        entries = _Entries(tree, refused)
        findings = entries.of_list("open", _finding)
        return Memory(
            course=Course(
                {(one.who, one.tier): one for one in findings},
                dict(entries.of_list("waiting", _waiting)),
            ),
            runs=entries.of_object("runs", partial(shaped, Progress)),
            inventory=_inventory(tree["inventory"], refused),
            unwritten=entries.of_object("unwritten", _tries),
            unclosed=entries.of_object("unclosed", moment),
            nodes=dict(entries.of_list("nodes", _node)),
            gpus=dict(entries.of_list("gpus", _gpus)),
            pages=entries.of_object("pages", _pages),
            events=dict(entries.of_list("events", _event)),
            told=entries.of_object("told", _told),
            since=entries.of("since", lambda value: None if value is None else moment(value)),
            lives=entries.of_object("lives", _life),
            closed=tuple(entries.of_list("closed", _finding)),
            renamed=entries.of_object("renamed", _text),
            taken=entries.of_object("taken", lambda marks: frozenset(map(_text, marks))),
        )
    except MemoryFileError:
        raise
    except ODD as error:
        raise MemoryFileError(f"it is torn, or of another kind ({type(error).__name__})") from error


class _Entries:
    """The entries of each part of a tree; those of which nothing can be made are told of."""

    def __init__(self, tree: Mapping[str, Any], refused: Callable[[str], None]) -> None:
        self._tree, self._refused = tree, refused

    def of_list(self, name: str, make: Callable[[Any], T]) -> list[T]:
        rows = self._tree[name] if name in FIRST else self._tree.get(name, [])
        if not isinstance(rows, list):
            raise TypeError(name)
        made = [self._made(name, make, row) for row in rows]
        return [one for one in made if one is not None]

    def of_object(self, name: str, make: Callable[[Any], T]) -> dict[str, T]:
        rows = self._tree[name] if name in FIRST else self._tree.get(name, {})
        made = {key: self._made(f"{name} of {key!r}", make, row) for key, row in rows.items()}
        return {key: one for key, one in made.items() if one is not None}

    def of(self, name: str, make: Callable[[Any], T]) -> T | None:
        return self._made(name, make, self._tree.get(name))

    def _made(self, name: str, make: Callable[[Any], T], row: Any) -> T | None:
        try:
            return make(row)
        except ODD as error:
            words = str(error) if isinstance(error, ShapeError) else type(error).__name__
            self._refused(f"{name}: {words}")
            return None


def _finding(tree: Any) -> WatchFinding:
    found = shaped(WatchFinding, tree)
    # It becomes a path.
    if len(parts := found.folder.split("/")) != 2 or any(
        part in ("", ".", "..") or "\0" in part for part in parts
    ):
        raise ShapeError("WatchFinding.folder is no folder of a run")
    if found.learnt is not None and "incident" not in tree:  # an older file
        before = replace(found.alerted, cause=str(Cause.UNKNOWN))
        found = replace(found, former=(Former(before, found.learnt),))
    return found


def _waiting(tree: Any) -> tuple[tuple[Who, Tier], tuple[float, float]]:
    who = shaped(Who, tree["who"]), Tier(tree["tier"])
    return who, (moment(tree["first"]), moment(tree["last"]))


def _inventory(tree: Mapping[str, Any], refused: Callable[[str], None]) -> Inventory:
    entries = _Entries(tree, refused)
    return Inventory(
        **{
            name: dict(entries.of_list(name, partial(_seen, within)))
            for name, within in MOST_SEEN.items()
        }
    )


def _seen(within: Range, row: Any) -> tuple[tuple[str, ...], tuple[float, float]]:
    names, most, last = row
    return tuple(map(_text, names)), (number(most, within, "how many there were"), moment(last))


def _tries(value: Any) -> int:
    return int(number(value, COUNT, "how many tried"))


def _node(row: Any) -> tuple[Target, tuple[str, float]]:
    job, instance, node, when = row
    return (_text(job), _text(instance)), (_text(node), moment(when))


def _gpus(row: Any) -> tuple[Target, frozenset[str]]:
    job, instance, uuids = row
    return (_text(job), _text(instance)), frozenset(map(_text, uuids))


def _pages(rows: Any) -> frozenset[Target]:
    return frozenset((_text(job), _text(instance)) for job, instance in rows)


def _event(row: Any) -> tuple[Gpu, Event]:
    node, gpu, tree = row
    return (_text(node), _text(gpu)), shaped(Event, tree)


def _told(words: Any) -> dict[str, float]:
    return {_text(word): moment(when) for word, when in words.items()}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ShapeError("a name is no text")
    return value


def _of_life(life: Life) -> dict[str, Any]:
    end = None if life.end is None else asdict(life.end)
    return {
        "ranks": [[rank, *place] for rank, place in life.ranks.items()],
        "pages": sorted(life.pages), "attempt": life.attempt, "seen": life.seen,
        "again": life.again, "end": end, "heir": life.heir, "first": life.first,
        "lost": life.lost,
    }  # fmt: skip


def _life(tree: Any) -> Life:
    """Of older versions some of it is missing."""
    end = tree["end"]
    return Life(
        {_whole(rank): Place(_text(node), _whole(gpu)) for rank, node, gpu in tree["ranks"]},
        _pages(tree["pages"]),
        _whole(tree["attempt"]), moment(tree["seen"]), moment(tree["again"]),
        None if end is None else _end(end, told=bool(tree.get("heir"))),
        _text(tree.get("heir", "")), moment(tree.get("first", 0.0)),
        Lost(*map(moment, lost)) if (lost := tree.get("lost")) else None,
    )  # fmt: skip


def _end(tree: Mapping[str, Any], *, told: bool) -> End:
    """`told`: of an older version, which says it so."""
    found = shaped(End, {name: value for name, value in tree.items() if name != "gone"})
    gone = tree.get("gone")
    return replace(
        found,
        gone=math.inf if gone is None else moment(gone),
        told=found.told if "told" in tree else told,
    )


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise ShapeError("a number is not whole")
    return int(number(value, WHOLE, "a number"))


def _plain(value: Any) -> Any:
    """Without numbers that JSON cannot say: nothing is known of them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
