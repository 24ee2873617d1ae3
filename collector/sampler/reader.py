"""What one source last said, reading by reading: samples, health, and how long one takes."""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lockstep.collector.clock import Clock
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.readings.source import IMPLAUSIBLE, Rejected, SourceError
from lockstep.collector.samples.counters import Counter as Kept
from lockstep.collector.samples.counters import Counters, Key
from lockstep.collector.samples.feed import Feed, Resuming
from lockstep.collector.samples.monitor import SourceHealth

# Values that cannot be are left out and counted, whichever source they come from.


def plausible(samples: Iterable[Sample]) -> tuple[Sequence[Sample], list[Rejected]]:
    """The samples within the ranges of their metrics, and the others, each with what it was."""
    given = tuple(samples)
    outside = [
        sample for sample in given
        if not sample[0].within[0] <= sample[2] <= sample[0].within[1] and sample[2] == sample[2]
    ]  # fmt: skip
    if not outside:  # nearly always, and this is every value of every reading
        return given, []
    refused = set(map(id, outside))
    return [one for one in given if id(one) not in refused], [_refused(one) for one in outside]


def _refused(sample: Sample) -> Rejected:
    metric, labels, value = sample
    pairs = ",".join(
        f'{name}="{text}"' for name, text in zip(metric.labels, labels, strict=False) if text
    )
    low, high, reason = metric.within
    return Rejected(
        IMPLAUSIBLE,
        f"{metric.name}{{{pairs}}} is {value:g}; it can be {low:g} to {high:g} ({reason})",
    )


LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Published:
    """What one feed last said; replaced as a whole, so that a page never mixes two readings."""

    samples: tuple[Sample, ...] = ()
    read_at: float = 0.0
    available: bool = False
    up: bool = False
    halted: bool = False
    unknown_names: int | None = None
    last_success: float | None = None
    duration: float | None = None


class SourceState(NamedTuple):
    """How a source is, in words.

    Attributes:
        failures: The last message of each reason for which something failed.
        missing: Why this node does not have what the source reads, if it does not.
        series: Number of values that the last reading gave.
    """

    health: SourceHealth
    failures: Mapping[str, str]
    missing: str
    series: int


class FeedReader:
    """Reads one feed again and again; hangs alone when its source hangs."""

    def __init__(self, feed: Feed, clock: Clock) -> None:
        self.feed = feed
        self.first_pass = threading.Event()
        self._clock = clock
        self._published = _Published()
        self._started: float | None = None  # of the reading that is under way
        self._errors: Counter[str] = Counter()
        self._told: dict[str, str] = {}
        self._counters = Counters(feed.falls)
        self._collected: tuple[object, tuple[Sample, ...]] = (None, ())
        self._lock = threading.Lock()

    def read_once(self) -> None:
        """One reading, published whole; every failure is counted and logged once."""
        started = self._clock.monotonic()
        self._started = started
        samples: tuple[Sample, ...] = ()
        failures: list[Rejected] = []
        available = up = halted = False
        unknown: frozenset[str] | None = None
        try:
            available = self.feed.source.available()
            if available:
                reading = self.feed.source.read()
                failures += getattr(reading, "rejected", ())
                unknown = getattr(reading, "unknown_names", None)
                halted = getattr(reading, "stalled", False)
                samples = self._samples_of(reading, failures)
                up = True
        except SourceError as error:
            failures.append(Rejected.of(error))
        except PermissionError as error:  # a folder that this user may not even look at
            failures.append(Rejected("permission", str(error)))
        except Exception as error:
            failures.append(Rejected("internal", repr(error)))
            if not self._errors["internal"]:
                LOG.exception("source %s failed; this is a bug", self.feed.source.name)
        for failure in failures:
            self.count(failure)
        now = self._clock.monotonic()
        before = self._published
        self._published = _Published(
            samples=samples,
            read_at=now,
            available=available,
            up=up,
            halted=halted,
            unknown_names=None if unknown is None else len(unknown),
            last_success=self._clock.wall() if up else before.last_success,
            duration=now - started,
        )
        self._started = None
        self.first_pass.set()

    def count(self, failure: Rejected) -> None:
        """Count a failure by its reason; the first of each is logged."""
        with self._lock:
            first = not self._errors[failure.reason]
            self._errors[failure.reason] += 1
            self._told[failure.reason] = failure.message
        if first or failure.each:
            LOG.warning(
                "source %s: %s: %s%s",
                self.feed.source.name, failure.reason, failure.message,
                "" if failure.each else " (counted from now on, not logged again)",
            )  # fmt: skip

    def run(self, stop: threading.Event, phase: float = 1.0) -> None:
        """Read at once, and at every period until told to stop; a missed turn is skipped.

        Args:
            stop: Ends the reading.
            phase: Share of the period before the second reading, so that feeds take turns.
        """
        due = self._clock.monotonic() + (phase - 1) * self.feed.period
        while not stop.is_set():
            self.read_once()
            due = max(due + self.turns() * self.feed.period, self._clock.monotonic())
            stop.wait(due - self._clock.monotonic())
        self.close()

    def turns(self) -> int:
        """Periods until the next reading."""
        return 1 if self._published.available else self.feed.look

    def close(self) -> None:
        """End what the source started."""
        close = getattr(self.feed.source, "close", None)
        if close is not None:
            close()

    def _samples_of(self, reading: object, failures: list[Rejected]) -> tuple[Sample, ...]:
        """The very same for the very same reading, so that no page renders them anew."""
        known, samples = self._collected
        if known is None or known is not reading:
            kept, refused = plausible(self.feed.collect(reading))
            failures += refused
            samples = self._counters.through(kept)
            self._collected = (reading, samples)
        return samples

    def stalled(self, now: float) -> bool:
        """Whether a reading has overrun its deadline, or says that its source stands still."""
        published = self._published
        started = self._started
        overrun = started is not None and now - started > self.feed.deadline
        return overrun or published.halted

    def samples(self, now: float, ttl: float) -> tuple[Sample, ...]:
        """The last reading's samples, none once they are older than the time to live."""
        published = self._published
        fresh = now - published.read_at <= max(ttl, 2 * self.feed.period)
        return published.samples if fresh else ()

    def health(self, now: float) -> SourceHealth:
        """How the source is."""
        published = self._published
        stalled = self.stalled(now)
        with self._lock:
            errors = dict(self._errors)
        return SourceHealth(
            name=self.feed.source.name,
            available=published.available,
            up=published.up and not stalled,
            stalled=stalled,
            last_success=published.last_success,
            duration=published.duration,
            errors=errors,
            unknown_names=published.unknown_names if published.up and not stalled else None,
            restarts=getattr(self.feed.source, "restarts", None),
        )

    def state(self, now: float) -> SourceState:
        """How the source is, with the words of what failed."""
        why_not = getattr(self.feed.source, "why_not", None)
        with self._lock:
            failures = dict(self._told)
        health = self.health(now)
        missing = "this node has no such thing"
        if why_not is not None and not health.available and not health.stalled:
            missing = why_not()
        return SourceState(health, failures, missing, len(self._published.samples))

    def kept(self) -> dict[Key, Kept]:
        """Counters that have to outlive a restart."""
        return self._counters.kept()

    def resume(self, kept: Mapping[Key, Kept]) -> None:
        """Counters of an earlier process."""
        self._counters.resume(kept)
        if isinstance(self.feed.collect, Resuming):
            self.feed.collect.resume(
                [key for key, counter in kept.items() if counter.raw + counter.offset]
            )
