"""Several runs on one cluster -> the part that holds them back, or what remains possible.

docs/method/waits.md: intersect what is slow over the topology; a part shared by all that is slow
and by nothing that is healthy is the suspect.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from lockstep.analyzer.read.places import KINDS, Places
from lockstep.analyzer.shapes.run import Culprit
from lockstep.analyzer.stats.shared_part import NODE, Part
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.collector.contract.words import Cause


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in unix seconds, `end` exclusive."""

    begin: float
    end: float

    def overlap(self, other: "Span") -> "Span | None":
        """What both have in common; None without any."""
        begin, end = max(self.begin, other.begin), min(self.end, other.end)
        return Span(begin, end) if begin < end else None


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as the others see it.

    Attributes:
        run: Its id.
        nodes: Where it ran.
        lasted: When it was seen.
        slow: When it was slow; empty = it was not.
        known: Whether it can be said at all.
        culprits: Who the run's own verdict names.
        emulated: Whether its nodes are emulated: their names say nothing about machines.
    """

    run: str
    nodes: frozenset[str]
    lasted: Span
    slow: tuple[Span, ...]
    known: bool
    culprits: tuple[Culprit, ...] = ()
    emulated: bool = False


@dataclass(frozen=True, slots=True)
class ClusterVerdict:
    """The conclusion about several runs.

    Attributes:
        status: `quiet` (no two runs were slow at the same time), `shared` (a part is named),
            `separate` (each slow run has a culprit of its own for a reason of its own) or
            `unknown`.
        sentence: That in words.
        when: When the slow runs were slow together; None = never that is known.
        slow, healthy, unjudged: Run ids: slow together then, healthy then, and neither.
        part: The shared part that is named.
        possible: All parts that every slow run uses and no healthy one does.
        confidence: Of `part`, 0 to 1; 0 without one.
        missing: What was not there, in words.
    """

    status: str
    sentence: str
    when: Span | None = None
    slow: tuple[str, ...] = ()
    healthy: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    part: Part | None = None
    possible: tuple[Part, ...] = ()
    confidence: float = 0.0
    missing: tuple[str, ...] = ()


SLOW_KINDS = frozenset({"slow", "hang", "link", "network", "change", "structure"})
"""Findings that say that the run's steps took longer, whoever's fault it is."""


def run_view(diagnosis: Diagnosis) -> RunView:
    """When a run was slow, and where it ran."""
    run, verdict = diagnosis.run, diagnosis.verdict
    lasted = _lasted(diagnosis)
    slow = () if verdict.status == "healthy" else tuple(_slow(diagnosis, lasted))
    return RunView(
        run=run.name,
        nodes=frozenset(info.node for info in run.ranks),
        lasted=lasted,
        slow=slow,
        known=verdict.status == "healthy" or bool(slow),
        culprits=verdict.culprits,
        emulated=run.meta.get("emulated_nodes") is True,
    )


def _slow(diagnosis: Diagnosis, lasted: Span) -> Iterator[Span]:
    grid = diagnosis.grid
    slow = [finding for finding in diagnosis.findings if finding.kind in SLOW_KINDS]
    for finding in slow:
        if finding.kind == "hang":
            begin = float(grid.end.max()) if len(grid.end) else lasted.begin
            yield Span(begin, lasted.end)
        elif len(grid.start):
            stop = len(grid.end) if finding.last is None else finding.last
            begin, end = float(grid.start[finding.first]), float(grid.end[stop - 1])
            if begin < end:
                yield Span(begin, end)
    if not slow:
        # A run without step times: its hardware says since when.
        for culprit in diagnosis.verdict.culprits:
            if culprit.since is not None:
                yield Span(datetime.fromisoformat(culprit.since).timestamp(), lasted.end)


def _lasted(diagnosis: Diagnosis) -> Span:
    """From the first to the last thing that was heard of the run."""
    grid, samples = diagnosis.grid, diagnosis.run.samples
    sampled = samples["time"].to_numpy(dtype=float)
    times = np.concatenate([grid.start, grid.end, sampled])
    times = times[np.isfinite(times)]
    return Span(float(times.min()), float(times.max())) if times.size else Span(0.0, 0.0)


WIDER = 0.8
"""Factor of the confidence for each wider part that remains possible too: the narrower one explains
less that was not seen."""
NAMED = 0.5
"""Confidence in the place from which a run's own culprit stands for its nodes."""
OF_PLACE = frozenset({"rank", "gpu", "node", "rack"})
ORDER = (NODE, *KINDS)


def cluster(views: Sequence[RunView], places: Places) -> ClusterVerdict:
    """The verdict about runs that shared a cluster.

    The confidence is a rule, not calibrated: each slow run beyond the first halves the doubt that
    they were slow at the same time by accident; it falls with the share of nodes whose place is
    not known and by WIDER.

    Args:
        views: The runs; of two with the same id the last counts.
        places: node -> kind -> part, from a topology.toml; may be empty: only nodes can be shared.
    """
    runs, others = comparable(views)
    verdict = _of_comparable(runs, places)
    if not others:
        return verdict
    return replace(
        verdict,
        sentence=f"{verdict.sentence} {left_out(others)}",
        unjudged=(*verdict.unjudged, *(view.run for view in others)),
    )


def comparable(views: Sequence[RunView]) -> tuple[tuple[RunView, ...], tuple[RunView, ...]]:
    """(runs whose nodes can be the same machines, those left out).

    An emulated node has the name of a real one by accident: the real runs are judged, or the
    emulated ones where only those are two or more.
    """
    runs = tuple({view.run: view for view in views}.values())
    real = tuple(view for view in runs if not view.emulated)
    emulated = tuple(view for view in runs if view.emulated)
    return (emulated, real) if len(real) < 2 <= len(emulated) or not real else (real, emulated)


def _of_comparable(runs: Sequence[RunView], places: Places) -> ClusterVerdict:
    together = slow_together(runs)
    dark = tuple(view.run for view in runs if not view.known)
    if together is None:
        if dark and sum(bool(view.slow) or not view.known for view in runs) >= 2:
            return ClusterVerdict("unknown", unjudged(runs), unjudged=dark)
        return ClusterVerdict("quiet", quiet(runs), unjudged=dark)
    when, slow = together
    healthy = tuple(view for view in runs if view.known and view not in slow and _well(view, when))
    possible, cleared = _possible(slow, healthy, places)
    part = _named(possible)
    apart = part is not None and _apart(part, slow, cleared)
    missing = tuple(_missing(slow, healthy, places))
    if part is not None and healthy and not apart:
        missing += (f"no other {part.kind} that is known to be healthy",)
    facts = ClusterVerdict(
        "unknown", "", when, tuple(view.run for view in slow),
        tuple(view.run for view in healthy), dark, missing=missing,
    )  # fmt: skip
    own = [named[0] for named in map(_culprits, slow) if named]
    causes = {culprit.cause for culprit in own}
    differ = len(own) == len(causes) == len(slow) and Cause.UNKNOWN not in causes
    if differ and not possible:
        return replace(facts, status="separate", sentence=separate(slow, own))
    # Runs that blame different causes are held back by one node at most, not by a leaf or storage.
    if part is None or not apart or (differ and part.kind != NODE):
        words = unknown(slow, healthy, possible, missing)
        return replace(facts, sentence=words, possible=possible)
    wider = len({part.kind for part in possible}) - 1
    confidence = (1.0 - 0.5 ** (len(slow) - 1)) * WIDER**wider * _placed(slow, places)
    words = shared(slow, healthy, part, confidence, missing)
    return replace(
        facts, status="shared", sentence=words, possible=possible, part=part, confidence=confidence
    )


def _well(view: RunView, when: Span) -> bool:
    """Whether a run was there and not slow at that time."""
    return view.lasted.overlap(when) is not None and not any(
        span.overlap(when) for span in view.slow
    )


def _culprits(view: RunView) -> list[Culprit]:
    """Whom the run itself blames, where that is a place and certain enough."""
    named = [
        culprit
        for culprit in view.culprits
        if culprit.scope in OF_PLACE and culprit.node is not None
    ]
    return [culprit for culprit in named if _sure(culprit) >= NAMED]


def _sure(culprit: Culprit) -> float:
    in_place = culprit.place_confidence
    return culprit.confidence if in_place is None else in_place


def _blamed(view: RunView) -> frozenset[str]:
    return frozenset(str(culprit.node) for culprit in _culprits(view))


def _possible(
    slow: Sequence[RunView], healthy: Sequence[RunView], places: Places
) -> tuple[tuple[Part, ...], frozenset[Part]]:
    """Parts that each slow run uses and no healthy one, the narrowest kind first; the cleared ones.

    Of a run that names its culprits these are the slow nodes, and its others are healthy.
    """
    groups, well = [], [node for view in healthy for node in view.nodes]
    for view in slow:
        named = _blamed(view)
        groups.append(_used(view, named or view.nodes, places))
        if named:
            well += view.nodes - named
    common = frozenset.intersection(*groups)
    cleared = {Part(kind, name) for node in well for kind, name in places.get(node, {}).items()}
    cleared |= {Part(NODE, node) for node in well}
    left = [part for part in common - cleared if part.kind in ORDER]
    order = sorted(left, key=lambda part: (ORDER.index(part.kind), part.name))
    return tuple(order), frozenset(cleared)


def _apart(part: Part, slow: Sequence[RunView], cleared: frozenset[Part]) -> bool:
    """Whether anything separates a part from what all runs use.

    That is another part of its kind that is healthy, or for a node that each slow run blames it.
    """
    blamed = part.kind == NODE and all(part.name in _blamed(view) for view in slow)
    return blamed or any(cleared_part.kind == part.kind for cleared_part in cleared)


def _used(view: RunView, nodes: frozenset[str], places: Places) -> frozenset[Part]:
    parts = {Part(kind, name) for node in nodes for kind, name in places.get(node, {}).items()}
    # Emulated nodes of two runs have the same names and are not the same machine.
    return frozenset(parts | (set() if view.emulated else {Part(NODE, node) for node in nodes}))


def _named(possible: Sequence[Part]) -> Part | None:
    """The one part of the narrowest kind; None where there is none, or several."""
    narrow = [part for part in possible if part.kind == possible[0].kind]
    return narrow[0] if len(narrow) == 1 else None


def _placed(slow: Sequence[RunView], places: Places) -> float:
    """Share of the slow runs' nodes whose place is known; 1 where no places are told at all."""
    nodes = {node for view in slow for node in view.nodes}
    return sum(node in places for node in nodes) / len(nodes) if places and nodes else 1.0


def _missing(slow: Sequence[RunView], healthy: Sequence[RunView], places: Places) -> list[str]:
    words = []
    nodes = sorted({node for view in slow for node in view.nodes})
    without = [node for node in nodes if node not in places]
    if not places:
        words.append("no topology: leaves, racks and storage are unknown")
    elif without:
        words.append(f"the place of {len(without)} of {len(nodes)} nodes is unknown")
    if not healthy:
        words.append("no healthy run at that time that would clear a part")
    if any(view.emulated for view in slow):
        words.append("emulated nodes: the same name in two runs is not the same machine")
    return words


SECONDS_AT_LEAST = 1.0
"""Two runs that were slow together for less were slow one after the other."""


def slow_together(views: Sequence[RunView]) -> tuple[Span, tuple[RunView, ...]] | None:
    """The largest set of runs that were slow at one time, and when; None if no two were.

    Of sets of the same size the one that was together longest counts. A set of open intervals
    that have a time in common has the begin of one of them in common, so that only begins are
    looked at.
    """
    best: tuple[Span, tuple[RunView, ...]] | None = None
    for begin in sorted({span.begin for view in views for span in view.slow}):
        here = [
            (view, span)
            for view in views
            for span in view.slow
            if span.begin <= begin < span.end
        ]  # fmt: skip
        runs = {view.run: view for view, _ in here}
        end = min((_longest(here, run) for run in runs), default=begin)
        if len(runs) < 2 or end - begin < SECONDS_AT_LEAST:
            continue
        candidate = (Span(begin, end), tuple(runs.values()))
        if best is None or _size(candidate) > _size(best):
            best = candidate
    return best


def _longest(here: Sequence[tuple[RunView, Span]], run: str) -> float:
    return max(span.end for view, span in here if view.run == run)


def _size(slow: tuple[Span, tuple[RunView, ...]]) -> tuple[int, float]:
    return len(slow[1]), slow[0].end - slow[0].begin


MOST = 4
"""Names in a list; of more, how many."""


def quiet(views: Sequence[RunView]) -> str:
    """No two runs were slow at the same time."""
    slow = [view.run for view in views if view.slow]
    dark = [view.run for view in views if not view.known]
    words = f"No two of {len(views)} runs were slow at the same time"
    words += f"; only {slow[0]} was slow" if len(slow) == 1 else ""
    words += f"; {listed(dark)} cannot be judged" if dark else ""
    return f"{words}."


def unjudged(views: Sequence[RunView]) -> str:
    """No two runs were seen slow at the same time; of some it cannot be said."""
    slow = [view.run for view in views if view.known and view.slow]
    dark = [view.run for view in views if not view.known]
    words = f"Unknown: no two of {len(views)} runs were seen slow at the same time, but"
    words += f" {listed(slow)} {'was' if len(slow) == 1 else 'were'} slow and" if slow else ""
    return f"{words} {listed(dark)} cannot be judged."


def separate(slow: Sequence[RunView], culprits: Sequence[Culprit]) -> str:
    """Each run has a culprit of its own, for a reason of its own."""
    pairs = zip(slow, culprits, strict=True)
    own = [f"{view.run} by {culprit.who} ({culprit.cause})" for view, culprit in pairs]
    return (
        f"{len(slow)} runs were slow at the same time, each for a reason of its own:"
        f" {listed(own)}. Nothing that they share is needed to explain it."
    )


def shared(
    slow: Sequence[RunView], healthy: Sequence[RunView], part: Part, confidence: float,
    missing: Sequence[str],
) -> str:  # fmt: skip
    """One part is named."""
    who = listed([view.run for view in slow])
    well = f" and none of {len(healthy)} healthy ones does" if healthy else ""
    return (
        f"{str(part)[0].upper()}{str(part)[1:]} probably holds {len(slow)} runs back ({who}): all"
        f" of them use it{well}. Confidence in that part {confidence:.2f}.{_absent(missing)}"
    )


def unknown(
    slow: Sequence[RunView], healthy: Sequence[RunView], possible: Sequence[Part],
    missing: Sequence[str],
) -> str:  # fmt: skip
    """None is, or too many are."""
    begin = f"Unknown: {len(slow)} runs were slow at the same time"
    begin += f" ({listed([view.run for view in slow])})"
    if possible:
        names = [str(part) for part in possible]
        well = f" and by none of {len(healthy)} healthy runs" if healthy else ""
        return (
            f"{begin}, and each of these parts is used by all of them{well}:"
            f" {listed(names)}.{_absent(missing)}"
        )
    return (
        f"{begin}, and no part that is known is used by all of them and by no healthy run: what"
        f" remains is something that all runs use, several faults, or accident.{_absent(missing)}"
    )


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    rest = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {rest} more" if rest > 0 else "")


def _absent(missing: Sequence[str]) -> str:
    return f" Missing: {'; '.join(missing)}." if missing else ""


def left_out(others: Sequence[RunView]) -> str:
    """That emulated and real nodes are not compared."""
    each = "run is" if len(others) == 1 else "runs are"
    kind, other = ("emulated", "real") if others[0].emulated else ("real", "emulated")
    return (
        f"{len(others)} {each} left out ({listed([view.run for view in others])}): of {kind} nodes,"
        f" and {other} ones of the same names are other machines."
    )


def cluster_json(verdict: ClusterVerdict) -> Mapping[str, Any]:
    """The verdict as JSON types; times are unix seconds."""
    return {
        "schema_version": 1,
        "status": verdict.status,
        "sentence": verdict.sentence,
        "from": None if verdict.when is None else verdict.when.begin,
        "until": None if verdict.when is None else verdict.when.end,
        "slow": list(verdict.slow),
        "healthy": list(verdict.healthy),
        "unjudged": list(verdict.unjudged),
        "part": None if verdict.part is None else _part(verdict.part),
        "possible": [_part(part) for part in verdict.possible],
        "confidence": round(verdict.confidence, 3),
        "missing": list(verdict.missing),
    }


def _part(part: Part) -> Mapping[str, str]:
    return {"kind": part.kind, "name": part.name}


# Several runs -> the part of the cluster that holds them back, or what remains possible.
#
# docs/method/waits.md: intersect what is slow over the topology; a part shared by all that is slow
# and by nothing that is healthy is the suspect.
