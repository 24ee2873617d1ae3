"""What the operations of our own run add to its windows: simulation, structure, more suspects.

Windows hold all own time of every rank and decide first; operations show who waits for whom,
what the same micro-batch took elsewhere, and what the run would take without a suspect.
"""

from dataclasses import dataclass, replace

from analyzer import trace_verdict
from analyzer.from_operations.placed import Own, Placed, place_suspects
from analyzer.readers import optrace
from analyzer.run import Finding, Grid, LoadError, Run, Verdict
from analyzer.slowness.coverage import unseen_words

MOST_OPERATIONS = 2_000_000
"""Rows that are taken apart in some ten seconds; windows judge all steps in any case."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the operations alone say.

    Attributes:
        verdict: As of a foreign trace; None without operations that can be used.
        suspects: Its culprits among ranks and windows, but for stalls of a few steps.
        whole: Whether all steps have operations that were used.
        missing: What was not used, in words.
    """

    verdict: Verdict | None = None
    suspects: tuple[Placed, ...] = ()
    whole: bool = True
    missing: tuple[str, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether the simulation explains the run."""
        return self.verdict is not None and self.verdict.what_if["method"] == "simulation"

    def gain(self, suspect: Placed) -> float:
        """Share of all steps seen that goes with a suspect mended, simulated."""
        fixes = () if self.verdict is None else self.verdict.what_if.get("fixes", ())
        who = f"rank {suspect.culprit.rank}"
        return next((float(fix["gain"]) for fix in fixes if fix["remove"] == who), 0.0)

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
        trace = optrace.from_run(latest)
    except LoadError as error:
        return Look(missing=(f"the operations are not used: {error}",))
    verdict = trace_verdict.verdict_of_trace(trace)
    if (dark := unseen_words(grid)) is not None:
        # Operations hold the waits that nobody timed: they make no structure and clear nobody.
        why = {"method": "none", "why": dark}
        verdict = replace(verdict, structure=(), rejected=(), what_if=why)
    told = tuple(
        f"operations: {words}" for words in trace.missing if optrace.BY_DESIGN not in words
    )
    suspects = tuple(place_suspects(grid, verdict.culprits, int(trace.steps[0])))
    return Look(verdict, suspects, not missing and not told, (*missing, *told))


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
