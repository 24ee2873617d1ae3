"""How high chance alone, and the spread of healthy parts, may lift a worker."""

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit

from analyzer.operations import Flags, Floats
from analyzer.trace_outliers.robust_stats import BIWEIGHT_EFFICIENCY, TRIMMED_ERROR, biweight
from analyzer.trace_outliers.spans import Spans

CHANCE = 1e-3
"""Chance that the noise of a healthy run gives any suspect, over all workers and spans."""
PARTS_CHANCE = 1e-2
"""Chance that the spread of healthy parts does; a part that lies outside its kind is worth a
record even where it always was so."""
RECORD = float(np.log(1.01))
"""The smallest slowness recorded: 1 to 2 % of a worker's own time (docs/method/peers.md)."""
PARTS_SPREAD = 0.002
"""Healthy parts differ at least by this (trace AR's healthy workers: 0.2 %, measured)."""


def highest_healthy(
    level: Floats, spans: Spans, slow: Flags, steps: int, count: int
) -> tuple[Floats, Floats]:
    """(N,) level that no healthy worker reaches, and (N,) the standard error of a level.

    Noise of its steps, and spread of healthy parts. The noise is known well; the spread only as
    well as there are workers, therefore Student's quantile for it.
    """
    healthy = ~slow.reshape(-1) & np.isfinite(level)
    error = TRIMMED_ERROR * spans.noise / np.sqrt(steps)
    between = biweight(level[healthy])
    within = float(np.median(error[healthy])) if healthy.any() else 0.0
    freedom = max(BIWEIGHT_EFFICIENCY * (int(healthy.sum()) - 1), 3.0)
    # Only what noise does not explain is a spread of parts; of few workers it may explain much.
    explained = within**2 * float(chdtri(freedom, 0.1)) / freedom
    parts = max(float(np.sqrt(max(between**2 - explained, 0.0))), PARTS_SPREAD)
    tests = len(level) * count
    quantile = -float(stdtrit(freedom, PARTS_CHANCE / tests))
    limit: Floats = np.hypot(-float(ndtri(CHANCE / tests)) * error, quantile * parts)
    return np.maximum(limit, RECORD), np.hypot(error, parts)
