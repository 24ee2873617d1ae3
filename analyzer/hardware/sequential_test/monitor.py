"""One pass over a fleet: arrays and what is remembered -> alarms and what is to be remembered.

`lockstep watch` calls `watch` once a cycle with the scrapes since the last one (one is enough),
after `state.restore` at its start, and `state.save` after each pass. Overlapping scrapes
do no harm: what was judged is not judged again. An alarm that is on stands in every pass with the
same `at`. A run's verdict does not come from here.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.alarms import (
    Alarm,
    Decisions,
    alarm,
    has_recovered,
    may_be_reported,
)
from lockstep.analyzer.hardware.sequential_test.baseline import Noise, learn, noise
from lockstep.analyzer.hardware.sequential_test.cusum import (
    SUSPICION,
    Limits,
    Samples,
    advance,
    samples,
)
from lockstep.analyzer.hardware.sequential_test.false_alarms import ALPHA, Budget
from lockstep.analyzer.hardware.sequential_test.presence import Presence
from lockstep.analyzer.hardware.sequential_test.residuals import (
    residuals,
    spread,
    to_scale,
)
from lockstep.analyzer.hardware.sequential_test.state import State, aligned
from lockstep.analyzer.hardware.sequential_test.streams import Streams, Test, before
from lockstep.analyzer.hardware.sequential_test.telemetry import MonitoredMetric, TelemetryArrays
from lockstep.analyzer.stragglers.peers import same_size

FloatArray = NDArray[np.float32]

SPREADS = 3.0
"""An offset of up to so many robust deviations of its stratum's offsets is natural."""


class Block:
    """A view of some rows of a pass's arrays: metrics prepared, judged and learned together.

    Metrics do not know each other until it is decided what is reported, so that blocks of them fit
    a processor's cache and may be worked on by several threads.

    Args:
        rows: Which metrics of the fleet.
        metrics: Those.
        streams: Of the fleet; changed in place.
        presence: Of the fleet; counted in place.
        common: Noise of the fleet; kept up to date in place.
        groups: From `same_size`.
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

    def prepare(self, reported: FloatArray) -> None:
        """Take the values of some checks, (T, M of the block, G that answer).

        GPUs that are remembered and not among them are silent.
        """
        values = to_scale(reported, self._worse, self._ratio)
        gone = self._streams.centre.shape[1] - values.shape[2]
        if gone:
            values = np.pad(values, ((0, 0), (0, 0), (0, gone)), constant_values=np.nan)
        self._residuals = residuals(values, self._streams.centre, self._groups)
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
        usual = spread(self._streams.centre, self._groups)
        return Limits(tolerance, np.maximum(natural, np.float32(SPREADS) * usual), nats)


CHUNK = 8
"""Checks that are prepared at once: what a stream always was need not be newer than two minutes."""
BLOCK = 1 << 17
"""Values that a block prepares at once, about: half a megabyte, so that they stay in the cache."""
THREADS = 2


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass found.

    Attributes:
        alarms: Streams that were on at the start of the pass or reported in it, oldest first.
        state: For the next pass.
        coverage: Share of (check, metric, GPU) cells that were judged, 0 to 1.
        missing: What was not there, in words.
        judged: Checks times streams that were judged: what false alarms are counted against.
    """

    alarms: tuple[Alarm, ...]
    state: State
    coverage: float
    missing: tuple[str, ...]
    judged: int


def watch(fleet: TelemetryArrays, state: State, budget: Budget, alpha: float = ALPHA) -> Pass:
    """Judge every check of `fleet` that is later than the state.

    A stream is reported when its evidence reaches the budget's threshold, and when e-BH over all
    streams judged at that check reports it at level `alpha`.

    Args:
        fleet: The GPUs that should answer; what they did not report is NaN.
        state: From the last pass, `State.new()` or `state.restore`; it is not changed.
    """
    after, words = aligned(state, fleet)
    words += _behind(fleet, state)
    streams = after.streams
    shape = streams.centre.shape
    presence = Presence.new(*shape)
    common = Noise(np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32))
    groups = _groups(after.stratum)
    blocks = [
        Block(rows, fleet.metrics[rows], streams, presence, common, groups, budget.nats)
        for rows in _slices(shape)
    ]
    decisions = Decisions(streams, common, budget.nats, alpha)
    new = np.flatnonzero(fleet.times > state.until)
    with ThreadPoolExecutor(THREADS) as pool:
        for chunk in (new[begin : begin + CHUNK] for begin in range(0, len(new), CHUNK)):
            presence.checks += len(chunk)
            _judge(fleet, slice(int(chunk[0]), int(chunk[-1]) + 1), blocks, decisions, pool)
    alarms = [
        alarm(reading, until, after, fleet.metrics[reading.metric], presence)
        for reading, until in decisions.readings()
    ]
    now = float(fleet.times[new[-1]]) if len(new) else state.until
    seen = np.where(presence.reported.any(axis=0), now, after.seen)
    return Pass(
        alarms=tuple(sorted(alarms, key=lambda one: (one.at, -one.e_value))),
        state=replace(after, until=now, seen=seen),
        coverage=presence.coverage,
        missing=words + presence.all_words(after.stratum),
        judged=int(presence.judged.sum()),
    )


def _judge(
    fleet: TelemetryArrays,
    some: slice,
    blocks: Sequence[Block],
    decisions: Decisions,
    pool: ThreadPoolExecutor,
) -> None:
    """Some checks: prepared, judged and learned metric by metric, decided on check by check."""
    values = fleet.values[some]
    times = fleet.times[some].tolist()
    suspected = np.zeros(decisions.streams.centre.shape, dtype=np.bool_)

    def ahead(block: Block) -> bool:
        block.prepare(values[:, block.rows])
        return block.run_ahead(times, suspected)

    if any(list(pool.map(ahead, blocks))):
        _decide(times, blocks, decisions, suspected)
    list(pool.map(lambda block: block.learn(~suspected), blocks))


def _decide(
    times: Sequence[float],
    blocks: Sequence[Block],
    decisions: Decisions,
    suspected: NDArray[np.bool_],
) -> None:
    """Check by check, because a decision is over all metrics and changes what follows."""
    leading = np.zeros(suspected.shape, dtype=np.float32)
    judged = np.zeros(suspected.shape, dtype=np.bool_)
    suspected[...] = False
    for block in blocks:
        block.back()
    for check, when in enumerate(times):
        for block in blocks:
            block.advance(check, when, leading, judged)
        suspected |= leading >= SUSPICION
        decisions.take(leading, judged, when)


def _behind(fleet: TelemetryArrays, state: State) -> tuple[str, ...]:
    """That even the last check is older than the state, in words."""
    behind = state.until - float(fleet.times[-1]) if len(fleet.times) else 0.0
    if behind <= 0:
        return ()
    words = f"the last check is {behind:.0f} s older than one judged before"
    return (f"nothing was judged: {words}, as when a clock was ahead",)


def _groups(stratum: NDArray[np.str_]) -> list[NDArray[np.intp]]:
    _, code = np.unique(stratum, return_inverse=True)
    return same_size(np.where(stratum == "", -1, code))


def _slices(shape: tuple[int, ...]) -> Iterator[slice]:
    """The metrics in blocks that are small, and not many where the fleet is."""
    metrics, gpus = shape
    if not gpus:
        return
    height = max(1, BLOCK // (CHUNK * gpus))
    for begin in range(0, metrics, height):
        yield slice(begin, min(begin + height, metrics))
