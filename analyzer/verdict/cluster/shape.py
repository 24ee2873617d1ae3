"""What is known of a run beside others, and what is concluded about several."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.analyzer.shapes.run import Culprit
from lockstep.analyzer.stats.shared_part import Part


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
        "possible": [_part(each) for each in verdict.possible],
        "confidence": round(verdict.confidence, 3),
        "missing": list(verdict.missing),
    }


def _part(part: Part) -> Mapping[str, str]:
    return {"kind": part.kind, "name": part.name}
