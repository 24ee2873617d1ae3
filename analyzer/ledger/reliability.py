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

from lockstep.analyzer.ledger.buckets import INDEX, PRODUCTIVE, RUNNING, Bucket
from lockstep.analyzer.ledger.ledger import Ledger
from lockstep.analyzer.read.iteration_log import UNNAMED
from lockstep.analyzer.shapes.run import FloatGrid

LEVEL = 0.95
RESAMPLES = 2000
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval; NaN = not known, and an infinite end stays infinite."""

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


def of_run(ledger: Ledger) -> Reliability:
    """Of one run: failures of attempts, in the wall time of its attempts.

    Its shares are counted, not estimated: they have no interval.
    """
    return Reliability(
        ledger.failures,
        ledger.running_seconds,
        int(np.isfinite(ledger.repairs).sum()),
        mtbf(ledger.failures, ledger.running_seconds),
        mean(ledger.repairs),
        goodput=_share([ledger.seconds.sum(axis=0)], PRODUCTIVE),
        ettr=_share([ledger.seconds.sum(axis=0)], RUNNING),
    )


def of_fleet(ledgers: Sequence[Ledger]) -> Reliability:
    """Of all runs together: failures in the time in which any of them ran.

    Runs side by side share their time: it is the length of the union of all attempts. Availability
    is running time over wall time of the runs. Intervals of shares are by runs.
    """
    failures = sum(one.failures for one in ledgers)
    running = _together([(each.begin, each.end) for one in ledgers for each in one.attempts])
    repairs = [(told, number) for number, one in enumerate(ledgers) for told in one.repairs]
    known = [(told, number) for told, number in repairs if np.isfinite(told)]
    up = np.array([one.running_seconds for one in ledgers])
    walls = np.array([one.wall_seconds for one in ledgers])
    return Reliability(
        failures,
        running,
        len(known),
        mtbf(failures, running),
        mean([told for told, _ in known], [number for _, number in known]),
        ratio(np.minimum(up, walls), walls),
        _share([one.seconds.sum(axis=0) for one in ledgers], PRODUCTIVE),
        _share([one.seconds.sum(axis=0) for one in ledgers], RUNNING),
    )


def _share(units: Sequence[FloatGrid], buckets: Sequence[Bucket]) -> Estimate:
    """Of the rank-seconds of all units together, (len(BUCKETS),) each, what is in some buckets."""
    places = [INDEX[bucket] for bucket in buckets]
    table = np.array(units).reshape(-1, len(INDEX))
    return ratio(table[:, places].sum(axis=1), table.sum(axis=1))


def _together(spans: Sequence[tuple[float, float]]) -> float:
    """Length of the union of spans of time."""
    length, reach = 0.0, -np.inf
    for begin, end in sorted(spans):
        length += max(end - max(begin, reach), 0.0)
        reach = max(reach, end)
    return float(length)


def of_node(ledgers: Sequence[Ledger]) -> Reliability:
    """Of a node: attempts that a rank of it ended, in the running time of all nodes.

    Failures of which nobody knows the node are not counted: it is at most this MTBF. A repair is of
    the nodes that had ended the attempt. Intervals of shares are by nodes, and of repairs by
    repairs: one that two nodes needed reports how long one repair takes, not two.
    """
    failures, exposure = 0, 0.0
    nodes: dict[str, FloatGrid] = {}
    repairs: list[float] = []
    for one in ledgers:
        for attempt in one.attempts:
            there = {info.node for info in attempt.run.ranks} - {UNNAMED}
            exposure += attempt.seconds * len(there)
            if attempt.failed and attempt.ending is not None:
                failures += len(attempt.ended_by - {UNNAMED})
        for name, spent in one.by_node.items():
            if name != UNNAMED:
                nodes[name] = nodes.get(name, np.zeros(len(INDEX))) + spent
        repairs += [
            took for took, names in zip(one.repairs, one.repaired_from, strict=True)
            if names - {UNNAMED} and np.isfinite(took)
        ]  # fmt: skip
    return Reliability(
        failures,
        exposure,
        len(repairs),
        mtbf(failures, exposure),
        mean(repairs),
        goodput=_share(list(nodes.values()), PRODUCTIVE),
        ettr=_share(list(nodes.values()), RUNNING),
    )
