"""What is remembered of every stream between two checks: 68 bytes, 136 MB for 2 million."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.likelihood import SHIFTS

FloatArray = NDArray[np.float32]
Test = tuple[FloatArray, FloatArray, FloatArray, NDArray[np.float64]]
"""Evidence, length, excess and onset: what one check of the test changes."""


@dataclass(slots=True)
class Streams:
    """Arrays over (metric, GPU); residuals are a value's distance from its peers.

    Attributes:
        centre: What the residual always was.
        scale: Robust deviation of its innovations, see `baseline`.
        lag, power: Running means of neighbouring residuals' product and of their square; the ratio
            is the lag-1 autocorrelation.
        last: The last residual that was reported; NaN = none was.
        count: Samples learned from.
        evidence: (K, M, G) nats of each shift of `likelihood.SHIFTS`.
        length, excess: Samples since the evidence last rose above 0, and their sum of residuals
            above the centre.
        onset, alarmed: (M, G) float64 unix seconds: when it rose, and when the stream was
            reported; NaN = it did not, it is not.
    """

    centre: FloatArray
    scale: FloatArray
    lag: FloatArray
    power: FloatArray
    last: FloatArray
    count: FloatArray
    evidence: FloatArray
    length: FloatArray
    excess: FloatArray
    onset: NDArray[np.float64]
    alarmed: NDArray[np.float64]

    @classmethod
    def new(cls, metrics: int, gpus: int) -> "Streams":
        """Streams of which nothing is known."""
        zeros = [np.zeros((metrics, gpus), dtype=np.float32) for _ in range(7)]
        centre, scale, lag, power, count, length, excess = zeros
        never = np.full((metrics, gpus), np.nan)
        evidence = np.zeros((len(SHIFTS), metrics, gpus), dtype=np.float32)
        last = never.astype(np.float32)
        return cls(
            centre, scale, lag, power, last, count, evidence, length, excess, never, never.copy()
        )

    def rows(self, chosen: slice) -> "Streams":
        """The streams of some metrics: views, so that what changes there changes here."""
        return Streams(
            **{field.name: getattr(self, field.name)[..., chosen, :] for field in fields(self)}
        )

    def forget(self, gpus: NDArray[np.intp]) -> None:
        """Begin some columns anew."""
        fresh = Streams.new(self.centre.shape[0], len(gpus))
        for field in fields(self):
            getattr(self, field.name)[..., gpus] = getattr(fresh, field.name)

    def taken(self, metrics: NDArray[np.intp], gpus: NDArray[np.intp]) -> "Streams":
        """A copy with other axes; a place below 0 is a stream of which nothing is known."""
        streams = Streams.new(len(metrics), len(gpus))
        rows, columns = np.flatnonzero(metrics >= 0), np.flatnonzero(gpus >= 0)
        here = np.ix_(rows, columns)
        there = np.ix_(metrics[rows], gpus[columns])
        for field in fields(self):
            getattr(streams, field.name)[(..., *here)] = getattr(self, field.name)[(..., *there)]
        return streams

    def test(self) -> Test:
        """A copy of what the test changes."""
        return self.evidence.copy(), self.length.copy(), self.excess.copy(), self.onset.copy()

    def put_test(self, before: Test) -> None:
        """Be again as when `before` was copied."""
        self.evidence[...], self.length[...], self.excess[...], self.onset[...] = before

    def clear(self, chosen: NDArray[np.bool_]) -> None:
        """Drop the evidence of the chosen streams, (M, G); what was learned of them stays."""
        self.evidence[:, chosen] = 0
        self.length[chosen] = 0
        self.excess[chosen] = 0
        self.onset[chosen] = np.nan
        self.alarmed[chosen] = np.nan


def how_often(true: NDArray[np.bool_]) -> NDArray[np.uint8] | NDArray[np.int64]:
    """(M, G) in how many of (T, M, G) checks something is so.

    As bytes where these can hold it, which is several times as fast.
    """
    small = len(true) <= np.iinfo(np.uint8).max
    return np.asarray(true.view(np.uint8).sum(axis=0, dtype=np.uint8 if small else np.int64))


def before(values: FloatArray, last: FloatArray) -> FloatArray:
    """(T, M, G) what was reported before each of `values`; `last`, (M, G), before the first.

    The time between does not count: a rank with steps longer than a scrape reports something every
    second check, and neighbours are what it told one after the other.
    """
    earlier = np.empty_like(values)
    for check, value in enumerate(values):
        earlier[check] = last
        last = np.where(np.isfinite(value), value, last)
    return earlier
