"""The time that each culprit added to the steps: seconds of every window, with its cause."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import Culprit, Finding, FloatGrid, Grid
from lockstep.analyzer.stragglers.imbalance import node_of
from lockstep.analyzer.stragglers.step_time import (
    calm_step_seconds,
    ideal_step_seconds,
    of_change,
    step_times,
)
from lockstep.analyzer.verdict.case import accuses
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.collector.contract.words import Cause


@dataclass(frozen=True, slots=True)
class Excess:
    """One culprit.

    Attributes:
        who: The rank, the node or the link, in words.
        node: Its node; None where it has none.
        cause: A word of contract.words.Cause.
        ranks: Ranks that are slow themselves; all others wait for them.
        seconds: (W,) seconds a step that every rank lost, >= 0, by the windows of the Grid.
    """

    who: str
    node: str | None
    cause: str
    ranks: frozenset[int]
    seconds: FloatGrid


def excesses(diagnosis: Diagnosis) -> tuple[Excess, ...]:
    """Of each culprit that cost step time; what several share is parted as each alone would cost.

    Step time over ideal step time as in docs/method/cost.md. Where operations were simulated, and
    know better what all of it cost, the sum is theirs. Windows that are slow by design are taken to
    have lost what the middle one of the others lost.
    """
    grid = diagnosis.grid
    accused = [one for one in diagnosis.findings if accuses(one)]
    slow = [one for one in accused if one.kind == "slow"]
    links = [one for one in accused if one.kind == "link"][:1]
    if not slow:
        return tuple(_of_link(diagnosis, one) for one in links)
    accused = [*slow, *links]
    alone = np.array([_saved(grid, [one], accused) for one in slow])
    together = _saved(grid, slow, accused)
    sums = alone.sum(axis=0)
    parts = alone * np.divide(together, sums, out=np.zeros_like(sums), where=sums > 0)
    parts *= _by_operations(diagnosis, parts)
    found: dict[tuple[str, str], Excess] = {}
    for finding, seconds in zip(slow, parts, strict=True):
        culprit = _named(diagnosis, finding)
        who, cause, node = _who(grid, finding, culprit)
        known = found.get((who, cause))
        ranks = frozenset([int(finding.rank)] if finding.rank is not None else [])
        found[who, cause] = Excess(
            who, node, cause,
            ranks if known is None else ranks | known.ranks,
            seconds if known is None else seconds + known.seconds,
        )  # fmt: skip
    return tuple(found.values())


def _saved(grid: Grid, slow: Sequence[Finding], accused: Sequence[Finding]) -> FloatGrid:
    """(W,) seconds a step; of all that is wrong as of `ideal_step_seconds`."""
    _, calm, _ = calm_step_seconds(grid, accused)
    with np.errstate(invalid="ignore"):
        slowdowns = [one.slowdown for one in slow]
        ideal = ideal_step_seconds(grid, slow, slowdowns, calm, accused=accused)
        saved = np.nan_to_num(step_times(grid) - ideal)
    saved = np.maximum(saved, 0.0)
    out = np.zeros_like(saved)
    for finding in slow:
        span = _span(grid, finding)
        out[span] = _as_the_others(grid, finding, saved)[span]
    return out


def _as_the_others(grid: Grid, finding: Finding, seconds: FloatGrid) -> FloatGrid:
    """The same, and in masked windows of the finding what its middle one of the others has."""
    span = _span(grid, finding)
    ordinary = span & ~grid.masked
    usual = float(np.median(seconds[ordinary])) if ordinary.any() else 0.0
    return np.where(span & grid.masked, usual, seconds)


def _of_link(diagnosis: Diagnosis, finding: Finding) -> Excess:
    grid = diagnosis.grid
    bill, (_, calm, _) = of_change(grid, finding, [finding]), calm_step_seconds(grid, [finding])
    longer = np.maximum(np.nan_to_num(step_times(grid) - calm), 0.0) * _span(grid, finding)
    steps = (grid.to_step - grid.from_step) * ~grid.masked
    told, known = float(np.sum(longer * steps)), bill.lost_gpu_hours if bill is not None else 0.0
    share = known * 3600.0 / len(grid.ranks) / told if told > 0 else 0.0
    lost = _as_the_others(grid, finding, longer * share)
    who, cause, node = _who(grid, finding, _named(diagnosis, finding))
    return Excess(who, node, cause, frozenset(), lost)


def _by_operations(diagnosis: Diagnosis, parts: FloatGrid) -> float:
    """What the verdict says was lost, over what the windows say."""
    grid, verdict = diagnosis.grid, diagnosis.verdict
    steps = (grid.to_step - grid.from_step) * ~grid.masked
    bound = float((parts * steps).sum()) * len(grid.ranks)
    if verdict.hang is not None or verdict.lost_gpu_hours is None or bound <= 0:
        return 1.0
    if verdict.what_if.get("method") != "simulation":
        return 1.0
    return max(verdict.lost_gpu_hours * 3600.0 / bound, 0.0)


def _span(grid: Grid, finding: Finding) -> NDArray[np.bool_]:
    inside = np.zeros(len(grid.start), dtype=bool)
    inside[finding.first : finding.last] = True
    return inside


def _named(diagnosis: Diagnosis, finding: Finding) -> Culprit | None:
    """The culprit that a finding became; of several the one that began nearest to it."""
    grid, culprits = diagnosis.grid, diagnosis.verdict.culprits
    info = next((one for one in grid.ranks if one.rank == finding.rank), None)
    step = int(grid.from_step[finding.first]) if finding.first < len(grid.from_step) else 0
    mine = [one for one in culprits if info is not None and one.rank == info.rank]
    mine = mine or [
        one for one in culprits
        if one.rank is None and info is not None and one.node == info.node
    ]  # fmt: skip
    mine = mine or [one for one in culprits if one.scope in ("link", "rack")]
    return min(mine, key=lambda one: abs((one.from_step or 0) - step), default=None)


def _who(grid: Grid, finding: Finding, culprit: Culprit | None) -> tuple[str, str, str | None]:
    if culprit is not None:
        return culprit.who, culprit.cause, culprit.node
    node = node_of(finding)
    if node is None:
        node = next((one.node for one in grid.ranks if one.rank == finding.rank), None)
        return f"rank {finding.rank}", Cause.UNKNOWN, node
    return node, Cause.UNKNOWN, node
