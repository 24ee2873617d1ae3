"""Counters that never fall: what happens when the thing that is counted begins anew."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain, repeat
from typing import NamedTuple

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Kind, Sample

MAX_COUNTERS = 20_000
"""Counters remembered; those that are exported no more are forgotten first, the oldest before."""
HELD_READINGS = 60
"""Readings in a row below a held value, after which it goes on from there: it was no noise."""
WRAPS: Mapping[str, float] = {
    m.GPU_PCIE_REPLAY.name: 2.0**32,
}
"""Metrics known to begin at 0 again after so many (nvmlDeviceGetPcieReplayCounter counts in an
unsigned int). Softnet's wraps are undone where they are read, processor by processor. Others
saturate in place of wrapping: they stand at their highest value, and are exported so."""
STEPS: Mapping[str, float] = {
    m.GPU_ENERGY.name: 1.0,
    m.GPU_CLOCK_EVENT_SECONDS.name: 1e-3,
}
"""What a source may round a counter to, by metric: DCGM 4.7 tells energy in whole joules where
older ones tell millijoules, and throttled times as seconds with six decimals in place of
nanoseconds. An upgraded exporter tells a little less than before, and begins nothing anew."""
ON_THE_BOARD: Mapping[str, str] = {
    m.GPU_ECC_ERRORS.name: "aggregate",
    m.GPU_ECC_LOCATION_ERRORS.name: "aggregate",
}
"""Counters that a reboot leaves as they are, by metric and one of its labels: aggregate ECC counts
"persist across reboots (i.e. for the lifetime of the device)" (nvml.h, nvmlEccCounterType_t).

All others begin anew: volatile ECC counts "are reset each time the driver loads" (ibid.), energy
counts "since the driver was last reloaded" (nvmlDeviceGetTotalEnergyConsumption), and throttled
times and PCIe and NVLink counts are kept by the driver or in registers of the device."""


class Falls(StrEnum):
    """What a counter that reads less than before means."""

    TOLD = "told"
    """It is exported as it is: a rank begins anew, and its attempt says so."""
    HOLD = "hold"
    """Noise of the kernel's arithmetic: the higher value stands until it is passed again, or has
    been missed HELD_READINGS times. Less than half of it is no noise, and exported as it is."""
    CARRY = "carry"
    """A reset, as of a GPU or its driver, or a wrap: what was counted before is added. One by less
    than a step of STEPS is the rounding of another source: the higher value stands."""


class Counter(NamedTuple):
    """The last value of the source, and what it had counted before its resets."""

    raw: float
    offset: float


Key = tuple[str, tuple[str, ...]]


class Counters:
    """The counters of one feed. One thread passes samples through, any may ask what is kept."""

    def __init__(self, falls: Falls) -> None:
        self.falls = falls
        self._lock = threading.Lock()
        self._known: dict[Key, Counter] = {}
        self._held: dict[Key, int] = {}
        self._last: tuple[tuple[Sample, ...], tuple[Sample, ...]] = ((), ())

    def through(self, samples: Iterable[Sample]) -> tuple[Sample, ...]:
        """The samples, counters never below what they were."""
        if self.falls is Falls.TOLD:
            return tuple(samples)
        with self._lock:
            given = tuple(samples)
            passed = tuple(self._passed(given))
            if self.falls is Falls.CARRY:  # of a held counter, every reading counts
                self._last = (given, passed)
            if len(self._known) > MAX_COUNTERS:
                self._forget({(sample.metric.name, sample.labels) for sample in passed})
        return passed

    def kept(self) -> dict[Key, Counter]:
        """What a restart has to know: of held counters, only what was added to them."""
        with self._lock:
            if self.falls is Falls.CARRY:
                return dict(self._known)
            return {key: counter for key, counter in self._known.items() if counter.offset}

    def resume(self, kept: Mapping[Key, Counter]) -> None:
        """Go on where an earlier process stopped."""
        with self._lock:
            self._known = {} if self.falls is Falls.TOLD else dict(kept)
            self._held.clear()
            self._last = ((), ())

    def _forget(self, keys: set[Key]) -> None:
        # False sorts first: what was not told now, in the order in which it was met.
        for key in sorted(self._known, key=keys.__contains__)[: len(self._known) - MAX_COUNTERS]:
            del self._known[key]
            self._held.pop(key, None)

    def _passed(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        last = (chain(one, repeat(None)) for one in self._last)
        for sample, earlier, passed in zip(samples, *last, strict=False):
            if sample is earlier and passed is not None:  # most of what GPUs tell stays the same
                yield passed
                continue
            metric, labels, raw = sample
            if metric.kind is not Kind.COUNTER or raw != raw:  # NaN: an absent value
                yield sample
                continue
            key = (metric.name, labels)
            before = self._known.get(key)
            if before is None:
                now = Counter(raw, 0.0)
            elif raw >= before.raw:
                now = before if raw == before.raw else Counter(raw, before.offset)
                if self._held:
                    self._held.pop(key, None)
            else:
                now = self._fallen(key, raw, before)
            self._known[key] = now
            value = now.raw + now.offset
            yield sample if value == raw else Sample(metric, labels, value)

    def _fallen(self, key: Key, raw: float, before: Counter) -> Counter:
        if self.falls is Falls.CARRY:
            if before.raw - raw < STEPS.get(key[0], 0.0):
                return before
            return Counter(raw, before.offset + _lost(key[0], raw, before.raw))
        # iowait may fall by a tick (proc(5)); what begins anew begins at almost nothing.
        if raw < before.raw / 2:
            self._held.pop(key, None)
            return Counter(raw, 0.0)
        held = self._held.get(key, 0) + 1
        if held < HELD_READINGS:
            self._held[key] = held
            return before
        # Told as it is, it would be counted a second time: Prometheus takes a fall for a reset.
        del self._held[key]
        return Counter(raw, before.offset + before.raw - raw)


def after_reboot(kept: Mapping[Key, Counter]) -> dict[Key, Counter]:
    """The counters of before a reboot, ready for what counts from 0 again."""
    return {
        key: counter if ON_THE_BOARD.get(key[0]) in key[1]
        else Counter(0.0, counter.offset + counter.raw)
        for key, counter in kept.items()
    }  # fmt: skip


def _lost(name: str, raw: float, before: float) -> float:
    """What a counter that fell had counted: a wrap comes from the top of its range to the bottom.

    A reset that is read before the counter has passed its old value is seen; one that is read
    later, no source tells.
    """
    wrap = WRAPS.get(name, 0.0)
    return wrap if before >= 0.75 * wrap and raw < 0.25 * wrap else before
