"""What the operations of our own run add to its windows: simulation, structure, more suspects.

Windows hold all own time of every rank and decide first; operations show who waits for whom,
what the same micro-batch took elsewhere, and what the run would take without a suspect.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyzer import foreign
from analyzer.load import optrace
from analyzer.run import Culprit, Fact, Finding, Grid, LoadError, Rejected, Run, Verdict
from analyzer.slowness import long_enough, shares

DETECTOR = "operations"
MOST_OPERATIONS = 2_000_000
"""Rows that are taken apart in some ten seconds; windows judge all steps in any case."""
CONFIRMED = 0.5
"""Share of the excess of its operations that a suspect's own time must show."""
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Look:
    """What the operations alone say.

    Attributes:
        verdict: As of a foreign trace; None without operations that can be used.
        missing: Why there is none, in words.
    """

    verdict: Verdict | None = None
    missing: tuple[str, ...] = ()

    @property
    def culprits(self) -> tuple[Culprit, ...]:
        """The workers that are slow by their operations."""
        return () if self.verdict is None else self.verdict.culprits


def look(run: Run) -> Look:
    """Examines the operations of a run, where it has some."""
    if run.ops is None or run.ops.empty:
        return Look()
    latest, missing = _latest(run)
    try:
        trace = optrace.from_run(latest)
    except LoadError as error:
        return Look(missing=(f"the operations are not used: {error}",))
    return Look(foreign.examine(trace), missing)


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


def findings(seen: Look, grid: Grid, known: Sequence[Finding]) -> tuple[Finding, ...]:
    """The suspects of the operations whom the windows do not show, as findings about windows."""
    return tuple(
        _finding(grid, culprit, columns, inside)
        for culprit, columns, inside in _placed(seen, grid)
        if not any(_same(grid, finding, columns, inside) for finding in known)
        and _lasts(grid, culprit, inside)
        and _confirmed(grid, culprit, columns, inside)
    )


def facts(seen: Look, grid: Grid, finding: Finding) -> tuple[Fact, ...]:
    """What the operations say about a rank that was found: who waits for it, what it costs."""
    culprit = _of(seen, grid, finding)
    if culprit is None:
        return ()
    return culprit.evidence[1:] if finding.detector == DETECTOR else culprit.evidence


def pages(seen: Look, grid: Grid, finding: Finding) -> bool:
    """Whether a suspect of the operations costs enough, simulated, that somebody is woken."""
    culprit = _of(seen, grid, finding)
    return culprit is not None and culprit.tier == "page"


def what_if(
    seen: Look, grid: Grid, slow: Sequence[Finding], bounds: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The simulation where it explains the run, else the bounds of the windows and the reason.

    Args:
        seen: Of `look`.
        grid: The run's windows.
        slow: The findings that accuse.
        bounds: The `what_if` that windows give; its fixes stay where a suspect was not simulated.
    """
    if seen.verdict is None:
        return bounds
    told = seen.verdict.what_if
    if told["method"] != "simulation":
        return {**bounds, "why": told["why"]}
    gains = {each["remove"]: each for each in told["fixes"]}
    fixes = []
    for fix in bounds.get("fixes", ()):
        here = [one for one in slow if _node(grid, one) == fix["remove"]]
        alone = _of(seen, grid, here[0]) if len(here) == 1 else None
        gain = None if alone is None else gains.get(f"rank {alone.rank}")
        fixes.append({**fix, **(gain or {}), "remove": fix["remove"],
                      "by": "simulation" if gain else "bounds"})  # fmt: skip
    return {**told, "fixes": fixes}


def structure(seen: Look) -> tuple[Mapping[str, object], ...]:
    """Structures of the operations; a uniform slowdown is told by the windows, which see more."""
    if seen.verdict is None:
        return ()
    return tuple(one for one in seen.verdict.structure if one["kind"] != "uniform")


def rejected(seen: Look, grid: Grid, named: Sequence[int | None]) -> tuple[Rejected, ...]:
    """Who was let go by the operations, but for the ranks of workers that are named."""
    if seen.verdict is None:
        return ()
    workers = {(i.dp, i.pp) for i in grid.ranks if i.rank in named}
    here = {i.rank for i in grid.ranks if (i.dp, i.pp) in workers}
    hidden = (
        Rejected(
            grid.ranks[_compared(grid, columns, inside)[0]].rank,
            f"its operations take {culprit.slowdown:.2f}x what they should, but its own time did"
            " not grow as much: they hold a wait",
        )
        for culprit, columns, inside in _placed(seen, grid)
        if _lasts(grid, culprit, inside) and not _confirmed(grid, culprit, columns, inside)
    )
    return tuple(one for one in (*hidden, *seen.verdict.rejected) if one.rank not in here)


def _placed(seen: Look, grid: Grid) -> Iterator[tuple[Culprit, Indices, Indices]]:
    """The culprits with the columns of their ranks and the windows of their steps."""
    for culprit in seen.culprits:
        columns = np.array(
            [c for c, i in enumerate(grid.ranks) if (i.dp, i.pp) == (culprit.dp, culprit.pp)],
            dtype=np.int64,
        )
        begin = culprit.from_step or 0
        inside = ~grid.masked & (grid.to_step > begin)
        if culprit.to_step is not None:
            inside &= grid.from_step < culprit.to_step
        if len(columns) and inside.any():
            yield culprit, columns, np.flatnonzero(inside)


def _lasts(grid: Grid, culprit: Culprit, inside: Indices) -> bool:
    steps = grid.to_step - grid.from_step
    ended = culprit.to_step is not None
    return long_enough(float(steps[inside].sum()), float(steps[~grid.masked].sum()), ended=ended)


def _of(seen: Look, grid: Grid, finding: Finding) -> Culprit | None:
    """The suspect of the operations that a finding is about."""
    for culprit, columns, inside in _placed(seen, grid):
        if _same(grid, finding, columns, inside):
            return culprit
    return None


def _same(grid: Grid, finding: Finding, columns: Indices, inside: Indices) -> bool:
    """Whether a finding accuses one of these ranks in some of these windows."""
    if finding.kind != "slow" or finding.rank not in {grid.ranks[c].rank for c in columns}:
        return False
    stop = len(grid.start) if finding.last is None else finding.last
    return bool(((inside >= finding.first) & (inside < stop)).any())


def _confirmed(grid: Grid, culprit: Culprit, columns: Indices, inside: Indices) -> bool:
    """Whether own time, which holds no waiting, grew as well: an operation may hide a wait."""
    column, peers = _compared(grid, columns, inside)
    before = np.setdiff1d(np.flatnonzero(~grid.masked), inside)
    own = np.log(grid.time["own"])
    excess = _middle(own[inside, column]) - _middle(own[np.ix_(inside, peers)])
    if len(before):
        excess -= _middle(own[before, column]) - _middle(own[np.ix_(before, peers)])
    elif not _alike(grid, column, peers):
        return False
    return excess >= CONFIRMED * float(np.log(culprit.slowdown or 1.0))


def _compared(grid: Grid, columns: Indices, inside: Indices) -> tuple[int, Indices]:
    """The rank of a worker with the most own time, and the others of its stage, or all others."""
    own = grid.time["own"]
    column = int(columns[np.argmax(_means(own[np.ix_(inside, columns)]))])
    others = [c for c in range(len(grid.ranks)) if c not in columns]
    alike = [c for c in others if grid.ranks[c].pp == grid.ranks[column].pp]
    return column, np.array(alike or others, dtype=np.int64)


def _alike(grid: Grid, column: int, peers: Indices) -> bool:
    return all(grid.ranks[peer].pp == grid.ranks[column].pp for peer in peers)


def _finding(grid: Grid, culprit: Culprit, columns: Indices, inside: Indices) -> Finding:
    """Of the ranks that a worker folds, the one with the most own time is named."""
    column, peers = _compared(grid, columns, inside)
    info = grid.ranks[column]
    before = np.setdiff1d(np.flatnonzero(~grid.masked), inside)
    throughout = not len(before)
    low, high = culprit.slowdown_interval or (culprit.slowdown, culprit.slowdown)
    assert culprit.slowdown is not None
    assert low is not None
    assert high is not None
    error = max(float(np.log(high / low)) / 3.92, 1e-6)
    return Finding(
        detector=DETECTOR,
        kind="slow",
        rank=info.rank,
        first=int(inside[0]),
        last=None if culprit.to_step is None else int(inside[-1]) + 1,
        slowdown=culprit.slowdown,
        interval=(low, high),
        score=float(np.log(culprit.slowdown)) / error,
        share=shares(grid, column, peers, inside, inside if throughout else before, throughout),
        text=f"rank {info.rank}: {culprit.evidence[0].text}",
        details={"peers": [grid.ranks[c].rank for c in peers], "from_start": throughout},
    )


def _means(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """(R,) mean of each column; a rank that never answered is last."""
    there = np.isfinite(cells)
    total = np.where(there, cells, 0.0).sum(axis=0)
    means: NDArray[np.float64] = np.where(
        there.any(axis=0), total / np.maximum(there.sum(axis=0), 1), -np.inf
    )
    return means


def _middle(cells: NDArray[np.float64]) -> float:
    there = cells[np.isfinite(cells)]
    return float(np.median(there)) if there.size else float("nan")


def _node(grid: Grid, finding: Finding) -> str | None:
    return next((i.node for i in grid.ranks if i.rank == finding.rank), None)
