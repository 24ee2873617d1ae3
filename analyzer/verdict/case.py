"""A case: a run and all conclusions so far (docs/method/verdict.md)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.causes.cause_weights import Posterior
from lockstep.analyzer.operations.examine import Look, trace_grid
from lockstep.analyzer.operations.observe import from_zero
from lockstep.analyzer.read.optrace.load import run_of_trace
from lockstep.analyzer.shapes.labels import number, parsed
from lockstep.analyzer.shapes.operations import Trace
from lockstep.analyzer.shapes.run import Evidence, Finding, Grid, Run, Verdict
from lockstep.analyzer.shapes.wording import listed
from lockstep.analyzer.stragglers.model.precision import OPERATIONS, WINDOWS, Precision
from lockstep.analyzer.stragglers.step_time import Cost
from lockstep.collector.contract.metrics import RANK_INFO

NOTHING_SEEN = Look()


@dataclass(frozen=True, slots=True)
class Accused:
    """A finding that names somebody, and why that is slow or stopped."""

    finding: Finding
    causes: Posterior


@dataclass(frozen=True, slots=True)
class Case:
    """What passes from stage to stage (verdict.pipeline.STAGES); each adds one thing.

    Attributes:
        run: The run as it was read.
        grid: The run on the axes (window, rank).
        verdict: As far as it is made.
        gpu_hour_price: Money per GPU-hour; None = no price.
        seen: What the operations show.
        findings: What is off, not yet why.
        evidences: `evidences[i]` is about `findings[i]`; empty where that neither accuses nor is
            about all ranks alike.
        accused: The findings that accuse: first who stopped the run, then the slowest.
        bounds: Their cost at most, by the windows; None = not known.
        why_unknown: Why a run without culprit cannot be called healthy; None = it can.
        trace: The operations, where there is nothing else; the grid is made of them then.
    """

    run: Run
    grid: Grid
    verdict: Verdict
    gpu_hour_price: float | None = None
    seen: Look = NOTHING_SEEN
    findings: tuple[Finding, ...] = ()
    evidences: tuple[tuple[Evidence, ...], ...] = ()
    accused: tuple[Accused, ...] = ()
    bounds: Cost | None = None
    why_unknown: str | None = None
    trace: Trace | None = None

    @property
    def precision(self) -> Precision:
        """What own time of the grid can tell."""
        return WINDOWS if self.trace is None else OPERATIONS

    def accused_of(self, kind: str) -> list[Finding]:
        """The findings of a kind (`slow`, `hang`, `link`) that accuse, the worst first."""
        return [accused.finding for accused in self.accused if accused.finding.kind == kind]

    def first(self, kinds: Sequence[str]) -> Finding | None:
        """The first finding of one of these kinds; None without."""
        return next((finding for finding in self.findings if finding.kind in kinds), None)


def opened(run: Run | Trace, *, gpu_hour_price: float | None = None) -> Case:
    """The case of a run: aligned (docs/method/case.md), and nothing is concluded yet.

    Args:
        run: The run, or a trace of operations that are all there is of one.
        gpu_hour_price: Money per GPU-hour, for `Verdict.lost_money`.
    """
    if isinstance(run, Run):
        grid = align(run)
        return Case(run, grid, blank(grid), gpu_hour_price)
    trace = from_zero(run)
    windows = run_of_trace(trace)
    grid = trace_grid(trace, windows)
    return Case(windows, grid, blank(grid), gpu_hour_price, trace=trace)


def blank(grid: Grid) -> Verdict:
    """The verdict before anything is concluded."""
    return Verdict(
        run=grid.run,
        status="unknown",
        sentence="",
        slowdown=None,
        slowdown_interval=None,
        lost_gpu_hours=None,
        coverage=grid.coverage,
    )


def accuses(finding: Finding) -> bool:
    """Whether a finding names a culprit; the others confirm or describe.

    What all ranks of a stage or of the run share is of kind `structure`: it is nobody's fault.
    """
    return finding.kind in ("slow", "hang", "link")


def of_last_launch(run: Run) -> Run:
    """The run without the ranks that its last launch lacks; unchanged where that has all.

    torchrun can go on with fewer ranks. The newest attempt and its world size, in the info series
    of the ranks, say so. A rank that only went, where nothing was started again, is missing and
    stays.
    """
    gone = _left_out(run)
    if not gone:
        return run

    def kept(table: pd.DataFrame) -> pd.DataFrame:
        return table[~table["rank"].isin(gone)].reset_index(drop=True)

    some = f"rank{'s' * (len(gone) > 1)} {listed(sorted(gone))}"
    words = (
        f"the run went on without {some}: its last launch has {len(run.ranks) - len(gone)} ranks,"
        " and is judged by those"
    )
    return replace(
        run,
        ranks=tuple(info for info in run.ranks if info.rank not in gone),
        windows=kept(run.windows),
        samples=kept(run.samples),
        ops=None if run.ops is None else kept(run.ops),
        missing=(
            *run.missing,
            words,
        ),
    )


def _left_out(run: Run) -> set[int]:
    """Ranks of earlier launches that the last one has no place for."""
    if not len(run.samples):
        return set()
    infos = run.samples[run.samples["metric"] == RANK_INFO.name]
    worlds: dict[int, int] = {}
    ranks: dict[int, set[int]] = {}
    known = infos.dropna(subset=["rank", "labels"]).drop_duplicates(["rank", "labels"])
    for rank, labels in zip(known["rank"], known["labels"], strict=True):
        labels_of = parsed(str(labels))
        attempt, world = number(labels_of, "attempt"), number(labels_of, "world_size")
        if attempt is not None and world is not None:
            worlds[attempt] = max(world, worlds.get(attempt, 0))
            ranks.setdefault(attempt, set()).add(int(rank))
    if len(worlds) < 2:
        return set()
    last = max(worlds)
    world = worlds[last]
    if world >= max(worlds.values()) or ranks[last] != set(range(world)):
        return set()
    return {info.rank for info in run.ranks if info.rank >= world}
