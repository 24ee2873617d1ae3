"""The exporter: what the sampler knows, as a page over HTTP."""

import threading
from collections import Counter

from collector.clock import Clock
from collector.config import Config
from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.exporter.ops import OpsQuery, answer
from collector.exporter.page import capped, render
from collector.exporter.server import ListenError, Pages, PageServer
from collector.reading import Rejected
from collector.sampler import Sampler
from collector.sources.rank_ring import RankRings

__all__ = ["Exporter", "ListenError"]

OWN_SERIES = 2
"""Series that the exporter itself adds: duration and number of series."""


class Exporter:
    """Renders pages from a sampler, and serves them.

    Raises:
        ListenError: The address cannot be listened on (from `serve`).
    """

    def __init__(self, config: Config, sampler: Sampler, clock: Clock) -> None:
        self._config = config
        self._sampler = sampler
        self._clock = clock
        self._lock = threading.Lock()
        self._dropped: Counter[str] = Counter()
        self._duration: float | None = None

    def page(self) -> str:
        """The page as of now."""
        started = self._clock.monotonic()
        samples = self._sampler.snapshot()
        with self._lock:
            kept = self._within_cap(samples)
            own = [m.SERIES_DROPPED(count, name) for name, count in sorted(self._dropped.items())]
            if self._duration is not None:
                own.append(m.SCRAPE_DURATION(self._duration))
            own.append(m.SCRAPE_SERIES(len(kept) + len(own) + 1))
            text = render([*kept, *own])
            self._duration = self._clock.monotonic() - started
        return text

    def serve(self) -> PageServer:
        """A server that listens; `start` makes it answer."""
        config, clock = self._config, self._clock

        def rejected(what: Rejected) -> None:
            self._sampler.count(RankRings.name, what)

        def ops(query: OpsQuery) -> bytes | None:
            return answer(query, config.lockstep_dir, config.proc, clock, rejected)

        return PageServer(config.listen, Pages(self.page, self._sampler.ready, ops))

    def _within_cap(self, samples: tuple[Sample, ...]) -> list[Sample]:
        room = self._config.series_cap - OWN_SERIES - len(self._dropped)
        if len(samples) > room:  # each family that loses a series needs one to say so
            room -= len({sample.metric.name for sample in samples} - self._dropped.keys())
        kept, dropped = capped(samples, max(0, room))
        self._dropped += dropped
        return kept
