"""What sources give and pages show. Times are unix seconds; NaN = not known, and is no 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import Span as Span

Floats = NDArray[np.float64]


KEPT_BUCKETS = ("computing", "communication")
"""Titles of the buckets that goodput counts (lockstep.analyzer.ledger.buckets)."""


class Severity(StrEnum):
    """How bad something is; shown as icon, word and colour together."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run, as lists show it.

    Attributes:
        run: Its id.
        state: `running`, `ended`, `failed`, `hung`, `stopped` or `unknown`.
        span: When it ran; the end of one that goes on is the last thing known of it.
        workload: gpt, resnet, …; empty = not known.
        nodes, ranks: How many.
        layout: As `dp=4 pp=1 tp=2`; empty = not known.
        status: Of its verdict: healthy, degraded or unknown; None = it was not analyzed.
        sentence: Of its verdict.
        slowdown: Step time over ideal.
        baseline: Steps per second over those of its baseline, by what watch told in the last
            quarter of an hour; None = it has none, or it is over.
        lost_gpu_hours: So far.
        culprits: How many are named.
        folder: Of its archive, as people know it; empty without one.
        report: Whether a report lies there.
        tags: That people gave it.
        provenance: What of it was emulated or simulated, in words; shown wherever the run is.
        command: That started it, secrets masked; empty = not known.
        name: That it was given: its id begins with it; empty = none.
    """

    run: str
    state: str
    span: Span
    workload: str = ""
    nodes: int = 0
    ranks: int = 0
    layout: str = ""
    status: str | None = None
    sentence: str | None = None
    slowdown: float | None = None
    lost_gpu_hours: float | None = None
    culprits: int = 0
    folder: str = ""
    report: bool = False
    provenance: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    baseline: float | None = None
    command: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Where the rank-seconds of one run went (docs/method/ledger.md).

    Attributes:
        run, team: Whose; `unknown` = nobody names a team.
        sentence: As `71 % useful; the largest loss is node-7 (thermal), 9 %.`
        buckets: Title of a bucket -> rank-seconds, without stragglers.
        stragglers: Culprit and cause -> rank-seconds.
        missing: What could not be told.
        provenance: What was emulated or simulated.
        attempts: How many; None = not told.
        known_from: `archive` or `recording rules`.
        query: Where it comes from, if somebody can ask it again.
        starting: Part of starting -> rank-seconds; None = nobody measured it. Empty = not told
            apart.
    """

    run: str
    team: str
    sentence: str
    buckets: Mapping[str, float]
    stragglers: Mapping[str, float]
    missing: tuple[str, ...] = ()
    provenance: tuple[str, ...] = ()
    attempts: int | None = None
    known_from: str = "archive"
    query: str = ""
    starting: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def rank_seconds(self) -> float:
        """All of them."""
        return sum(self.buckets.values()) + sum(self.stragglers.values())

    @property
    def useful(self) -> float:
        """Rank-seconds of progress that was kept."""
        return sum(self.buckets.get(title, 0.0) for title in KEPT_BUCKETS)

    @property
    def losses(self) -> Mapping[str, float]:
        """All else, culprits by name."""
        rest = {each: value for each, value in self.buckets.items() if each not in KEPT_BUCKETS}
        return {**rest, **self.stragglers}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, at a moment or for a while.

    Attributes:
        at: When.
        until: Its end; None = a moment, or it goes on.
        kind: `xid`, `throttle`, `link`, `ecc`, `checkpoint`, `eval`, `restart`, `finding`, `gone`.
        severity: How bad.
        text: In a few words, ids included.
        run, node, gpu, rank: Whom it is about; empty or None = does not apply.
        finding: Id of the finding it begins or ends; empty = none.
    """

    at: float
    until: float | None
    kind: str
    severity: Severity
    text: str
    run: str = ""
    node: str = ""
    gpu: int | None = None
    rank: int | None = None
    finding: str = ""


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding: what is wrong, where, since when.

    Attributes:
        finding: Its id, unique within the source; the folder of its archive where there is one.
        severity: CRITICAL for tier page, WARNING for tier record.
        open: Whether it goes on.
        cause: A word of contract.words.Cause.
        confidence: Probability of the cause, 0 to 1.
        slowdown: Own time over expected own time; None where it does not apply.
        place_confidence: Probability that this is the place, 0 to 1.
        kind: A word of lockstep.analyzer.findings.finding.Kind; empty = not told.
        scope: As of lockstep.analyzer.findings.finding.WatchFinding; empty = not told.
        lost_seconds: Of `unit`s, that it alone has cost so far; None = not known.
        unit: Whose seconds these are: GPU or rank.
        lasts: Whether its end was not seen: the run ended first, and its place is suspect still.
    """

    finding: str
    severity: Severity
    open: bool
    run: str
    node: str
    gpu: int | None
    rank: int | None
    link: str
    cause: str
    confidence: float | None
    slowdown: float | None
    since: float
    until: float | None
    sentence: str
    place_confidence: float | None = None
    kind: str = ""
    scope: str = ""
    lost_seconds: float | None = None
    unit: str = "GPU"
    lasts: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """One chart's data: several lines over one time axis.

    Attributes:
        key: `loss`, `throughput`, `step`, `mfu`, `phases`, `gpu`, `cpu`, `memory`, `network`, …
        title: Of the chart, without the unit.
        unit: `s`, `tokens/s`, `ratio`, `bytes/s`, `celsius`, `W`, `Hz`, `nats`, …
        times: (T,) unix seconds, rising.
        values: Name of a line -> (T,).
        steps: (T,) optimizer step at each time; None = not told.
        band: Names of two lines that stand for the lower and upper edge of a band.
        stacked: Whether the lines are shares of a whole.
        sampling: How many raw values a point stands for, in words; empty = it is one.
        query: The PromQL or the frame expression it comes from, for people who want to look.
        help: What it tells, what is normal, what to do.
    """

    key: str
    title: str
    unit: str
    times: Floats
    values: Mapping[str, Floats]
    steps: Floats | None = None
    band: tuple[str, str] | None = None
    stacked: bool = False
    sampling: str = ""
    query: str = ""
    help: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Values by row and time: rank × window.

    Attributes:
        rows: (R,) names, as `rank 3 (node-1, GPU 1)`.
        times: (T,) unix seconds.
        steps: (T,) first step of each window; None = not told.
        values: (R, T).
    """

    title: str
    unit: str
    rows: tuple[str, ...]
    times: Floats
    steps: Floats | None
    values: Floats


@dataclass(frozen=True, slots=True)
class FleetMetric:
    """What a map of the fleet can show.

    Attributes:
        key: In addresses.
        higher: Which end is bad: True = high, False = low, None = neither.
        low, high: Ends of the colour scale; None = those of the data.
    """

    key: str
    title: str
    unit: str
    help: str
    higher: bool | None
    low: float | None = None
    high: float | None = None


FLEET_METRICS: tuple[FleetMetric, ...] = (
    FleetMetric("slowdown", "Own time over peers", "ratio",
                "A rank's own time per step over the median of its stratum; 1 = as its peers. "
                "From 1.1 on it holds the run back.", True, 1.0, 1.5),
    FleetMetric("utilization", "GPU utilisation", "ratio",
                "Share of the last second in which a kernel ran. Low in one place while its peers "
                "are high: it waits, or nothing runs there.", False, 0.0, 1.0),
    FleetMetric("temperature", "GPU temperature", "celsius",
                "Of the core. What is too hot depends on the model: see the margin on the page of "
                "the GPU.", True),
    FleetMetric("power", "GPU power", "W", "Draw now, of the board.", None),
    FleetMetric("clock", "SM clock", "Hz",
                "Low under load and below its peers: heat, power, or a fault.", False),
    FleetMetric("wait", "Share of the step spent waiting", "ratio",
                "Time in collectives over wall time. Everybody who waits for a straggler waits "
                "long; the straggler itself waits least.", None, 0.0, 1.0),
    FleetMetric("errors", "Errors", "events",
                "XIDs, uncorrected ECC errors and fallen GPUs, as counted since start.", True),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """One value a GPU, now.

    Attributes:
        metric: Which.
        at: Unix seconds.
        nodes: (G,) names, in the order of the map: rack, leaf, node.
        gpus: (G,) index on the node; -1 on CPU, where a place is a rank.
        ranks: (G,) rank of the run there, -1 = none.
        runs: (G,) id of the run there, empty = none.
        values: (G,).
        silent: Nodes that are known and did not answer.
        simulated: Whether these GPUs exist only in a program.
    """

    metric: FleetMetric
    at: float
    nodes: NDArray[np.str_]
    gpus: NDArray[np.int32]
    ranks: NDArray[np.int32]
    runs: NDArray[np.str_]
    values: NDArray[np.float32]
    silent: tuple[str, ...] = ()
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Who a node is.

    Attributes:
        node: Its name.
        facts: Name -> value, in order: host, rack, driver, kernel, GPU model, …
        gpus: One row a GPU: `gpu, uuid, model, run, rank`.
        runs: Ids of the runs on it in this span.
        checks: What was looked at on it.
    """

    node: str
    facts: Mapping[str, str]
    gpus: pd.DataFrame
    runs: tuple[str, ...]
    checks: "tuple[Check, ...]" = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Something that was looked at: what it is, how it is, what it says, what to do."""

    name: str
    severity: Severity
    text: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the numbers can be trusted.

    Attributes:
        checks: In the order of importance.
        sources: One row a scraped page: `node, up, age_seconds, series, scrape_seconds`; columns
            that nobody told are absent.
        about: Whom it is about where that is not all there is, as a sentence; empty = it is.
    """

    checks: tuple[Check, ...]
    sources: pd.DataFrame
    about: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """How whole the rest is: what every page says above its numbers.

    Attributes:
        name: Of the source, as `archive runs/gpt-…` or `http://prometheus:9090`.
        live: Whether it goes on.
        at: The last thing it knows of, unix seconds; None = nothing.
        now: Unix seconds on its clock.
        scrape_seconds: Between two scrapes; NaN = not known.
        nodes: How many should answer, and how many do.
        missing: What was looked for and not found, in words.
        left_out: Which runs are not among those that are told, and why, in sentences: for pages
            about all runs.
    """

    name: str
    live: bool
    at: float | None
    now: float
    scrape_seconds: float
    nodes: tuple[int, int]
    missing: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
