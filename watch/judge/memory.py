"""What `lockstep watch` remembers beside the streams of the sequential test, as JSON."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import lru_cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from lockstep.analyzer.findings.finding import Former, Tier, WatchFinding, Who
from lockstep.analyzer.findings.finding_lifecycle import Course
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.metric_rows.ranges import (
    CLOCK,
    COUNT,
    FLAG,
    NVLINKS,
    RELATION,
    SECONDS_COUNTED,
    Range,
)
from lockstep.collector.contract.words import Cause
from lockstep.watch.judge.hardware import Event, Gpu, Inventory, Target
from lockstep.watch.judge.runs import End, Heard, Life, Lost, Place, Progress

T = TypeVar("T")
Before = Mapping[str, Mapping[str, float]]
"""Node -> what it reported -> unix seconds at which it last did."""

# JSON as dataclasses: other types and impossible numbers are refused. The file may be torn, edited
# or of another version, and a number out of its range would open a finding on every node.

PROBABILITY = Range(0, 1, "a probability")
QUANTITY = Range(0, SECONDS_COUNTED.high, "a count, or a duration")
WHOLE = Range(-1, 2.0**63, "a number of something; -1 = none")
OF_FIELDS: Mapping[str, Range] = {
    **dict.fromkeys(
        ("onset", "first_seen", "opened", "seen", "closed", "counted", "learnt", "since", "hour",
         "begun", "when", "noticed", "until", "ended", "paged"), CLOCK,
    ),
    "confidence": PROBABILITY, "place_confidence": PROBABILITY,
    "slowdown": RELATION, "reading": RELATION,
}  # fmt: skip
"""By the name of a field; of all others QUANTITY and WHOLE."""
ROUNDING = 1e-9
"""Ten times what a sum of a million doubles can lose; the relative tolerance is the same."""


class ShapeError(ValueError):
    """A tree is not what its type says; the message says where."""


def shaped(kind: type[T], tree: object) -> T:
    """A dataclass from the tree that `dataclasses.asdict` made of it; keys beyond it are ignored.

    Raises:
        ShapeError: A value is missing, of another type, or out of its range.
    """
    made: T = _value(kind, tree, kind.__name__, "")
    return made


def number(value: object, within: Range, name: str) -> float:
    """A number that can be; a sum or product that rounding put beyond an end is that end.

    Raises:
        ShapeError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ShapeError(f"{name} is no number")
    if not within.low <= value <= within.high:
        for end in (within.low, within.high):
            if isinstance(value, float) and math.isclose(value, end, abs_tol=ROUNDING):
                return float(end)
        raise ShapeError(f"{name} is {value:g}; it can be {within.low:g} to {within.high:g}")
    return float(value)


def moment(value: object) -> float:
    """Unix seconds that a clock can show.

    Raises:
        ShapeError: They are none.
    """
    return number(value, CLOCK, "a time")


@lru_cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _value(kind: Any, tree: object, where: str, name: str) -> Any:
    origin = get_origin(kind)
    if kind is Any or kind is object:
        return tree
    if origin in (Union, UnionType):
        return _of_union(kind, tree, where, name)
    if origin is not None:
        return _of_many(origin, get_args(kind), tree, where, name)
    if is_dataclass(kind):
        return _of_dataclass(kind, tree, where)
    if kind is float:
        return number(tree, OF_FIELDS.get(name, QUANTITY), where)
    if kind is int:
        if isinstance(tree, float):
            raise ShapeError(f"{where} is no whole number")
        number(tree, WHOLE, where)
        return tree
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(tree)
        except ValueError:
            raise ShapeError(f"{where} is no {kind.__name__}") from None
    if not isinstance(tree, kind):
        raise ShapeError(f"{where} is of another type")
    return tree


def _of_union(kind: Any, tree: object, where: str, name: str) -> Any:
    *others, last = [each for each in get_args(kind) if each is not NoneType]
    if tree is None and NoneType in get_args(kind):
        return None
    for each in others:
        try:
            return _value(each, tree, where, name)
        except ShapeError:
            continue
    return _value(last, tree, where, name)


def _of_many(origin: Any, kinds: tuple[Any, ...], tree: object, where: str, name: str) -> Any:
    if issubclass(origin, Mapping):
        if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
            raise ShapeError(f"{where} is no object")
        return {key: _value(kinds[1], value, f"{where}.{key}", name) for key, value in tree.items()}
    if not isinstance(tree, list | tuple):
        raise ShapeError(f"{where} is no list")
    make: Callable[[Any], Any] = origin
    return make(_value(kinds[0], value, where, name) for value in tree)


def _of_dataclass(kind: Any, tree: object, where: str) -> Any:
    if not isinstance(tree, dict):
        raise ShapeError(f"{where} is no object")
    found = {}
    for part in fields(kind):
        if part.name in tree:
            found[part.name] = _value(
                _hints(kind)[part.name], tree[part.name], f"{where}.{part.name}", part.name
            )
        elif part.default is MISSING and part.default_factory is MISSING:
            raise ShapeError(f"{where} has no {part.name}")
    return kind(**found)


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
    known = {name: value for name, value in tree.items() if name != "gone"}
    if known.get("heard") == "mixed":  # of an older version
        known["heard"] = Heard.UNREACHED
    found = shaped(End, known)
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
