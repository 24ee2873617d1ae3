"""Counters that never fall: what happens when the thing that is counted begins anew."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from collector.contract.metrics import Kind, Sample

MAX_COUNTERS = 20_000
"""Counters remembered; the first ones met are forgotten first."""


class Falls(StrEnum):
    """What a counter that reads less than before means."""

    TOLD = "told"
    """It is told as it is: a rank begins anew, and its attempt says so."""
    HOLD = "hold"
    """Noise of the kernel's arithmetic: the higher value stands until it is passed again."""
    CARRY = "carry"
    """A reset, as of a GPU or its driver: what was counted before is added from then on."""


class Counter(NamedTuple):
    """What the source last told, and what it had told before its resets."""

    raw: float
    offset: float


Key = tuple[str, tuple[str, ...]]


class Counters:
    """The counters of one feed. One thread passes samples through, any may ask what is kept."""

    def __init__(self, falls: Falls) -> None:
        self.falls = falls
        self._lock = threading.Lock()
        self._known: dict[Key, Counter] = {}

    def through(self, samples: Iterable[Sample]) -> tuple[Sample, ...]:
        """The samples, counters never below what they were."""
        if self.falls is Falls.TOLD:
            return tuple(samples)
        with self._lock:
            passed = tuple(self._passed(samples))
            while len(self._known) > MAX_COUNTERS:
                del self._known[next(iter(self._known))]
        return passed

    def kept(self) -> dict[Key, Counter]:
        """What a restart has to know."""
        with self._lock:
            return dict(self._known) if self.falls is Falls.CARRY else {}

    def resume(self, kept: Mapping[Key, Counter]) -> None:
        """Go on where an earlier process stopped."""
        with self._lock:
            self._known = dict(kept) if self.falls is Falls.CARRY else {}

    def _passed(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        for sample in samples:
            if sample.metric.kind is not Kind.COUNTER:
                yield sample
                continue
            key = (sample.metric.name, sample.labels)
            before = self._known.get(key)
            if before is None:
                now = Counter(sample.value, 0)
            elif sample.value >= before.raw:
                now = Counter(sample.value, before.offset)
            else:
                now = self._fallen(sample.value, before)
            self._known[key] = now
            value = now.raw + now.offset
            yield sample if value == sample.value else sample._replace(value=value)

    def _fallen(self, value: float, before: Counter) -> Counter:
        # iowait may fall by a tick (proc(5)); a reset falls to almost nothing.
        if value >= before.raw / 2:
            return before
        carried = before.raw if self.falls is Falls.CARRY else 0
        return Counter(value, before.offset + carried)
