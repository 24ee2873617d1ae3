"""What a look at the operations adds to the findings and the verdict of the windows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from lockstep.analyzer.operations.examine import Look, Own, confirmed_suspects
from lockstep.analyzer.shapes.run import Finding, Grid, Rejected
from lockstep.analyzer.shapes.wording import HOUR
from lockstep.analyzer.stragglers.step_time import Cost, spans

REFUTED = {
    Own.DIFFERS: "but its own time did not grow as much: they hold a wait",
    Own.UNKNOWN: "and its own time is unknown",
    Own.NOISY: "but many of its steps are no longer than those of its peers",
    Own.ALONE: "but with so few replicas its step times would have to show it as well",
}


def findings(seen: Look, grid: Grid, known: Sequence[Finding]) -> tuple[Finding, ...]:
    """The suspects of the operations whom the windows do not show, as findings about windows."""
    shown = {id(seen.of(grid, finding)) for finding in known}
    return tuple(
        suspect.finding for suspect in confirmed_suspects(seen) if id(suspect) not in shown
    )


def cost(seen: Look, grid: Grid, slow: Sequence[Finding]) -> Cost | None:
    """What the slow ranks cost by simulation; None where it does not know them all, or all steps.

    The simulation tells lost seconds. Beside windows they are spread over those in which ranks were
    slow, as bounds are.
    """
    observed, theirs = seen.observed, [seen.of(grid, finding) for finding in slow]
    if observed is None or observed.charge is None or not seen.simulated or not seen.whole:
        return None
    if {id(suspect) for suspect in theirs} != {id(suspect) for suspect in seen.suspects}:
        return None
    charge, slowdown = observed.charge, observed.charge.slowdown
    lost = charge.lost_seconds * observed.trace.layout.world / HOUR
    low, high = charge.interval or (slowdown, slowdown)
    if seen.alone:
        return Cost(slowdown, (low, high), lost)
    if slowdown <= 1.0 or len(theirs) != len(observed.slow):
        return None
    during = spans(grid, slow)
    seconds = np.nan_to_num(np.nanmedian(grid.time["wall"][during], axis=1))
    spent = float((seconds * (grid.to_step - grid.from_step)[during]).sum())
    gain = 1 - 1 / slowdown
    ratios = [charge.lost_seconds * (1 - 1 / one) / gain for one in (slowdown, low, high)]
    if max(ratios) >= spent:
        return None
    middle, least, most = (spent / (spent - one) for one in ratios)
    return Cost(middle, (least, most), lost)


def of_all_ranks(seen: Look, bounds: Cost | None, grid: Grid) -> Cost | None:
    """A cost by windows of all ranks of the layout: a trace has a window a worker, not a rank."""
    observed = seen.observed
    if bounds is None or observed is None or not seen.alone:
        return bounds
    ranks = observed.trace.layout.world / len(grid.ranks)
    return replace(bounds, lost_gpu_hours=bounds.lost_gpu_hours * ranks)


def what_if(
    seen: Look, grid: Grid, slow: Sequence[Finding], bounds: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The simulation where it explains the run, else the bounds of the windows and the reason.

    A fix tells by what it is known: simulated over all steps, or a bound while it was slow.

    Args:
        seen: Of `look`.
        grid: The run's windows.
        slow: The findings that accuse.
        bounds: The `what_if` that windows give; its fixes stay where a suspect was not simulated.
    """
    if seen.observed is None:
        return bounds
    counterfactual, fixes = seen.observed.what_if, list(bounds.get("fixes", ()))
    for index, fix in enumerate(fixes):
        here = [finding for finding in slow if _node(grid, finding) == fix["remove"]]
        alone = seen.of(grid, here[0]) if len(here) == 1 else None
        if alone is not None:
            who = f"rank {alone.rank}" if seen.alone else fix["remove"]
            fixes[index] = {**fix, **(alone.worker.fix or {}), "remove": who}
    if not seen.simulated:
        counterfactual = {**bounds, "why": counterfactual["why"]}
    return {**counterfactual, "fixes": fixes} if fixes or seen.simulated else counterfactual


def structure(seen: Look) -> tuple[Mapping[str, object], ...]:
    """Structures of the operations, as the verdict tells them."""
    return () if seen.observed is None else tuple(asdict(one) for one in seen.observed.structures)


def rejected(seen: Look, grid: Grid, named: Sequence[int | None]) -> tuple[Rejected, ...]:
    """Who was let go by the operations, but for the ranks of workers that are named.

    Victims of suspects that were let go themselves are nobody's victims.
    """
    if seen.observed is None:
        return ()
    workers = {(i.dp, i.pp) for i in grid.ranks if i.rank in named}
    here = {i.rank for i in grid.ranks if (i.dp, i.pp) in workers}
    others = tuple(
        Rejected(
            suspect.rank,
            f"its operations take {suspect.worker.slowdown:.2f}x what they should,"
            f" {REFUTED[suspect.own]}",
        )
        for suspect in seen.suspects
        if suspect.own is not Own.AGREES
    )
    let_go = (
        () if len(confirmed_suspects(seen)) < len(seen.observed.slow) else seen.observed.rejected
    )
    return tuple(rejection for rejection in (*others, *let_go) if rejection.rank not in here)


def _node(grid: Grid, finding: Finding) -> str | None:
    return next((i.node for i in grid.ranks if i.rank == finding.rank), None)
