"""What is said of a changed stream: who, since when, how much, how surely."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.baseline import Noise, known_from
from lockstep.analyzer.hardware.sequential_test.cusum import mixture
from lockstep.analyzer.hardware.sequential_test.false_alarms import e_bh, recency
from lockstep.analyzer.hardware.sequential_test.presence import Presence
from lockstep.analyzer.hardware.sequential_test.state import State
from lockstep.analyzer.hardware.sequential_test.streams import Streams
from lockstep.analyzer.hardware.sequential_test.telemetry import MonitoredMetric

CONFIDENCE = 1.96
"""Standard errors of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A stream that became worse against its peers and its own past.

    Attributes:
        since: Unix seconds of the estimated onset: the first sample of the evidence.
        at: Unix seconds of the check that reported it.
        until: Unix seconds of the check that saw it recovered; None = it is still on.
        e_value: Evidence for "it changed some time before now" at `at`, or at the last check where
            an earlier pass reported it; its expectation in a healthy stream is at most 1.
        effect: Now over what it was against its peers, or the difference in the metric's unit.
        interval: 95 % interval of `effect`.
        level: Now over its peers, or the difference: a GPU that only lost an advantage changed, and
            holds nobody back.
        coverage: Share of its stratum's samples of this metric that were told in this pass, 0 to 1.
        missing: What was not there, in words.
    """

    node: str
    gpu: int
    uuid: str
    metric: str
    since: float
    at: float
    until: float | None
    e_value: float
    effect: float
    interval: tuple[float, float]
    level: float
    coverage: float
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a stream's numbers say at one check, on the compared scale (more is worse)."""

    metric: int
    gpu: int
    since: float
    at: float
    e_value: float
    effect: float
    error: float
    level: float


def read(streams: Streams, places: Iterable[tuple[int, int]], noise: Noise) -> list[Reading]:
    """The readings of some streams with evidence, (metric, GPU) each."""
    readings = []
    for place in places:
        length = max(float(streams.length[place]), 1.0)
        effect = float(streams.excess[place]) / length
        known = float(known_from(streams.count[place]))
        level = float(noise.scale[place] / (1 - noise.rho[place]))  # of the mean of AR(1) samples
        nats = mixture(streams.evidence[:, place[0], place[1], None])
        readings.append(
            Reading(
                metric=place[0],
                gpu=place[1],
                since=float(streams.onset[place]),
                at=float(streams.alarmed[place]),
                e_value=float((np.exp(nats) * recency(np.array([length])))[0]),
                effect=effect,
                error=level * float(np.hypot(length**-0.5, known**-0.5)),
                level=float(streams.centre[place]) + effect,
            )
        )
    return readings


def alarm(
    reading: Reading,
    until: float | None,
    state: State,
    metric: MonitoredMetric,
    presence: Presence,
) -> Alarm:
    """A reading in words' units, with who it is and what was missing."""
    place = reading.metric, reading.gpu
    edges = reading.effect + CONFIDENCE * reading.error * np.array([-1.0, 0.0, 1.0])
    signed = metric.worse * np.append(edges, reading.level)
    *interval, level = (np.exp(signed) if metric.ratio else signed).tolist()
    low, middle, high = sorted(interval)
    return Alarm(
        node=str(state.node[reading.gpu]),
        gpu=int(state.gpu[reading.gpu]),
        uuid=str(state.uuid[reading.gpu]),
        metric=metric.name,
        since=reading.since,
        at=reading.at,
        until=until,
        e_value=reading.e_value,
        effect=middle,
        interval=(low, high),
        level=level,
        coverage=presence.of_peers(place, state.stratum),
        missing=presence.words(place, state.stratum),
    )


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
        found: list[tuple[Reading, float | None]] = [
            (reading, until) for reading, until in self._ended
        ]
        for reading in on:
            first = self._begun.get((reading.metric, reading.gpu))
            found.append((replace(reading, e_value=first.e_value) if first else reading, None))
        return found

    def _recover(self, chosen: NDArray[np.bool_], when: float) -> None:
        if not chosen.any():
            return
        for reading in read(self.streams, _places(chosen), self.noise):
            # What was read at the report is not yet diluted by the time after the change.
            self._ended.append((self._begun.pop((reading.metric, reading.gpu), reading), when))
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
        for reading in read(self.streams, chosen, self.noise):
            self._begun[reading.metric, reading.gpu] = reading


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
