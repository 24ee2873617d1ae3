"""The exporter: what the sampler knows, as a page over HTTP."""

import gzip
import math
import threading
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from collector.clock import Clock
from collector.config import Config
from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.exporter.cap import capped
from collector.exporter.guard import Guard
from collector.exporter.legacy import render_legacy
from collector.exporter.ops import OpsQuery, answer
from collector.exporter.page import Form, Renderer
from collector.exporter.server import ListenError, Pages, PageServer, Protection
from collector.exporter.tls import Tls
from collector.exporter.web_config import load_web_config
from collector.reading import Rejected
from collector.sampler import Sampler
from collector.sources.rank_ring import RankRings

__all__ = ["Exporter", "ListenError"]

OWN_SERIES = 2
"""Series that the exporter itself adds: duration and number of series."""
PAGE_SECONDS = 0.25
"""A page is served again for so long while nothing was read: scrapers that come together share."""
AHEAD_SECONDS, AHEAD_SERIES = 2.0, 200
"""Readings so large are rendered ahead for so long after a scrape; it costs CPU each time."""


class _Rendered(NamedTuple):
    """A page, and of which readings it is."""

    version: int
    at: float
    body: bytes


class Exporter:
    """Renders pages from a sampler, and serves them.

    Raises:
        ConfigError: The web config file is wrong, or a certificate that it names.
        ListenError: The address cannot be listened on (from `serve`).
    """

    def __init__(self, config: Config, sampler: Sampler, clock: Clock) -> None:
        self._config = config
        self._sampler = sampler
        self._clock = clock
        self._lock = threading.Lock()
        self._renderer = Renderer()
        self._rendered: dict[tuple[Form, bool], _Rendered] = {}
        self._dropped: Counter[str] = Counter()
        self._duration: float | None = None
        self._protection = _protection(config)
        self._asked_at = -math.inf
        sampler.tell(self._ahead)

    def page(self, form: Form = Form.TEXT) -> str:
        """The page as of now."""
        with self._lock:
            return self._page(form)

    def body(self, form: Form, packed: bool) -> bytes:
        """The page as it is sent; those who ask at the same time share one rendering."""
        with self._lock:
            version, now = self._sampler.version, self._clock.monotonic()
            self._asked_at = now
            known = self._rendered.get((form, packed))
            if known and known.version == version and now - known.at <= PAGE_SECONDS:
                return known.body
            body = self._page(form).encode()
            if packed:
                body = gzip.compress(body, compresslevel=1, mtime=0)
            self._rendered[form, packed] = _Rendered(version, now, body)
            return body

    def serve(self) -> PageServer:
        """A server that listens; `start` makes it answer."""
        config, clock = self._config, self._clock

        def rejected(what: Rejected) -> None:
            self._sampler.count(RankRings.name, what)

        def ops(query: OpsQuery) -> bytes | None:
            return answer(query, config.lockstep_dir, config.proc, clock, rejected)

        legacy = self._legacy if config.legacy_dcgm else None
        pages = Pages(self.body, self._unfit, ops, legacy)
        return PageServer(config.listen, pages, self._protection)

    def _ahead(self, samples: tuple[Sample, ...]) -> None:
        """Render a large reading before a scraper waits for it, while scrapers come often."""
        often = self._clock.monotonic() - self._asked_at <= AHEAD_SECONDS
        if often and len(samples) >= AHEAD_SERIES:
            self._renderer.prepare(samples)

    def _legacy(self) -> str:
        return render_legacy(sample for part in self._sampler.snapshot() for sample in part)

    def _unfit(self) -> str:
        """Why the page is not complete; empty when it is."""
        if not self._sampler.ready():
            return "the first readings are under way"
        stalled = self._sampler.stalled()
        return f"standing still: {', '.join(stalled)}" if stalled else ""

    def _page(self, form: Form) -> str:
        started = self._clock.monotonic()
        kept = self._within_cap(self._sampler.snapshot())
        series = sum(map(len, kept))
        own = [m.SERIES_DROPPED(count, name) for name, count in sorted(self._dropped.items())]
        if self._duration is not None:
            own.append(m.SCRAPE_DURATION(self._duration))
        own.append(m.SCRAPE_SERIES(series + len(own) + 1))
        text = self._renderer.render([*kept, own], form)
        self._duration = self._clock.monotonic() - started
        return text

    def _within_cap(self, parts: tuple[tuple[Sample, ...], ...]) -> Sequence[Sequence[Sample]]:
        room = self._config.series_cap - OWN_SERIES - len(self._dropped)
        if sum(map(len, parts)) <= room:
            return parts
        samples = [sample for part in parts for sample in part]
        # Each family that loses a series needs one to say so.
        room -= len({sample.metric.name for sample in samples} - self._dropped.keys())
        kept, dropped = capped(samples, max(0, room))
        self._dropped += dropped
        return [kept]


def _protection(config: Config) -> Protection:
    if config.web_config_file is None:
        return Protection()
    web = load_web_config(config.web_config_file)
    return Protection(
        Tls(web.tls) if web.tls is not None else None,
        Guard(web.users) if web.users else None,
    )
