"""Pages ready to be sent: made when they are asked for, and ahead of that while many ask."""

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from lockstep.collector.clock import Clock
from lockstep.collector.contract import threads
from lockstep.collector.exporter.page import Form

PAGE_SECONDS = 0.25
"""A page is sent again for so long: scrapers that come together share one rendering."""
OFTEN = 4
"""Requests in a second from which on pages are made ahead: it costs no more than they do."""
OFTEN_SECONDS = 1.0

Asked = tuple[Form, bool]
"""A format, and whether it is packed with gzip."""


class _Page(NamedTuple):
    """A page, and the time at which it was begun."""

    at: float
    body: bytes


class PageCache:
    """Bodies of pages for many threads; one at a time is made.

    While requests come often, a thread makes the pages anew before they are too old, so that a
    request only sends what lies ready. It ends when they come seldom.

    Args:
        make: Makes a page now.
    """

    def __init__(self, make: Callable[[Form, bool], bytes], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._making = threading.Lock()
        self._pages: dict[Asked, _Page] = {}
        self._asked: dict[Asked, float] = {}
        self._times: deque[float] = deque(maxlen=OFTEN)
        self._thread: threading.Thread | None = None

    def body(self, form: Form, packed: bool) -> bytes:
        """The page, at most PAGE_SECONDS old."""
        asked, now = (form, packed), self._clock.monotonic()
        self._times.append(now)
        self._asked[asked] = now
        page = self._pages.get(asked)
        if page is not None and now - page.at <= PAGE_SECONDS:
            return page.body
        with self._making:
            page = self._pages.get(asked)
            if page is None or now - page.at > PAGE_SECONDS:
                page = self._made(asked)
            if self._often() and self._thread is None:
                self._thread = threads.task("ahead", self._run)
                self._thread.start()
        return page.body

    def _made(self, asked: Asked) -> _Page:
        now = self._clock.monotonic()
        page = self._pages[asked] = _Page(now, self._make(*asked))
        return page

    def _often(self) -> bool:
        recent = self._clock.monotonic() - OFTEN_SECONDS
        return len(self._times) == OFTEN and self._times[0] >= recent

    def _run(self) -> None:
        try:
            while self._again():
                # Well before the pages are too old: this thread may have to wait for its turn.
                self._clock.sleep(PAGE_SECONDS * 0.8)
        finally:
            self._thread = None

    def _again(self) -> bool:
        """Make what was asked for lately; False once requests come seldom."""
        with self._making:
            recent = self._clock.monotonic() - OFTEN_SECONDS
            for asked, at in tuple(self._asked.items()):
                if at >= recent:
                    self._made(asked)
            return self._often()
