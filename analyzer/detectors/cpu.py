"""Whose training thread began to use more CPU: extra work, not waiting for a device or the CPU."""

from collections.abc import Sequence

import numpy as np

from analyzer.run import Finding, Grid
from analyzer.slowness.changepoint import (
    block_means,
    blocks,
    clearest_spans,
    sustained,
)
from analyzer.slowness.others import others_median

FLOOR = float(np.log(1.10))


class Cpu:
    """log thread CPU per step minus the leave-one-out median of the other ranks."""

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """Findings of kind `cpu`; they qualify a slow rank and never accuse alone."""
        groups = blocks(grid)
        with np.errstate(divide="ignore", invalid="ignore"):
            used = np.log(block_means(grid.time["cpu"], groups))
        there = np.flatnonzero(np.isfinite(used).any(axis=0))
        if len(there) < 2:
            return ()
        used = np.where(np.isfinite(used), used, np.nan)
        series = used - others_median(used, axis=1)
        found = []
        for shift in clearest_spans(series):
            if (
                shift.score < shift.critical
                or shift.effect < FLOOR
                or shift.inside < shift.effect / 2
                or not sustained(series, shift)
            ):
                continue
            rank = grid.ranks[shift.column].rank
            ratio = float(np.exp(shift.effect))
            margin = float(np.exp(1.96 * shift.error))
            found.append(
                Finding(
                    detector="cpu",
                    kind="cpu",
                    rank=rank,
                    first=groups.first(shift.first),
                    last=None if shift.last == len(groups) else groups.stop(shift.last),
                    slowdown=ratio,
                    interval=(ratio / margin, ratio * margin),
                    score=shift.score,
                    share={},
                    text=f"rank {rank}'s thread used {ratio:.2f}x the CPU per step of before",
                )
            )
        return found
