"""Mean time between failures, mean time to repair and availability, with intervals.

The interval of a rate is exact for a Poisson count (Garwood 1936, by quantiles of chi-square;
NIST/SEMATECH e-Handbook 8.4.5.1 has the same of the MTBF). Repairs are not exponential: in logs of
clusters their spread is far larger (Schroeder and Gibson 2006, doi:10.1109/TDSC.2009.4), so the
intervals of MTTR and availability come from a bootstrap over units: a node that fails often is
drawn with all its faults.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from lockstep.analyzer.shapes.run import FloatGrid

LEVEL = 0.95
RESAMPLES = 2000
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval; NaN = nobody knows, an end that is infinite is told so."""

    value: float
    interval: Interval

    def to_dict(self) -> dict[str, Any]:
        """JSON has neither NaN nor infinity: null."""
        return {"value": _finite(self.value), "interval": [_finite(end) for end in self.interval]}


NOTHING = Estimate(math.nan, (math.nan, math.nan))


@dataclass(frozen=True, slots=True)
class Reliability:
    """Of a run, of a node or of a fleet.

    Attributes:
        failures: How many there were.
        exposure_seconds: Time in which one could have failed: up-time of one, or of all together.
        repaired: Failures whose repair was seen to its end.
        mtbf, mttr: Seconds.
        availability: Share of time up; NaN = not known.
        goodput, ettr: Shares of the rank-seconds (docs/method/ledger.md); NaN = not known.
    """

    failures: int
    exposure_seconds: float
    repaired: int
    mtbf: Estimate
    mttr: Estimate
    availability: Estimate = NOTHING
    goodput: Estimate = NOTHING
    ettr: Estimate = NOTHING

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "failures": self.failures,
            "exposure_seconds": self.exposure_seconds,
            "repaired": self.repaired,
            "mtbf_seconds": self.mtbf.to_dict(),
            "mttr_seconds": self.mttr.to_dict(),
            "availability": self.availability.to_dict(),
            "goodput": self.goodput.to_dict(),
            "ettr": self.ettr.to_dict(),
        }


def mtbf(failures: int, exposure_seconds: float) -> Estimate:
    """Mean time between failures: exposure over failures.

    Without a failure it is at least the lower end; the value is not known.

    Args:
        failures: n, a Poisson count.
        exposure_seconds: T, > 0 or nothing is known.

    Returns:
        T / n in [2 T / chi2(0.975, 2n + 2), 2 T / chi2(0.025, 2n)].
    """
    if not exposure_seconds > 0:
        return NOTHING
    tail = (1.0 - LEVEL) / 2
    low = 2.0 * exposure_seconds / float(chi2.ppf(1.0 - tail, 2 * failures + 2))
    if failures == 0:
        return Estimate(math.nan, (low, math.inf))
    high = 2.0 * exposure_seconds / float(chi2.ppf(tail, 2 * failures))
    return Estimate(exposure_seconds / failures, (low, high))


def mean(values: Sequence[float], units: Sequence[object] | None = None, seed: int = 0) -> Estimate:
    """A mean with the percentile interval of a bootstrap over units; one unit has no interval.

    Args:
        values: Such as seconds of repair; NaN = not seen to its end, left out.
        units: Of each value, its unit, such as the node; None = each is one for itself.
        seed: Of the bootstrap.
    """
    told = np.asarray(values, dtype=float)
    known = np.isfinite(told)
    names = (
        np.arange(len(told)) if units is None else np.unique(list(units), return_inverse=True)[1]
    )
    told, names = told[known], np.asarray(names)[known]
    if not told.size:
        return NOTHING
    _, of = np.unique(names, return_inverse=True)
    sums = np.bincount(of, told).astype(float)
    return ratio(sums, np.bincount(of).astype(float), seed)


def ratio(above: FloatGrid, below: FloatGrid, seed: int = 0) -> Estimate:
    """Sum of `above` over sum of `below`, both (units,), with the interval of a bootstrap."""
    whole = float(below.sum())
    value = float(above.sum()) / whole if whole > 0 else math.nan
    if len(below) < 2 or not whole > 0:
        return Estimate(value, (math.nan, math.nan))
    dice = np.random.default_rng(seed)
    # How often each unit is drawn: one matrix product is all resamples.
    drawn = dice.multinomial(len(below), np.full(len(below), 1.0 / len(below)), RESAMPLES)
    under = drawn @ below
    shares = (drawn @ above)[under > 0] / under[under > 0]
    tail = (1.0 - LEVEL) / 2
    low, high = np.quantile(shares, [tail, 1.0 - tail])
    return Estimate(value, (float(low), float(high)))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
