"""Where in a run each of many workers is higher than in the rest of it: all spans, at once."""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from analyzer.operations import Floats, Ints
from analyzer.slowness.changepoint import MEDIAN_EFFICIENCY
from analyzer.trace_outliers.robust_stats import median, spread
from collector.contract.robust import MAD_TO_SIGMA

MOST_BLOCKS = 48
"""Steps are averaged into at most this many blocks: spans grow with their square."""
SHORTEST = 3
"""Blocks that must lie inside and outside a span."""
CLIP = 4.0
"""Deviations from its middle at which a step is cut: one stall must not carry a span."""
FLOOR = 0.0005
"""The noise of a step is never taken as smaller than this: clocks of traces are no better."""


@dataclass(frozen=True, slots=True)
class Spans:
    """The clearest upward span of each of N series, and what chance would do.

    Attributes:
        first: (N,) first step of the span, as a place.
        last: (N,) the place after its last.
        inside: (N,) median in the span.
        outside: (N,) median in the rest.
        score: (N,) inside minus outside in standard errors; -inf where no span was searched.
        critical: The score that chance exceeds in one of the series with the chance asked for.
        noise: (N,) deviation of a step, widened for the likeness of neighbouring steps.
    """

    first: Ints
    last: Ints
    inside: Floats
    outside: Floats
    score: Floats
    critical: float
    noise: Floats


def search(series: Floats, chance: float) -> Spans:
    """Tries every span of every series.

    The noise is told by what two levels leave over, at least the middle series', widened by lag-1
    likeness; the threshold is Student's with Bonferroni over series and spans.

    Args:
        series: (N, S); NaN = not there.
        chance: Of any false span.
    """
    edges, means = _blocks(series)
    begin, end = np.triu_indices(means.shape[1] + 1, SHORTEST)
    fair = end - begin <= means.shape[1] - SHORTEST
    begin, end = begin[fair], end[fair]
    count, steps = series.shape
    if not len(begin):
        noise = _noise(series - median(series, 1, keepdims=True))
        none, middle = np.zeros(count, dtype=np.int64), median(series, 1)
        return Spans(none, none + steps, middle, middle, np.full(count, -np.inf), np.inf, noise)
    best = _best(means, np.diff(edges), begin, end)
    first, last = edges[begin[best]], edges[end[best]]
    place = np.arange(steps)
    within = (place >= first[:, None]) & (place < last[:, None])
    inside = median(np.where(within, series, np.nan), 1)
    outside = median(np.where(within, np.nan, series), 1)
    noise = _noise(series - np.where(within, inside[:, None], outside[:, None]))
    size = within.sum(axis=1)
    error = MEDIAN_EFFICIENCY * noise * np.sqrt(1 / size + 1 / (steps - size))
    freedom = max(steps * min(count, 4) / 4, 3.0)
    critical = float(-stdtrit(freedom, chance / (count * len(begin))))
    return Spans(first, last, inside, outside, (inside - outside) / error, critical, noise)


def _blocks(series: Floats) -> tuple[Ints, Floats]:
    """(B + 1,) edges and (N, B) means of blocks of steps, cut at CLIP deviations."""
    steps = series.shape[1]
    edges = np.linspace(0, steps, min(steps, MOST_BLOCKS) + 1).round().astype(np.int64)
    filled = np.where(np.isnan(series), median(series, 1, keepdims=True), series)
    filled = np.nan_to_num(filled)
    # A transient may hold most steps: what lies within the usual reach of either end counts whole.
    reach = CLIP * np.maximum(spread(np.diff(filled, axis=1))[:, None] / np.sqrt(2), FLOOR)
    low, high = np.quantile(filled, [0.1, 0.9], axis=1, keepdims=True)
    cut = np.clip(filled, low - reach, high + reach)
    return edges, np.add.reduceat(cut, edges[:-1], axis=1) / np.diff(edges)


def _best(means: Floats, width: Ints, begin: Ints, end: Ints) -> Ints:
    """(N,) the span with the largest difference of means in standard errors."""
    total = np.concatenate([np.zeros((len(means), 1)), np.cumsum(means * width, axis=1)], axis=1)
    steps = np.concatenate([[0], np.cumsum(width)])
    size = (steps[end] - steps[begin]).astype(float)
    rest = steps[-1] - size
    best = np.empty(len(means), dtype=np.int64)
    for row, sums in enumerate(total):
        inside = sums[end] - sums[begin]
        more = inside / size - (sums[-1] - inside) / rest
        best[row] = np.argmax(more / np.sqrt(1 / size + 1 / rest))
    return best


def _noise(rest: Floats) -> Floats:
    """(N,) deviation of (N, S) residuals, at least the middle row's, widened by AR(1)."""
    sigma = np.nan_to_num(MAD_TO_SIGMA * median(np.abs(rest), 1))
    cut = np.nan_to_num(np.clip(rest, -3 * sigma[:, None], 3 * sigma[:, None]))
    power = np.maximum((cut**2).sum(axis=1), 1e-300)
    rho = np.clip((cut[:, 1:] * cut[:, :-1]).sum(axis=1) / power, 0.0, 0.8)
    rho = np.maximum(rho, np.median(rho))
    widened: Floats = np.maximum(np.maximum(sigma, np.median(sigma)), FLOOR) * np.sqrt(
        (1 + rho) / (1 - rho)
    )
    return widened
