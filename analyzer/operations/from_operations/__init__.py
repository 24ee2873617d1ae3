"""What the operations of a run add to its windows: simulation, structure, more suspects.

Windows hold all own time of every rank and decide first; operations show who waits for whom,
what the same micro-batch took elsewhere, and what the run would take without a suspect. Of a
foreign trace there are no other windows than its steps, which are told by the operations
themselves.
"""

from dataclasses import dataclass, replace

from lockstep.analyzer.operations.from_operations.observed import Observed, from_zero, observe
from lockstep.analyzer.operations.from_operations.placed import Own, Placed, place_suspects
from lockstep.analyzer.read.optrace.load import BY_DESIGN, trace_of_run
from lockstep.analyzer.shapes.operations import Trace
from lockstep.analyzer.shapes.run import Finding, Grid, LoadError, Run
from lockstep.analyzer.stats.coverage import unseen_words

MOST_OPERATIONS = 2_000_000
"""Rows that are taken apart in some ten seconds; windows judge all steps in any case."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the operations say.

    Attributes:
        observed: What they show; None without operations that can be used.
        suspects: Who is slow by them, among ranks and windows, but for stalls of a few steps.
        whole: Whether all steps have operations that were used.
        missing: What was not used, or cannot be told, in words.
        alone: Whether they are all there is.
    """

    observed: Observed | None = None
    suspects: tuple[Placed, ...] = ()
    whole: bool = True
    missing: tuple[str, ...] = ()
    alone: bool = False

    @property
    def simulated(self) -> bool:
        """Whether the simulation explains the run."""
        return self.observed is not None and self.observed.what_if["method"] == "simulation"

    @property
    def why_unknown(self) -> str | None:
        """Why operations that are all there is tell nothing; None = they do."""
        return (
            self.observed.what_if.get("why") if self.alone and self.observed is not None else None
        )

    @property
    def suspected(self) -> bool:
        """Whether operations that are all there is show a worker that is slow by itself.

        Then not all became slower alike.
        """
        return self.alone and self.observed is not None and bool(self.observed.slow)

    @property
    def folded(self) -> bool:
        """Whether a rank stands for its tensor-parallel ones, which nobody told apart."""
        return self.alone and self.observed is not None and self.observed.trace.layout.tp > 1

    def of(self, grid: Grid, finding: Finding) -> Placed | None:
        """The suspect that a finding is about: one of its ranks, in some of its windows."""
        if finding.kind != "slow":
            return None
        inside = finding.inside(grid)
        for one in self.suspects:
            ranks = {grid.ranks[column].rank for column in one.columns}
            if finding.rank in ranks and (inside & one.finding.inside(grid)).any():
                return one
        return None


def examine_operations(run: Run, grid: Grid) -> Look:
    """Examines the operations of a run, where it has some."""
    if run.ops is None or run.ops.empty:
        return Look()
    latest, missing = _latest(_warm(run, grid))
    try:
        trace = from_zero(trace_of_run(latest))
    except LoadError as error:
        return Look(missing=(f"the operations are not used: {error}",))
    told = observe(trace)
    suspects = tuple(place_suspects(grid, told))
    if (dark := unseen_words(grid)) is not None:
        # Operations hold the waits that nobody timed: they make no structure and clear nobody.
        why = {"method": "none", "why": dark}
        told = replace(told, structures=(), rejected=(), what_if=why)
    words = tuple(f"operations: {words}" for words in trace.missing if BY_DESIGN not in words)
    return Look(told, suspects, not missing and not words, (*missing, *words))


def examine_trace(trace: Trace, grid: Grid) -> Look:
    """Examines the operations that are all there is, of which the windows were made."""
    told = observe(trace)
    suspects = tuple(place_suspects(grid, told, alone=True))
    if not suspects and unseen_words(grid) is not None:
        told = replace(told, structures=(), rejected=())
    return Look(told, suspects, missing=told.missing, alone=True)


def confirmed_suspects(seen: Look) -> tuple[Placed, ...]:
    """The suspects whose own time grew as well."""
    return tuple(one for one in seen.suspects if one.own is Own.AGREES)


def _warm(run: Run, grid: Grid) -> Run:
    """The run without operations of its warm-up, also where no tag tells of one."""
    assert run.ops is not None
    warm = grid.from_step[~grid.masked]
    if not len(warm):
        return run
    return replace(run, ops=run.ops[run.ops["step"] >= int(warm.min())])


def _latest(run: Run) -> tuple[Run, tuple[str, ...]]:
    """The run with the operations of its last steps, if all are too many."""
    assert run.ops is not None
    if len(run.ops) <= MOST_OPERATIONS:
        return run, ()
    count = run.ops["step"].value_counts().sort_index(ascending=False)
    kept = max(int((count.cumsum() <= MOST_OPERATIONS).sum()), 1)
    first = int(count.index[kept - 1])
    words = f"operations are used of the last {kept} of {len(count)} steps"
    return replace(run, ops=run.ops[run.ops["step"] >= first]), (words,)
