"""What is said of a changed stream: who, since when, how much, how surely."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.hardware.sequential_test.baseline import Noise, known_from
from lockstep.analyzer.hardware.sequential_test.discovery import recency
from lockstep.analyzer.hardware.sequential_test.metrics import MonitoredMetric
from lockstep.analyzer.hardware.sequential_test.presence import Presence
from lockstep.analyzer.hardware.sequential_test.sequential import mixture
from lockstep.analyzer.hardware.sequential_test.state import State
from lockstep.analyzer.hardware.sequential_test.streams import Streams

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
    found = []
    for place in places:
        length = max(float(streams.length[place]), 1.0)
        effect = float(streams.excess[place]) / length
        known = float(known_from(streams.count[place]))
        level = float(noise.scale[place] / (1 - noise.rho[place]))  # of the mean of AR(1) samples
        nats = mixture(streams.evidence[:, place[0], place[1], None])
        found.append(
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
    return found


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
    told = metric.worse * np.append(edges, reading.level)
    *interval, level = (np.exp(told) if metric.ratio else told).tolist()
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
