"""A case: a run and everything that is known of it so far (docs/method/verdict.md)."""

from collections.abc import Sequence
from dataclasses import dataclass

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.causes.posterior import Posterior
from lockstep.analyzer.operations.from_operations import Look
from lockstep.analyzer.operations.from_operations.observed import from_zero
from lockstep.analyzer.operations.from_operations.trace_grid import trace_grid
from lockstep.analyzer.read.optrace.load import run_of_trace
from lockstep.analyzer.shapes.operations import Trace
from lockstep.analyzer.shapes.run import Evidence, Finding, Grid, Run, Verdict
from lockstep.analyzer.stragglers.model.precision import OPERATIONS, WINDOWS, Precision
from lockstep.analyzer.stragglers.step_time import Cost

NOTHING_SEEN = Look()


@dataclass(frozen=True, slots=True)
class Accused:
    """A finding that names somebody, and why that is slow or stopped."""

    finding: Finding
    causes: Posterior


@dataclass(frozen=True, slots=True)
class Case:
    """What goes from stage to stage (verdict.pipeline.STAGES); each adds one thing to it.

    Attributes:
        run: As it was read.
        grid: The run on the axes (window, rank).
        gpu_hour_price: Money per GPU-hour; None = no price.
        seen: What the operations say.
        findings: What is off, not yet why.
        evidences: `evidences[i]` is about `findings[i]`; empty where that neither accuses nor is
            about all ranks alike.
        accused: The findings that accuse: first who stopped the run, then the slowest.
        bounds: What they cost at the most, by the windows; None = not known.
        why_unknown: Why a run without culprit cannot be called healthy; None = it can.
        verdict: As far as it is.
        trace: The operations, where these are all there is; the grid is told by them then.
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
        return [one.finding for one in self.accused if one.finding.kind == kind]

    def first(self, kinds: Sequence[str]) -> Finding | None:
        """The first finding of one of these kinds; None without."""
        return next((one for one in self.findings if one.kind in kinds), None)


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
