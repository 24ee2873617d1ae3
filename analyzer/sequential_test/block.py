"""Some metrics of a fleet, prepared, judged and learned together.

Metrics do not know each other until it is decided what is reported, so that blocks of them fit a
processor's cache and may be worked on by several threads.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyzer.sequential_test import peers
from analyzer.sequential_test.baseline import Noise, learn, noise
from analyzer.sequential_test.decisions import has_recovered, may_be_reported
from analyzer.sequential_test.metrics import MonitoredMetric
from analyzer.sequential_test.presence import Presence
from analyzer.sequential_test.sequential import SUSPICION, Limits, Samples, advance, samples
from analyzer.sequential_test.streams import Streams, Test, before

FloatArray = NDArray[np.float32]

SPREADS = 3.0
"""An offset of up to so many robust deviations of its stratum's offsets is natural."""


class Block:
    """A view of some rows of a pass's arrays.

    Args:
        rows: Which metrics of the fleet.
        metrics: Those.
        streams: Of the fleet; changed in place.
        presence: Of the fleet; counted in place.
        common: Noise of the fleet; kept up to date in place.
        groups: From `peers.same_size`.
        nats: Evidence for an alarm.
    """

    def __init__(
        self,
        rows: slice,
        metrics: Sequence[MonitoredMetric],
        streams: Streams,
        presence: Presence,
        common: Noise,
        groups: Sequence[NDArray[np.intp]],
        nats: float,
    ) -> None:
        self.rows = rows
        self._streams = streams.rows(rows)
        self._presence = presence.rows(rows)
        self._groups = groups
        self._worse = np.array([metric.worse for metric in metrics], dtype=np.float32)
        self._ratio = np.array([metric.ratio for metric in metrics], dtype=np.bool_)
        self._floor = np.array([metric.floor for metric in metrics], dtype=np.float32)
        self._limits = self._no_change(metrics, nats)
        self._noise = common.rows(rows)
        self._noise.take(noise(self._streams, self._floor))
        self._residuals = self._earlier = np.empty((0, *self._streams.centre.shape), np.float32)
        self._samples: Samples | None = None
        self._before: Test | None = None

    def prepare(self, told: FloatArray) -> None:
        """Take the values of some checks, (T, M of the block, G told of).

        GPUs that are remembered and not told of are silent.
        """
        values = peers.to_scale(told, self._worse, self._ratio)
        gone = self._streams.centre.shape[1] - values.shape[2]
        if gone:
            values = np.pad(values, ((0, 0), (0, 0), (0, gone)), constant_values=np.nan)
        self._residuals = peers.residuals(values, self._streams.centre, self._groups)
        self._noise.take(noise(self._streams, self._floor))
        self._earlier = before(self._residuals, self._streams.last)
        self._samples = samples(
            self._streams, self._residuals, self._earlier, self._noise, self._limits
        )
        self._presence.add(values, self._residuals, self._samples.judged)

    def advance(
        self, check: int, when: float, leading: FloatArray, judged: NDArray[np.bool_]
    ) -> None:
        """Judge one of the prepared checks; the fleet's (M, G) arrays get this block's rows."""
        assert self._samples is not None
        leading[self.rows] = advance(self._streams, self._samples, check, when, self._limits)
        judged[self.rows] = self._samples.judged[check]

    def run_ahead(self, times: Sequence[float], suspected: NDArray[np.bool_]) -> bool:
        """Judge all prepared checks as if nothing were decided in between.

        That is right where nothing is, and most checks are so. Whoever has a decision to take takes
        the block `back` and goes check by check.

        Args:
            times: Unix seconds of the checks.
            suspected: (M, G) of the fleet; this block's rows become those that must not learn.

        Returns:
            Whether a check has something to decide (`decisions.Decisions.take`).
        """
        assert self._samples is not None
        self._before = self._streams.test()
        on = np.isfinite(self._streams.alarmed)
        some_on = bool(on.any())
        for check, when in enumerate(times):
            leading = advance(self._streams, self._samples, check, when, self._limits)
            highest = leading.max(initial=0)
            if some_on and has_recovered(on, leading, self._limits.nats).any():
                return True
            if highest >= self._limits.nats:
                judged = self._samples.judged[check]
                if may_be_reported(on, leading, judged, self._limits.nats).any():
                    return True
            if highest >= SUSPICION:
                suspected[self.rows] |= leading >= SUSPICION
        return False

    def back(self) -> None:
        """Be as before `run_ahead`."""
        assert self._before is not None
        self._streams.put_test(self._before)

    def learn(self, chosen: NDArray[np.bool_]) -> None:
        """Learn the prepared checks, of the chosen streams of the fleet."""
        learn(self._streams, self._residuals, self._earlier, self._noise, chosen[self.rows])
        for residual in self._residuals:
            np.copyto(self._streams.last, residual, where=np.isfinite(residual))

    def _no_change(self, metrics: Sequence[MonitoredMetric], nats: float) -> Limits:
        tolerance = np.array([[metric.tolerance] for metric in metrics], dtype=np.float32)
        natural = np.array([[metric.natural] for metric in metrics], dtype=np.float32)
        usual = peers.spread(self._streams.centre, self._groups)
        return Limits(tolerance, np.maximum(natural, np.float32(SPREADS) * usual), nats)
