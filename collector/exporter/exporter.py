"""The exporter: what the sampler knows, as a page over HTTP."""

import gzip
import threading
from collections import Counter
from collections.abc import Callable, Sequence

from lockstep.collector.clock import Clock
from lockstep.collector.config import Config
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import threads
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.exporter.dcgm_page import render_legacy
from lockstep.collector.exporter.dumps import NodeDumps
from lockstep.collector.exporter.ops import OpsQuery, answer
from lockstep.collector.exporter.page import Form, PageCache, Renderer
from lockstep.collector.exporter.series_cap import Cap
from lockstep.collector.exporter.server import ListenError, Pages, PageServer
from lockstep.collector.exporter.stacks import NodeStacks
from lockstep.collector.exporter.web_auth import WebAuth
from lockstep.collector.on_demand.rank_facts import heard
from lockstep.collector.readings.source import Rejected
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.sources.ranks.rings import Rings
from lockstep.collector.sources.ranks.source import RankRings

__all__ = ["Exporter", "ListenError"]

OWN_SERIES = 2
"""Series that the exporter itself adds: duration and number of series."""


class Exporter:
    """Renders pages from a sampler, and serves them.

    Args:
        config: Where and how.
        sampler: What every source said.
        clock: Whose time counts.
        failures: What the page says of the threads of this process.

    Raises:
        ConfigError: The web config file is wrong, or a certificate that it names.
        ListenError: The address cannot be listened on (from `serve`).
    """

    def __init__(
        self, config: Config, sampler: Sampler, clock: Clock,
        failures: Callable[[], Sequence[Sample]] = tuple,
    ) -> None:  # fmt: skip
        self._config = config
        self._sampler = sampler
        self._clock = clock
        self._failures = failures
        self._lock = threading.Lock()
        self._renderer = Renderer()
        self._cap = Cap()
        self._ahead = PageCache(self.body, clock)
        self._dropped: Counter[str] = Counter()
        self._duration: float | None = None
        self._protection = WebAuth(config.web_config_file)

    def page(self, form: Form = Form.TEXT) -> str:
        """The page as of now."""
        with self._lock:
            return self._page(form)

    def body(self, form: Form, packed: bool) -> bytes:
        """The page as of now, as it is sent."""
        body = self.page(form).encode()
        return gzip.compress(body, compresslevel=1, mtime=0) if packed else body

    def serve(self) -> PageServer:
        """A server that listens; `start` makes it answer."""
        config, clock = self._config, self._clock

        def rejected(what: Rejected) -> None:
            self._sampler.count(RankRings.name, what)

        rings = self._rings()
        alone = threading.Lock()

        def ops(query: OpsQuery) -> bytes | None:
            with alone:  # one answer may be of many megabytes
                return answer(query, rings, clock, rejected)

        dumps = NodeDumps(rings, lambda: heard(self._sampler), config.proc, clock)
        asked = dumps.answer if config.dumps else None
        legacy = self._legacy if config.legacy_dcgm else None
        stacks = NodeStacks(rings, config.stacks, config.proc, clock)
        pages = Pages(self._ahead.body, self._unfit, ops, legacy, asked, stacks.answer)
        return PageServer(config.listen, pages, self._protection)

    def _rings(self) -> Rings:
        """Those that the page shows, so that an answer is of the same ranks."""
        source = self._sampler.source(RankRings.name)
        if isinstance(source, RankRings):
            return source.rings
        return Rings(self._config.lockstep_dir, self._config.proc, self._clock)

    def _legacy(self) -> str:
        return render_legacy(sample for part in self._sampler.snapshot() for sample in part)

    def _unfit(self) -> str:
        """Why the page is not complete; empty when it is."""
        if not self._sampler.ready():
            return "the first readings are under way"
        if failing := threads.unhealthy():
            return failing
        stalled = self._sampler.stalled()
        return f"standing still: {', '.join(stalled)}" if stalled else ""

    def _page(self, form: Form) -> str:
        started = self._clock.monotonic()
        failures = self._failures()
        kept = self._within_cap(self._sampler.snapshot(), len(failures))
        series = sum(map(len, kept))
        own = [m.SERIES_DROPPED(count, name) for name, count in sorted(self._dropped.items())]
        own += failures
        if self._duration is not None:
            own.append(m.SCRAPE_DURATION(self._duration))
        own.append(m.SCRAPE_SERIES(series + len(own) + 1))
        text = self._renderer.render([*kept, own], form)
        self._duration = self._clock.monotonic() - started
        return text

    def _within_cap(
        self, parts: tuple[tuple[Sample, ...], ...], more: int
    ) -> Sequence[Sequence[Sample]]:
        room = self._config.series_cap - OWN_SERIES - more - len(self._dropped)
        if sum(map(len, parts)) <= room:
            return parts
        # Each family that loses a series for the first time needs one to say so.
        kept, dropped = self._cap.kept(parts, max(0, room))
        known, reserved = self._dropped.keys(), 0
        while (needed := len(dropped.keys() - known)) > reserved:
            reserved = needed
            kept, dropped = self._cap.kept(parts, max(0, room - reserved))
        self._dropped += dropped
        return kept
