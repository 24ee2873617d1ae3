"""Which streams are reported at a check, and which have recovered."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.alarms import Reading, read
from lockstep.analyzer.hardware.sequential_test.baseline import Noise
from lockstep.analyzer.hardware.sequential_test.discovery import e_bh, recency
from lockstep.analyzer.hardware.sequential_test.sequential import mixture
from lockstep.analyzer.hardware.sequential_test.streams import Streams

FloatArray = NDArray[np.float32]
Place = tuple[int, int]

RECOVERED = 0.5
"""A reported stream has recovered when this share of the threshold's evidence is left."""


@dataclass(slots=True)
class Decisions:
    """The alarms of one pass, check by check.

    Attributes:
        streams: Changed in place: reports and recoveries are remembered there.
        noise: Of all streams, as they are judged now.
        nats: Evidence for an alarm.
        alpha: Level of e-BH.
    """

    streams: Streams
    noise: Noise
    nats: float
    alpha: float
    _begun: dict[Place, Reading] = field(default_factory=dict)
    _ended: list[tuple[Reading, float]] = field(default_factory=list)

    def take(self, leading: FloatArray, judged: NDArray[np.bool_], when: float) -> None:
        """After a check: (M, G) leading evidence, and which streams were judged."""
        on = np.isfinite(self.streams.alarmed)
        if not on.any() and leading.max(initial=0) < self.nats:
            return
        self._recover(has_recovered(on, leading, self.nats), when)
        self._report(may_be_reported(on, leading, judged, self.nats), leading, judged, when)

    def readings(self) -> list[tuple[Reading, float | None]]:
        """Every alarm of the pass, and when it ended; None = it is on."""
        on = read(self.streams, _places(np.isfinite(self.streams.alarmed)), self.noise)
        found: list[tuple[Reading, float | None]] = [(one, until) for one, until in self._ended]
        for one in on:
            first = self._begun.get((one.metric, one.gpu))
            found.append((replace(one, e_value=first.e_value) if first else one, None))
        return found

    def _recover(self, chosen: NDArray[np.bool_], when: float) -> None:
        if not chosen.any():
            return
        for one in read(self.streams, _places(chosen), self.noise):
            # What was read at the report is not yet diluted by the time after the change.
            self._ended.append((self._begun.pop((one.metric, one.gpu), one), when))
        self.streams.clear(chosen)

    def _report(
        self,
        candidates: NDArray[np.bool_],
        leading: FloatArray,
        judged: NDArray[np.bool_],
        when: float,
    ) -> None:
        if not candidates.any():
            return
        # Of k reported ones e_(k) >= tested / (alpha k) >= 1 / alpha: others have no say.
        hopeful = leading >= np.log(1 / self.alpha)
        places = np.argwhere(judged & hopeful & (self.streams.length > 0))
        rows, columns = places.T
        nats = mixture(self.streams.evidence[:, rows, columns])
        e_values = np.exp(nats) * recency(self.streams.length[rows, columns])
        reported = (
            e_bh(e_values, int(judged.sum()), self.alpha)
            & candidates[rows, columns]
            & (nats >= self.nats)
        )
        chosen = [(row, column) for row, column in places[reported].tolist()]
        for place in chosen:
            self.streams.alarmed[place] = when
        for one in read(self.streams, chosen, self.noise):
            self._begun[one.metric, one.gpu] = one


def has_recovered(on: NDArray[np.bool_], leading: FloatArray, nats: float) -> NDArray[np.bool_]:
    """Which of the streams that are on have recovered."""
    return on & (leading < RECOVERED * nats)


def may_be_reported(
    on: NDArray[np.bool_], leading: FloatArray, judged: NDArray[np.bool_], nats: float
) -> NDArray[np.bool_]:
    """Which streams have the evidence for an alarm; e-BH has the last word."""
    return judged & ~on & (leading >= nats)


def _places(chosen: NDArray[np.bool_]) -> list[Place]:
    return [(row, column) for row, column in np.argwhere(chosen).tolist()]
