"""A stream's own past, learned in a few numbers: level, noise and autocorrelation.

Residuals are taken as AR(1): residual - centre = rho (last - centre) + innovation. The innovation
is independent of the past, and that is what the sequential test needs; an autocorrelated residual
would repeat its own evidence.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.residuals import middle
from lockstep.analyzer.hardware.sequential_test.streams import Streams, how_often
from lockstep.collector.contract.robust import MAD_TO_SIGMA

FloatArray = NDArray[np.float32]

MEMORY = 960
"""Samples that the past reaches back, 4 h at 15 s: longer than what is to be found, and short
against a day's load."""
LEARN_AT_LEAST = 40
"""Samples before a stream is judged: 10 min at 15 s."""
CUT = 3.0
"""A sample counts for at most so many deviations in level and autocorrelation (Huber)."""
HASTE = 3.0
"""A young stream's gain is so many times that of a mean: what it began with is forgotten with the
cube of the samples, for a standard error a third larger (stochastic approximation)."""
QUANTILE_STEP = 1.17
"""Half of 1 / (f(m) m), m the median of |Gaussian noise| and f its density there: the step, in
logarithms, with which a running median is as good as the sample's (Robbins and Monro)."""
RHO_AT_MOST = 0.9


@dataclass(frozen=True, slots=True)
class Noise:
    """What streams are judged with, (M, G) float32.

    Attributes:
        scale: Robust deviation of innovations: no stream's own counts as less than the metric's
            median, nor that as less than its floor. One in two would look quieter than it is.
        rho: Lag-1 autocorrelation, the metric's median at least.
    """

    scale: FloatArray
    rho: FloatArray

    def rows(self, chosen: slice) -> "Noise":
        """The noise of some metrics: views."""
        return Noise(self.scale[chosen], self.rho[chosen])

    def take(self, other: "Noise") -> None:
        """Be as another one."""
        self.scale[...] = other.scale
        self.rho[...] = other.rho


def noise(streams: Streams, floor: FloatArray) -> Noise:
    """The noise of all streams; typical is what those that learned have (slowness.changepoint).

    Args:
        streams: Of (M, G).
        floor: (M,) of each metric.
    """
    learned = streams.count >= LEARN_AT_LEAST
    unknown = np.float32(np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = streams.lag / streams.power
    rho = np.clip(np.nan_to_num(rho, copy=False, nan=0.0), 0, np.float32(RHO_AT_MOST))
    typical = np.fmax(middle(np.where(learned, streams.scale, unknown)), floor[:, None])
    return Noise(
        scale=np.maximum(streams.scale, typical),
        rho=np.fmax(rho, middle(np.where(learned, rho, unknown))),
    )


def learn(
    streams: Streams,
    residuals: FloatArray,
    earlier: FloatArray,
    common: Noise,
    chosen: NDArray[np.bool_],
) -> None:
    """Let the chosen streams learn some checks; NaN teaches nothing.

    Args:
        streams: Of (M, G).
        residuals: (T, M, G).
        earlier: (T, M, G) what was reported before each, from `streams.before`.
        common: From `noise`.
        chosen: (M, G).
    """
    _begin(streams, residuals, chosen)
    reach = np.float32(CUT) * common.scale
    away, earlier = residuals - streams.centre, earlier - streams.centre
    innovation = common.rho * earlier
    np.abs(np.subtract(away, innovation, out=innovation), out=innovation)
    follows = np.isfinite(innovation)
    taught = np.isfinite(away)
    for values, known in ((away, taught), (earlier, follows)):
        np.clip(values, -reach, reach, out=values)
        np.copyto(values, 0, where=~known)
    samples, pairs = (how_often(known).astype(np.float32) * chosen for known in (taught, follows))
    streams.count += samples
    gain = chosen / np.clip(streams.count, 1, MEMORY)
    hasty = HASTE / (streams.count + np.float32(HASTE - 1))
    hasty = np.minimum(np.maximum(hasty, gain), 1 / np.maximum(samples, 1))
    streams.centre += chosen * hasty * away.sum(axis=0)
    streams.lag += gain * (_products(away, earlier) - pairs * streams.lag)
    streams.power += gain * (_products(earlier, earlier) - pairs * streams.power)
    # A running median of |innovation|: up where it is larger, down where it is smaller.
    above = how_often(innovation > streams.scale / np.float32(MAD_TO_SIGMA)).astype(np.float32)
    turn = np.float32(QUANTILE_STEP) * gain * (2 * above - pairs)
    begins = (streams.scale == 0) & (pairs > 0)
    streams.scale *= np.exp(turn)
    if begins.any():
        np.copyto(innovation, 0, where=~follows)
        np.copyto(streams.scale, innovation.sum(axis=0) / np.maximum(pairs, 1), where=begins)


def _products(first: FloatArray, second: FloatArray) -> FloatArray:
    """(M, G) sum over (T, M, G) checks."""
    return np.asarray(np.einsum("tmg,tmg->mg", first, second))


def known_from(count: FloatArray) -> FloatArray:
    """Independent samples whose mean is as well known as the centre of a stream is."""
    young = (2 * HASTE - 1) / HASTE**2
    return np.asarray(np.clip(count * np.float32(young), 1, np.float32(MEMORY)))


def _begin(streams: Streams, residuals: FloatArray, chosen: NDArray[np.bool_]) -> None:
    """Streams without a past begin at the median of their first checks."""
    new = chosen & (streams.count == 0)
    if new.any():
        streams.centre[new] = np.nan_to_num(middle(residuals[:, new].T)[:, 0])
