"""What `lockstep watch` remembers beside the streams of the sequential test, as JSON."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from analyzer.run import Fact
from analyzer.watch.finding import ByDumps, Former, Incident, Kind, Tier, WatchFinding, Who
from analyzer.watch.finding_lifecycle import Course
from analyzer.watch.hardware import Event, Gpu, Target
from analyzer.watch.inventory import Inventory, Seen
from analyzer.watch.progress import Progress
from analyzer.watch.reporting import Before
from analyzer.watch.run_life import End, Heard, How, Life, Lost, Place
from collector.contract import bounded_json
from collector.contract.words import Cause

FORMAT = "lockstep watch memory 1"


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


def from_json(text: str) -> Memory:
    """What `to_json` wrote.

    Raises:
        MemoryFileError: It is something else.
    """
    try:
        tree = bounded_json.loads(text)
        if tree["format"] != FORMAT:
            raise MemoryFileError(f"it says {str(tree['format'])[:40]!r}, not {FORMAT!r}")
        findings = [_finding(one) for one in tree["open"]]
        waiting = {
            (Who(**one["who"]), Tier(one["tier"])): (float(one["first"]), float(one["last"]))
            for one in tree["waiting"]
        }
        inventory = {name: _seen(rows) for name, rows in tree["inventory"].items()}
        return Memory(
            course=Course({(one.who, one.tier): one for one in findings}, waiting),
            runs={str(run): Progress(**one) for run, one in tree["runs"].items()},
            inventory=Inventory(**inventory),
            unwritten={str(name): int(tries) for name, tries in tree["unwritten"].items()},
            unclosed={str(name): float(when) for name, when in tree["unclosed"].items()},
            nodes={
                (str(job), str(instance)): (str(node), float(when))
                for job, instance, node, when in tree.get("nodes", ())
            },
            gpus={
                (str(job), str(instance)): frozenset(map(str, some))
                for job, instance, some in tree.get("gpus", ())
            },
            pages={
                str(run): frozenset((str(job), str(instance)) for job, instance in some)
                for run, some in tree.get("pages", {}).items()
            },
            events={
                (str(node), str(gpu)): _event(one) for node, gpu, one in tree.get("events", ())
            },
            told={
                str(node): {str(word): float(when) for word, when in words.items()}
                for node, words in tree.get("told", {}).items()
            },
            since=None if tree.get("since") is None else float(tree["since"]),
            lives={str(run): _life(one) for run, one in tree.get("lives", {}).items()},
            closed=tuple(_finding(one) for one in tree.get("closed", ())),
            renamed={str(new): str(old) for new, old in tree.get("renamed", {}).items()},
            taken={
                str(url): frozenset(map(str, marks)) for url, marks in tree.get("taken", {}).items()
            },
        )
    except MemoryFileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MemoryFileError(f"it is torn, or of another kind ({type(error).__name__})") from error


def _finding(tree: Mapping[str, Any]) -> WatchFinding:
    own = dict(tree)
    own["who"], own["kind"], own["tier"] = Who(**own["who"]), Kind(own["kind"]), Tier(own["tier"])
    own["facts"] = _facts(own["facts"])
    if (told := own.get("by_dumps")) is not None:
        own["by_dumps"] = ByDumps(str(told["sentence"]), _facts(told["facts"]))
    if (incident := own.get("incident")) is not None:
        own["incident"] = _incident(incident)
    own["former"] = tuple(
        Former(_incident(one["incident"]), float(one["until"])) for one in own.get("former", ())
    )
    finding = WatchFinding(**own)
    if finding.learnt is not None and "incident" not in tree:  # an older file
        before = replace(finding.alerted, cause=str(Cause.UNKNOWN))
        finding = replace(finding, former=(Former(before, finding.learnt),))
    return finding


def _incident(tree: Mapping[str, Any]) -> Incident:
    return Incident(
        Who(**tree["who"]), str(tree["cause"]), Tier(tree["tier"]), float(tree["opened"]),
        str(tree["folder"]),
    )  # fmt: skip


def _facts(rows: list[Any]) -> tuple[Fact, ...]:
    return tuple(Fact(**fact) for fact in rows)


def _of_life(life: Life) -> dict[str, Any]:
    end = None if life.end is None else asdict(life.end)
    return {
        "ranks": [[rank, *place] for rank, place in life.ranks.items()],
        "pages": sorted(life.pages), "attempt": life.attempt, "seen": life.seen,
        "again": life.again, "end": end, "heir": life.heir, "first": life.first,
        "lost": life.lost,
    }  # fmt: skip


def _life(tree: Mapping[str, Any]) -> Life:
    end = tree["end"]
    return Life(
        {int(rank): Place(str(node), int(gpu)) for rank, node, gpu in tree["ranks"]},
        frozenset((str(job), str(instance)) for job, instance in tree["pages"]),
        int(tree["attempt"]), float(tree["seen"]), float(tree["again"]),
        None if end is None else End(
            float(end["when"]), How(end["how"]), tuple(map(int, end["first"])),
            bool(end["by_scrapes"]), end["states"], Heard(end.get("heard", Heard.ANSWER)),
            float(end.get("noticed", 0.0)),
            math.inf if (gone := end.get("gone")) is None else float(gone),
            bool(end.get("told", tree.get("heir"))),  # older: told of, once it had one
        ),
        str(tree.get("heir", "")), float(tree.get("first", 0.0)),
        Lost(*map(float, lost)) if (lost := tree.get("lost")) else None,
    )  # fmt: skip


def _event(tree: Mapping[str, Any]) -> Event:
    return Event(**{**tree, "whos": tuple(Who(**who) for who in tree["whos"])})


def _seen(rows: list[Any]) -> Seen:
    return {tuple(map(str, names)): (float(most), float(last)) for names, most, last in rows}


def _plain(value: Any) -> Any:
    """Without numbers that JSON cannot say: nothing is known of them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
