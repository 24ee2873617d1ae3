"""What a look at the operations adds to the findings and the verdict of the windows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analyzer.cost.step_time import Cost, spans
from analyzer.from_operations import Look, confirmed_suspects
from analyzer.from_operations.placed import Own
from analyzer.run import Finding, Grid, Rejected
from analyzer.wording import HOUR

REFUTED = {
    Own.DIFFERS: "but its own time did not grow as much: they hold a wait",
    Own.UNKNOWN: "and its own time is not known",
    Own.ALONE: "but with so few replicas its step times would have to show it as well",
}


def findings(seen: Look, grid: Grid, known: Sequence[Finding]) -> tuple[Finding, ...]:
    """The suspects of the operations whom the windows do not show, as findings about windows."""
    shown = {id(seen.of(grid, finding)) for finding in known}
    return tuple(one.finding for one in confirmed_suspects(seen) if id(one) not in shown)


def cost(seen: Look, grid: Grid, slow: Sequence[Finding]) -> Cost | None:
    """What the slow ranks cost by simulation; None where it does not know them all, or all steps.

    The simulation tells lost seconds; they are spread over the windows in which ranks were slow,
    as bounds are.
    """
    verdict = seen.verdict
    theirs = [seen.of(grid, finding) for finding in slow]
    if verdict is None or not seen.simulated or not seen.whole or any(x is None for x in theirs):
        return None
    if {id(one) for one in theirs} != {id(one) for one in seen.suspects}:
        return None
    lost, slowdown = verdict.lost_gpu_hours, verdict.slowdown
    if lost is None or slowdown is None or slowdown <= 1.0 or len(theirs) != len(verdict.culprits):
        return None
    during = spans(grid, slow)
    seconds = np.nan_to_num(np.nanmedian(grid.time["wall"][during], axis=1))
    spent = float((seconds * (grid.to_step - grid.from_step)[during]).sum())
    saved = lost * HOUR / len(grid.ranks)
    low, high = verdict.slowdown_interval or (slowdown, slowdown)
    gain = 1 - 1 / slowdown
    ratios = [saved * (1 - 1 / one) / gain for one in (slowdown, low, high)]
    if max(ratios) >= spent:
        return None
    middle, least, most = (spent / (spent - one) for one in ratios)
    return Cost(middle, (least, most), lost)


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
    fixes = list(bounds.get("fixes", ()))
    told = {} if seen.verdict is None else seen.verdict.what_if
    if not seen.simulated:
        return {**bounds, "why": told["why"]} if told else bounds
    gains = {each["remove"]: each for each in told["fixes"]}
    for place, fix in enumerate(fixes):
        here = [one for one in slow if _node(grid, one) == fix["remove"]]
        alone = seen.of(grid, here[0]) if len(here) == 1 else None
        gain = None if alone is None else gains.get(f"rank {alone.culprit.rank}")
        if gain is not None:
            fixes[place] = {**gain, "remove": fix["remove"]}
    return {**told, "fixes": fixes}


def structure(seen: Look) -> tuple[Mapping[str, object], ...]:
    """Structures of the operations; a uniform slowdown is told by the windows, which see more."""
    if seen.verdict is None:
        return ()
    return tuple(one for one in seen.verdict.structure if one["kind"] != "uniform")


def rejected(seen: Look, grid: Grid, named: Sequence[int | None]) -> tuple[Rejected, ...]:
    """Who was let go by the operations, but for the ranks of workers that are named.

    Victims of suspects that were let go themselves are nobody's victims.
    """
    if seen.verdict is None:
        return ()
    workers = {(i.dp, i.pp) for i in grid.ranks if i.rank in named}
    here = {i.rank for i in grid.ranks if (i.dp, i.pp) in workers}
    others = tuple(
        Rejected(
            one.rank,
            f"its operations take {one.culprit.slowdown:.2f}x what they should, {REFUTED[one.own]}",
        )
        for one in seen.suspects
        if one.own is not Own.AGREES
    )
    let_go = (
        () if len(confirmed_suspects(seen)) < len(seen.verdict.culprits) else seen.verdict.rejected
    )
    return tuple(one for one in (*others, *let_go) if one.rank not in here)


def _node(grid: Grid, finding: Finding) -> str | None:
    return next((i.node for i in grid.ranks if i.rank == finding.rank), None)
