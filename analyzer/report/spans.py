"""Which windows of a Grid lie before and during the trouble, and medians over them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid, Grid, Verdict


@dataclass(frozen=True, slots=True)
class Spans:
    """Windows by the first culprit's steps.

    Without a culprit, or where the run ended at the onset, every window is `during`.

    Attributes:
        before, during: (W,) masks; windows that are slow by design are in neither.
        culprits: Columns of the culprits' ranks.
        peers: Columns of all others.
        onset: Step at which the trouble began, or None where nothing came after.
    """

    before: NDArray[np.bool_]
    during: NDArray[np.bool_]
    culprits: tuple[int, ...]
    peers: tuple[int, ...]
    onset: int | None


def spans(grid: Grid, verdict: Verdict) -> Spans:
    """Cuts a Grid by its verdict."""
    ranks = {info.rank: column for column, info in enumerate(grid.ranks)}
    guilty = {each.rank for each in verdict.culprits} | {
        info.rank
        for info in grid.ranks
        for each in verdict.culprits
        if each.rank is None and each.node == info.node
    }
    culprits = tuple(column for rank, column in ranks.items() if rank in guilty)
    open_windows = ~grid.masked
    first = verdict.culprits[0] if verdict.culprits else None
    onset = first.from_step if first else None
    if first is None or onset is None:
        before, during = np.zeros_like(open_windows), open_windows
    else:
        end = np.inf if first.to_step is None else first.to_step
        before = open_windows & (grid.to_step <= onset)
        during = open_windows & (grid.from_step >= onset) & (grid.from_step < end)
        if not during.any():
            # The run stopped there: nothing was slow, and what there is, is the whole run.
            before, during, onset = np.zeros_like(open_windows), open_windows, None
    peers = tuple(column for column in ranks.values() if column not in culprits)
    return Spans(before, during, culprits, peers, onset)


def median(values: FloatGrid) -> float | None:
    """Median of what answered, or None."""
    answered = values[np.isfinite(values)]
    return float(np.median(answered)) if answered.size else None


def by_row(values: FloatGrid, reduce: Callable[..., FloatGrid]) -> FloatGrid:
    """(W, R) values reduced over the ranks that answered, NaN where none did.

    Args:
        values: NaN = did not answer.
        reduce: A function of numpy that leaves NaN out, such as `np.nanmedian`.
    """
    told = np.isfinite(values).any(axis=1)
    reduced = np.full(len(values), np.nan)
    # numpy warns about rows in which nothing answered; here that is an ordinary gap.
    if told.any():
        reduced[told] = reduce(values[told], axis=1)
    return reduced


def medians(values: FloatGrid, windows: NDArray[np.bool_]) -> list[float | None]:
    """(W, R) values -> the median of each rank over the chosen windows."""
    chosen = by_row(values[windows].T, np.nanmedian)
    return [float(each) if np.isfinite(each) else None for each in chosen]
