"""Healthy telemetry of a fleet: what identical parts do when nothing is wrong.

Fitted to own time of recorded healthy runs of 8 ranks against their peers (112 ranks, 20 runs): the
robust deviation of 15 s means is 0.6 %, of the noisiest tenth 0.8 %; Student's t with 3 degrees of
freedom in 1 s means; lag-1 autocorrelation 0.0 to 0.1. Autocorrelation of 0.1 to 0.4, a slow drift
of each part and a common daily load are added on top, because clusters have them and these runs do
not. It shares nothing with the analyzer.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

PERIOD = 15.0
DAY = 86_400.0
FREEDOM = 3
SCALE = (0.0055, 0.0075)
"""Scale of Student's t, least and most of the streams: 0.62 to 0.85 % as 1.4826 MAD."""
RHO = (0.1, 0.4)
RECORDED_RHO = (0.0, 0.1)
SPREAD = 0.03
"""Constant differences between parts, standard deviation: 8 % between most, 22 % between the most
different of some thousand (SC22, arXiv 2208.11035 v3)."""
DRIFT = 0.004
"""Standard deviation of a part's slow drift, with a memory of DRIFT_SECONDS."""
DRIFT_SECONDS = 6 * 3600.0
LOAD = 0.15
"""The daily load changes everybody's values by so much, up and down."""
GAP = 0.002
"""Chance of a missed scrape of a node."""
POOL = 1 << 22


class Noise:
    """Values of (metric, GPU) streams, check after check.

    Args:
        gpus: 8 of them a node.
        metrics: Streams of each.
        seed: Of all that is random.
        rho: Other autocorrelations than RHO.
    """

    def __init__(self, gpus: int, metrics: int, seed: int, rho: tuple[float, float] = RHO) -> None:
        self._dice = np.random.default_rng(seed)
        shape = metrics, gpus
        self.scale = self._dice.uniform(*SCALE, shape).astype(np.float32)
        self._rho = self._dice.uniform(*rho, shape).astype(np.float32)
        self._base = self._dice.normal(0, SPREAD, shape).astype(np.float32)
        self._drift = self._dice.normal(0, DRIFT, shape).astype(np.float32)
        self._level = np.zeros(shape, dtype=np.float32)
        self._check = 0
        # Drawn once and read from a random place: Student's numbers are slow to draw.
        self._pool = self._dice.standard_t(FREEDOM, POOL).astype(np.float32)
        self._keep = np.float32(np.exp(-PERIOD / DRIFT_SECONDS))
        self._step = np.float32(DRIFT * np.sqrt(1 - self._keep**2))

    def take(self, checks: int) -> Floats:
        """The next (T, M, G) values; NaN where the node was not scraped."""
        found = np.empty((checks, *self._level.shape), dtype=np.float32)
        size = self._level.size
        for row in found:
            begin = int(self._dice.integers(POOL - size))
            fresh = self._pool[begin : begin + size].reshape(self._level.shape) * self.scale
            self._level *= self._rho
            self._level += fresh * np.sqrt(1 - self._rho**2)
            self._drift *= self._keep
            begin = int(self._dice.integers(POOL - size))
            # Bounded, as a part's temperature is: Student's tails are for samples.
            push = np.clip(self._pool[begin : begin + size], -3, 3).reshape(self._level.shape)
            self._drift += self._step * push
            load = LOAD * np.sin(2 * np.pi * self._check * PERIOD / DAY)
            np.exp(self._base + self._drift + self._level + np.float32(load), out=row)
            gone = np.flatnonzero(self._dice.random(-(-row.shape[1] // 8)) < GAP)
            for node in gone.tolist():
                row[:, 8 * node : 8 * node + 8] = np.nan
            self._check += 1
        return found
