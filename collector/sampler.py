"""What every source last said: each is read by its own thread, so that none delays another."""

import logging
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from collector.clock import Clock
from collector.collectors import Feed
from collector.collectors.monitor import SourceHealth, collect_health
from collector.contract.metrics import Sample
from collector.reading import Rejected, SourceError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Published:
    """What one feed last said; replaced as a whole, so that a page never mixes two readings."""

    samples: tuple[Sample, ...] = ()
    read_at: float = 0.0
    started: float | None = None
    available: bool = False
    up: bool = False
    last_success: float | None = None
    duration: float | None = None


class FeedReader:
    """Reads one feed again and again; hangs alone when its source hangs."""

    def __init__(self, feed: Feed, clock: Clock) -> None:
        self.feed = feed
        self.first_pass = threading.Event()
        self._clock = clock
        self._published = _Published()
        self._errors: Counter[str] = Counter()
        self._lock = threading.Lock()

    def read_once(self) -> None:
        """One reading, published whole; every failure is counted and logged once."""
        started = self._clock.monotonic()
        self._published = replace(self._published, started=started)
        samples: tuple[Sample, ...] = ()
        failures: list[Rejected] = []
        available = up = False
        try:
            available = self.feed.source.available()
            if available:
                reading = self.feed.source.read()
                failures += getattr(reading, "rejected", ())
                samples = tuple(self.feed.collect(reading))
                up = True
        except SourceError as error:
            failures.append(Rejected.of(error))
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
            last_success=self._clock.wall() if up else before.last_success,
            duration=now - started,
        )
        self.first_pass.set()

    def count(self, failure: Rejected) -> None:
        """Count a failure by its reason; the first of each reason is logged."""
        with self._lock:
            first = not self._errors[failure.reason]
            self._errors[failure.reason] += 1
        if first:
            LOG.warning(
                "source %s: %s: %s (counted from now on, not logged again)",
                self.feed.source.name, failure.reason, failure.message,
            )  # fmt: skip

    def run(self, stop: threading.Event) -> None:
        """Read at every multiple of the period until told to stop; a missed turn is skipped."""
        due = self._clock.monotonic()
        while not stop.is_set():
            self.read_once()
            due = max(due + self.feed.period, self._clock.monotonic())
            stop.wait(due - self._clock.monotonic())

    def stalled(self, now: float) -> bool:
        """Whether a reading has overrun its deadline."""
        started = self._published.started
        return started is not None and now - started > self.feed.deadline

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
        )


class Sampler:
    """All feeds of this collector.

    Args:
        ttl: Seconds after which a value that was not renewed vanishes; a feed whose period is
            longer than half of it keeps its values for two periods.
        own: Samples that never change, as the build.
    """

    def __init__(
        self, feeds: Iterable[Feed], clock: Clock, ttl: float, own: Iterable[Sample] = ()
    ) -> None:
        self._clock = clock
        self._ttl = ttl
        self._own = tuple(own)
        self._readers = tuple(FeedReader(feed, clock) for feed in feeds)
        self._stop = threading.Event()
        self._threads = tuple(
            # Daemons: a thread that hangs inside the kernel cannot be ended, only left behind.
            threading.Thread(target=reader.run, args=(self._stop,), daemon=True)
            for reader in self._readers
        )

    def start(self) -> None:
        """Start reading."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        """Stop reading; threads that hang are left behind."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout)

    def ready(self) -> bool:
        """Whether every source has answered once or is stalled."""
        now = self._clock.monotonic()
        return all(one.first_pass.is_set() or one.stalled(now) for one in self._readers)

    def wait_ready(self) -> None:
        """Wait for the first answer of every source, at most until its deadline."""
        for reader in self._readers:
            reader.first_pass.wait(reader.feed.deadline)

    def count(self, source: str, failure: Rejected) -> None:
        """Count a failure that was met outside a reading, as in `/ops`."""
        for reader in self._readers:
            if reader.feed.source.name == source:
                reader.count(failure)

    def snapshot(self) -> tuple[Sample, ...]:
        """Everything that is fresh now, health of the sources included."""
        now = self._clock.monotonic()
        samples = [*self._own, *collect_health(reader.health(now) for reader in self._readers)]
        for reader in self._readers:
            samples += reader.samples(now, self._ttl)
        return tuple(samples)
