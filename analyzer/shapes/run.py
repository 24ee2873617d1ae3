"""The analyzer's types: Run, Grid, Finding, Evidence, Verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FloatGrid = NDArray[np.float64]


class LoadError(Exception):
    """The input cannot be read as a run; the message names the file and what would be right."""


STEPS_CERTAINTY = "steps_certainty"
"""Key of a run's meta: how sure it is that its windows are steps, where nobody reported steps."""
EXPECTED_STEPS = "expected_steps"
"""Key of the meta of a trace: how many steps should be there; what lies between is by design."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in unix seconds, `end` exclusive."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Exchange:
    """With whom a rank of somebody else's program exchanges data (contract RANK_EXCHANGE_INFO).

    Attributes:
        groups: A word for each group of ranks by which its data goes, the same on all members.
        peers: Ranks that it sends to or receives from.
        only_averages: Whether it does nothing but average gradients, beside barriers and a few
            numbers: then no rank hands it work.
    """

    groups: frozenset[str]
    peers: frozenset[int]
    only_averages: bool


@dataclass(frozen=True, slots=True)
class RankInfo:
    """Who a rank is; ids that do not apply are None.

    Attributes:
        model: Of its GPU; "" = nobody reported.
        external: Whether its program is somebody else's: its place may be assumed, and what it does
            at that place is not known.
        role: Of those at one place, who does the same work as whom
            (lockstep.analyzer.stragglers.model.roles).
        exchange: With whom it exchanges data; None = nobody reported.
    """

    rank: int
    node: str
    gpu: int | None
    uuid: str | None
    local_rank: int
    dp: int
    pp: int
    tp: int
    model: str = ""
    external: bool = False
    role: int = 0
    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One training run as tidy frames, at the resolution of windows (docs/method/case.md).

    Attributes:
        name: The run id.
        meta: `run.json` (empty when the run comes from elsewhere).
        ranks: One RankInfo a rank, in rank order, every rank that should exist.
        windows: One row a rank and window: `rank, attempt, from_step, to_step` (exclusive),
            `start, end` (unix seconds), `steps, wall_seconds, own_seconds, cpu_seconds,
            <phase>_seconds, collective_seconds, tags, loss, samples, tokens, flops`. A step is a
            window of length 1. Durations are sums over the window; NaN = not known.
        samples: contract.archive.SAMPLES as a frame; words are texts, or categories in the order
            of their letters with the empty one among them.
        ops: contract.archive.OPS as a frame, or None without operations.
        missing: What was looked for and not found, in words.
    """

    name: str
    meta: Mapping[str, Any]
    ranks: tuple[RankInfo, ...]
    windows: pd.DataFrame
    samples: pd.DataFrame
    ops: pd.DataFrame | None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Versions:
    """One piece of software over a run.

    Attributes:
        codes: (W, R) place in `words` of what each rank ran on; -1 = not reported.
        words: The versions.
    """

    codes: NDArray[np.int32]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A run on the axes (window, rank); NaN = did not answer.

    Attributes:
        run: The run id.
        ranks: RankInfo of each column.
        from_step, to_step: (W,) steps of each window, `to_step` exclusive.
        start, end: (W,) unix seconds, median over ranks.
        time: name -> (W, R) seconds per step: `wall, own, cpu, collective, gc`, each phase by its
            name. `gc` is part of a phase, known only where ranks record their collections.
        signals: `metric{labels}` (labels as in contract.archive.SAMPLES) -> (W, R), the node's,
            GPU's or rank's telemetry as the window saw it: gauges as they were, counters as rate
            per second. Metrics that never answered are not keys. A grid is made when it is asked
            for, and not kept (lockstep.analyzer.align.telemetry).
        last: `metric{labels}` -> (R,), the last value of each gauge, NaN = never, with its time in
            `last_time` -> (R,) unix seconds.
        scraped_until: The last successful scrape of each rank's node, (R,) unix seconds.
        masked: (W,) true where a step tag says slow by design.
        coverage: Share of expected (window, rank) cells that answered, 0 to 1.
        missing: What was not there, in words.
        meta: run.json.
        down_since: (R,) unix seconds of the first scrape from which the rank's process stayed
            gone, NaN = it was there at the last scrape or nobody knows; None = not looked for.
        work: (W,) predicted work of a step, median over ranks: model FLOPs, or tokens where those
            are not reported; NaN = not known, None = never reported.
        work_by_rank: (W, R) the same of each rank.
        scrape_seconds: Median time between two scrapes of a node; NaN = not known.
        versions: Software (analyzer.align.versions.SOURCES) -> its version on each rank; what
            nobody reported is no key.
    """

    run: str
    ranks: tuple[RankInfo, ...]
    from_step: NDArray[np.int64]
    to_step: NDArray[np.int64]
    start: FloatGrid
    end: FloatGrid
    time: Mapping[str, FloatGrid]
    signals: Mapping[str, FloatGrid]
    last: Mapping[str, FloatGrid]
    last_time: Mapping[str, FloatGrid]
    scraped_until: FloatGrid
    masked: NDArray[np.bool_]
    coverage: float
    missing: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    down_since: FloatGrid | None = None
    work: FloatGrid | None = None
    work_by_rank: FloatGrid | None = None
    scrape_seconds: float = float("nan")
    versions: Mapping[str, Versions] = field(default_factory=dict)


UNIFORM, STAGE_SLOWDOWN, SHARED_LOADING = "uniform", "stage-slowdown", "shared-loading"
FULL_NETWORK, SHARED_COOLING = "full-network", "shared-cooling"
NO_NODES_FAULT = (UNIFORM, STAGE_SLOWDOWN, SHARED_LOADING, FULL_NETWORK, SHARED_COOLING)
"""Kinds of structure by which a run is slower than it was: all ranks alike, all of a stage, what
ranks of most nodes read from, the network between all nodes, or what cools them all."""


OBSERVED = "observed"
"""Key of the details of a finding of kind `structure`: its text without what to look at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something is off at a rank; not yet why.

    Attributes:
        detector: Name of the detector that found it.
        kind: `slow` (its own time grew), `hang` (it is missing from a collective), `structure`
            (slow, but not by a node's fault), `anomaly` (hardware deviates), `change` (the whole
            run became slower, not all ranks alike), `link` (transfers take longer, and it is known
            between whom; accuses without a rank), `network` (the same, and it is not), or
            `heavy` (a node that alone holds a stage always was slower).
        rank: The suspect, or None for findings about the whole run.
        first, last: Windows of the Grid, `last` exclusive or None = to the end.
        slowdown: Own time over expected own time, >= 1; NaN where it does not apply.
        interval: 95 % interval of `slowdown`.
        score: Strength in standard errors, comparable within a detector.
        share: phase -> share of the excess own time, sums to 1 (empty for hangs).
        text: The facts in one sentence.
        details: Detector-specific facts for causes and report (JSON types only).
    """

    detector: str
    kind: str
    rank: int | None
    first: int
    last: int | None
    slowdown: float
    interval: tuple[float, float]
    score: float
    share: Mapping[str, float]
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def inside(self, grid: Grid) -> NDArray[np.bool_]:
        """(W,) whether each window is in its span."""
        windows = np.arange(len(grid.start))
        span: NDArray[np.bool_] = windows >= self.first
        return span if self.last is None else span & (windows < self.last)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A suspect that was let go, and why."""

    rank: int
    why: str


class Basis(StrEnum):
    """What a fact is read from."""

    STEPS = "steps"
    """Step times, waits and CPU time: they show who is slow, and seldom why."""
    TELEMETRY = "telemetry"
    PHASES = "phases"
    COLLECTOR = "garbage collector"
    OFF_PROCESSOR = "off the processor"
    LATENESS = "lateness"
    """Whom the other replicas wait for."""
    OUTCOME = "outcome"
    """How a launcher saw a rank end."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One observation for or against a cause.

    Attributes:
        supports: Whether it speaks for the cause.
        text: The observation in words.
        query: The PromQL or frame expression that shows it.
        basis: What it is read from.
        waits: Of a rank that stopped the run: `text` without how the rank itself stands.
    """

    supports: bool
    text: str
    query: str
    basis: Basis = Basis.STEPS
    waits: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the telemetry says about one cause of one finding.

    Attributes:
        cause: A word of contract.words.Cause.
        log_odds: Natural-log likelihood ratio of the observations under this cause against
            "unknown"; 0 = the telemetry is silent.
        facts: The observations.
        missing: Telemetry this cause needs and did not get.
    """

    cause: str
    log_odds: float
    facts: tuple[Fact, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Culprit:
    """A named culprit (docs/reference/verdict.md); ids that do not apply are None.

    `confidence` is about the cause, if this is the place. `place_confidence` is that this is the
    place, whatever the cause; None = nobody reported it, as in a verdict of an earlier version.
    `known_to_step` is the step after the last one in which it could be compared with anybody, where
    the run went on; None = to `to_step`, or the end. `of_ranks` is how many ranks of a node are
    slow, and how many it has in the run; None where that is no question.
    """

    scope: str
    rank: int | None
    node: str | None
    gpu: int | None
    uuid: str | None
    dp: int | None
    pp: int | None
    tp: int | None
    link: str | None
    from_step: int | None
    to_step: int | None
    since: str | None
    slowdown: float | None
    slowdown_interval: tuple[float, float] | None
    cause: str
    confidence: float
    tier: str
    evidence: tuple[Fact, ...]
    place_confidence: float | None = None
    known_to_step: int | None = None
    of_ranks: tuple[int, int] | None = None

    @property
    def who(self) -> str:
        """In a word or two: the rank, the link, the leaf or rack (named in `link`), or the node."""
        if self.rank is not None:
            return f"rank {self.rank}"
        if self.scope == "rack":
            return str(self.link)
        return f"the link {self.link}" if self.scope == "link" else str(self.node)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The conclusion about a run; `shapes.verdict_json` gives docs/reference/verdict.md exactly.

    `missing` says what was not there, `provenance` what was emulated or simulated, `lost_money`
    the lost GPU-hours at the price given (None = no price); `lost_per_day` is as
    analyzer.verdict.cost.PerDay reports it, and `recurrence` how often its culprits were
    culprits before (analyzer.verdict.recurrence). `history` is what was reported of the run before
    this verdict, beside it (lockstep.diagnose.history).
    """

    run: str
    status: str
    sentence: str
    slowdown: float | None
    slowdown_interval: tuple[float, float] | None
    lost_gpu_hours: float | None
    coverage: float
    culprits: tuple[Culprit, ...] = ()
    anomalies: tuple[Mapping[str, Any], ...] = ()
    hang: Mapping[str, Any] | None = None
    structure: tuple[Mapping[str, Any], ...] = ()
    what_if: Mapping[str, Any] = field(default_factory=lambda: {"method": "none"})
    rejected: tuple[Rejected, ...] = ()
    alternatives: tuple[Mapping[str, Any], ...] = ()
    missing: tuple[str, ...] = ()
    provenance: tuple[str, ...] = ()
    lost_money: float | None = None
    lost_gpu_hours_interval: tuple[float, float] | None = None
    lost_money_interval: tuple[float, float] | None = None
    lost_per_day: Mapping[str, Any] | None = None
    recurrence: tuple[Mapping[str, Any], ...] = ()
    history: tuple[Mapping[str, Any], ...] = ()
