"""What one look tells, whoever was asked: gauges, rates, and which nodes answered."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lockstep.collector.contract import metrics as m

Labels = Mapping[str, str]
Row = tuple[Labels, float]
Who = tuple[str, int]
"""(run, rank)."""

GAUGES = (
    m.RANK_INFO, m.RANK_UP, m.RANK_LAST_STATE, m.TRAIN_OPEN_OP_AGE, m.TRAIN_HEARTBEAT_AGE,
    m.TRAIN_PROGRESS_AGE, m.HOST_CPUS, m.HOST_LOAD, m.HOST_MEMORY_TOTAL, m.HOST_MEMORY_AVAILABLE,
    m.GPU_INFO, m.GPU_UP, m.GPU_STALLED, m.GPU_UTILIZATION, m.GPU_TEMPERATURE, m.GPU_POWER,
    m.GPU_CLOCK, m.GPU_CLOCK_EVENT_ACTIVE,
)  # fmt: skip
"""What a look reads as it is; `node` of their labels is the node's name."""


class LookError(Exception):
    """Nothing answers; the message says which source and why."""


@dataclass(frozen=True, slots=True)
class Rates:
    """A rank over the last span; None = not known.

    Attributes:
        own: Own seconds a step, where all its collectives were timed
            (lockstep.analyzer.shapes.waits).
        step: Wall seconds a step; inf = no step was made.
        waits: Share of the time in collectives, 0 to 1.
    """

    own: float | None = None
    step: float | None = None
    waits: float | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A node's collector: how old its last answer is, and why there is no fresh one.

    Attributes:
        node: Its name, or its address while nobody told a name.
        age: Seconds; None = it never answered, or nobody knows when.
        why: Empty = it answers.
    """

    node: str
    age: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """One look.

    Attributes:
        source: Who was asked, without credentials.
        at: Unix seconds on the source's clock.
        span: Seconds that the rates are of; 0 = there are none yet.
        nodes: Every node that is known.
        gauges: Metric's name -> series of those that answer.
        rates: Of the ranks that were told of.
        findings: Sentences of open findings, the worst first; None = nobody tells of findings.
        doubts: Run -> why its status is unknown, as `lockstep watch` says; only where it watches.
        commands: Run -> the line that started it, secrets masked; of runs on this machine alone.
        warnings: That an answer was not whole, in the source's words.
    """

    source: str
    at: float
    span: float
    nodes: Sequence[Answered]
    gauges: Mapping[str, Sequence[Row]]
    rates: Mapping[Who, Rates]
    findings: Sequence[str] | None = None
    doubts: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    def rows(self, metric: m.Metric) -> Sequence[Row]:
        """The series of a metric."""
        return self.gauges.get(metric.name, ())


def by_name(rows: Iterable[tuple[str, Labels, float]]) -> dict[str, list[Row]]:
    """Metric's name -> its series."""
    found: dict[str, list[Row]] = {}
    for name, labels, value in rows:
        found.setdefault(name, []).append((labels, value))
    return found
