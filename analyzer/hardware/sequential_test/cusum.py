"""The sequential test of every stream: a mixture of one-sided e-CUSUMs on innovations.

For each shift k the evidence E_k = max(E_k, 0) + score_k(z) in nats is the best log likelihood
ratio over all starts of a change; the mixture ln sum w_k e^E_k is an e-detector (Shin, Ramdas and
Rinaldo, arXiv 2203.03532, sections 2 and 3), whose average run length at threshold h is at least
e^h if a healthy sample's e-value has at most the expectation 1 given the past. What "healthy" is:
the innovation, in robust deviations, is stochastically no larger than Student's t (`likelihood`)
around a level that lies at most `tolerance`, and SURE standard errors of the learned centre, above
the stream's own past. A centre beyond the natural spread of parts counts as the spread's end.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.baseline import LEARN_AT_LEAST, Noise, known_from
from lockstep.analyzer.hardware.sequential_test.likelihood import (
    CELLS,
    FIRST,
    WEIGHTS,
    cells,
    scores,
)
from lockstep.analyzer.hardware.sequential_test.streams import Streams

FloatArray = NDArray[np.float32]

SURE = 2.0
"""Standard errors of the centre that are given to the healthy side."""
SUSPICION = 7.0
"""Nats from which a stream no longer learns: a fault must not become its normal. Simulated healthy
streams (benchmark `false_alarms`) are there in less than a thousandth of their time."""
ABOVE = 3.0
"""Evidence of a reported stream is held at so many nats above the threshold, so that what has ended
is seen to end."""
ABOVE_UNREPORTED = 20.0
"""Of another one, so many above: e-BH asks more of a change that is old, and of a large fleet."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is no change; float32.

    Attributes:
        tolerance: (M, 1) as in metrics.MonitoredMetric.
        natural: (M, G) largest constant offset of a healthy part.
        nats: Evidence for an alarm, from `budget`.
    """

    tolerance: FloatArray
    natural: FloatArray
    nats: float


@dataclass(frozen=True, slots=True)
class Samples:
    """Some checks in the words of the test, (T, M, G).

    Attributes:
        cell: Place in `likelihood.scores`.
        away: Residual above the stream's past; 0 where it is no evidence.
        judged: Whether it is evidence: told, compared, and of a stream that has learned.
    """

    cell: NDArray[np.intp]
    away: FloatArray
    judged: NDArray[np.bool_]


def samples(
    streams: Streams, residuals: FloatArray, earlier: FloatArray, noise: Noise, limits: Limits
) -> Samples:
    """What (T, M, G) residuals mean to the test; `earlier` is what was reported before each."""
    centre = np.clip(streams.centre, -limits.natural, limits.natural)
    away = residuals - centre
    z = earlier - centre
    z *= noise.rho
    np.subtract(away, z, out=z)
    healthy = limits.tolerance * (1 - noise.rho) / noise.scale
    healthy += np.float32(SURE) / np.sqrt(known_from(streams.count))
    # What has not learned is not judged.
    healthy[streams.count < LEARN_AT_LEAST] = np.nan
    # In cells of the table at once: every pass over these arrays counts.
    z *= CELLS / noise.scale
    z -= CELLS * healthy - FIRST
    none = np.isnan(z)
    np.copyto(away, 0, where=none)
    return Samples(cells(z, none), away, ~none)


def advance(streams: Streams, some: Samples, check: int, when: float, limits: Limits) -> FloatArray:
    """One check of all streams, in place: evidence and onset.

    Args:
        check: Which of `some`.
        when: Its unix seconds.

    Returns:
        (M, G) evidence of the leading shift, nats: an upper bound of `mixture`.
    """
    evidence, judged = streams.evidence, some.judged[check]
    leading = np.full(judged.shape, -np.inf, dtype=np.float32)
    np.maximum(evidence, 0, out=evidence)
    for nats, table in zip(evidence, scores(), strict=True):
        nats += table.take(some.cell[check])
        np.maximum(leading, nats, out=leading)
    if leading.max(initial=0) > limits.nats:
        above = np.where(np.isfinite(streams.alarmed), ABOVE, ABOVE_UNREPORTED)
        np.minimum(evidence, (above + limits.nats).astype(np.float32), out=evidence)
    rising = leading > 0
    streams.length += judged
    streams.length *= rising
    streams.excess += some.away[check]
    streams.excess *= rising
    np.copyto(streams.onset, when, where=judged & (streams.length == 1))
    return leading


def mixture(evidence: FloatArray) -> NDArray[np.float64]:
    """(K, n) nats of each shift -> (n,) nats of all, ln sum w_k e^E_k."""
    weighted = np.asarray(evidence, dtype=np.float64) + np.log(WEIGHTS)[:, None]
    return np.asarray(np.logaddexp.reduce(weighted, axis=0))
