"""One pass over a fleet: arrays and what is remembered -> alarms and what is to be remembered.

`lockstep watch` calls `watch` once a cycle with the scrapes since the last one (one is enough),
after `state_file.restore` at its start, and `state_file.save` after each pass. Overlapping scrapes
do no harm: what was judged is not judged again. An alarm that is on stands in every pass with the
same `at`. A run's verdict does not come from here.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analyzer.sequential_test import peers
from analyzer.sequential_test.alarms import Alarm, alarm
from analyzer.sequential_test.arrays import TelemetryArrays
from analyzer.sequential_test.baseline import Noise
from analyzer.sequential_test.block import Block
from analyzer.sequential_test.budget import Budget
from analyzer.sequential_test.decisions import Decisions
from analyzer.sequential_test.discovery import ALPHA
from analyzer.sequential_test.presence import Presence
from analyzer.sequential_test.sequential import SUSPICION
from analyzer.sequential_test.state import State, aligned

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
        fleet: The GPUs that should answer; what they did not tell is NaN.
        state: From the last pass, `State.new()` or `state_file.restore`; it is not changed.
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
    seen = np.where(presence.told.any(axis=0), now, after.seen)
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
    return peers.same_size(np.where(stratum == "", -1, code))


def _slices(shape: tuple[int, ...]) -> Iterator[slice]:
    """The metrics in blocks that are small, and not many where the fleet is."""
    metrics, gpus = shape
    if not gpus:
        return
    height = max(1, BLOCK // (CHUNK * gpus))
    for begin in range(0, metrics, height):
        yield slice(begin, min(begin + height, metrics))
