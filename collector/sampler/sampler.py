"""What every source last said; those that may stand still are read by threads of their own."""

import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.contract import threads
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.readings.source import Rejected, Remembering, Source
from lockstep.collector.sampler.reader import FeedReader, SourceState
from lockstep.collector.sampler.shared_thread import SharedThread
from lockstep.collector.samples.counters import Counter, Key
from lockstep.collector.samples.feed import Feed
from lockstep.collector.samples.monitor import collect_health

__all__ = ["FeedReader", "Sampler", "SourceState"]


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
        runs = [reader.run for reader in self._readers if not reader.feed.in_turns]
        if in_turns := [reader for reader in self._readers if reader.feed.in_turns]:
            runs.append(SharedThread(in_turns, clock).run)
        self._threads = tuple(
            # Daemons: a thread that hangs inside the kernel cannot be ended, only left behind.
            threads.loop("sampler", partial(run, self._stop, (index + 1) / len(runs)), self._stop)
            for index, run in enumerate(runs)
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

    def stalled(self) -> tuple[str, ...]:
        """Names of the sources that stand still."""
        now = self._clock.monotonic()
        return tuple(reader.feed.source.name for reader in self._readers if reader.stalled(now))

    def states(self) -> tuple[SourceState, ...]:
        """How each source is, in words."""
        now = self._clock.monotonic()
        return tuple(reader.state(now) for reader in self._readers)

    def kept(self) -> dict[str, dict[Key, Counter]]:
        """Counters that have to outlive a restart, by source."""
        return {reader.feed.source.name: reader.kept() for reader in self._readers}

    def resume(self, kept: Mapping[str, Mapping[Key, Counter]]) -> None:
        """Go on with the counters of an earlier process; call before `start`."""
        for reader in self._readers:
            reader.resume(kept.get(reader.feed.source.name, {}))

    def memories(self) -> dict[str, Any]:
        """What sources beyond counters have to know after a restart, by source, as JSON values."""
        sources = [reader.feed.source for reader in self._readers]
        return {
            source.name: source.memory() for source in sources if isinstance(source, Remembering)
        }

    def recall(self, memories: Mapping[str, Any]) -> None:
        """Hand each source its memory of an earlier process; call before `start`."""
        for reader in self._readers:
            source = reader.feed.source
            if isinstance(source, Remembering) and source.name in memories:
                try:
                    source.recall(memories[source.name])
                except ValueError as error:
                    reader.count(Rejected("memory", f"nothing is remembered: {error}"))

    def ready(self) -> bool:
        """Whether every source has answered once or is stalled."""
        now = self._clock.monotonic()
        return all(reader.first_pass.is_set() or reader.stalled(now) for reader in self._readers)

    def wait_ready(self) -> None:
        """Wait for the first answer of every source, at most until its deadline."""
        began = self._clock.monotonic()
        for reader in self._readers:
            waited = self._clock.monotonic() - began
            reader.first_pass.wait(max(0.0, reader.feed.deadline - waited))

    def count(self, source: str, failure: Rejected) -> None:
        """Count a failure that was met outside a reading, as in `/ops`."""
        for reader in self._readers:
            if reader.feed.source.name == source:
                reader.count(failure)

    def source(self, name: str) -> Source[Any] | None:
        """A source by its name, if it is read."""
        named = (reader.feed.source for reader in self._readers if reader.feed.source.name == name)
        return next(named, None)

    def snapshot(self) -> tuple[tuple[Sample, ...], ...]:
        """Everything that is fresh now: the health of the sources, then what each last said.

        A source that was not read again since the snapshot before gives the same tuple.
        """
        now = self._clock.monotonic()
        health = tuple(collect_health(reader.health(now) for reader in self._readers))
        return (
            self._own,
            health,
            *(reader.samples(now, self._ttl) for reader in self._readers),
        )
