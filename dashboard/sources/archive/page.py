"""What the Run page and the events need, read once for both: a day of samples takes long to scan.

The last answer is kept while no part is added; it is small beside what was scanned.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from lockstep.analyzer.read.archive.load import Archive
from lockstep.analyzer.read.archive.series import Series
from lockstep.dashboard.shapes import Event, Lines, Span
from lockstep.dashboard.sources.archive import hardware, training, training_events, trouble_events
from lockstep.dashboard.sources.archive.sample_log import SampleLog
from lockstep.dashboard.sources.archive.step_log import StepLog
from lockstep.dashboard.sources.archive.summary import Summary
from lockstep.workloads.outcome.peak import Peak

T = TypeVar("T")


class Kept(Generic[T]):
    """The last thing that was made, for as long as it was made of the same."""

    def __init__(self) -> None:
        self._last: tuple[object, T] | None = None
        self._lock = threading.Lock()

    def get(self, key: object, make: Callable[[], T]) -> T:
        """What was made of this key."""
        with self._lock:
            if self._last is not None and self._last[0] == key:
                return self._last[1]
            made = make()
            self._last = (key, made)
            return made


class Page:
    """Lines and events of one archive.

    Args:
        log: Its steps.
        archive: It.
    """

    def __init__(self, log: StepLog, archive: Archive) -> None:
        self._log, self._archive, self._scraped = log, archive, archive.series
        self._told = SampleLog(archive)
        self._training: Kept[tuple[tuple[Lines, ...], Summary]] = Kept()
        self._series: Kept[tuple[Series, ...]] = Kept()

    def lines(self, run: str, cut: Span | None, peak: Peak | None) -> tuple[Lines, ...]:
        """All charts of the page; those of the hardware with the step at each moment."""

        def make() -> tuple[tuple[Lines, ...], Summary]:
            told = self._log.summary(cut)
            return training.lines(told, peak), told

        # Both tables at once: neither Arrow nor numpy keeps the other from running.
        with ThreadPoolExecutor(1) as pool:
            series = pool.submit(self._hardware, cut)
            above, told = self._training.get((cut, self._archive.steps.state(), peak), make)
            below = hardware.lines(series.result())
        return (*above, *(training.numbered(each, told) for each in below))

    def events(
        self, run: str, cut: Span | None, span: Span, node: str, ended: float | None
    ) -> list[Event]:
        """Of the training, where no node is asked for, and of the hardware."""
        found = trouble_events.events(
            self._hardware(cut), self._scraped.interval(),
            # What a counter had counted before anybody looked says nothing of this span.
            Span(max(span.start, self._scraped.begin()), span.end), run, node, ended,
        )  # fmt: skip
        return found if node else [*training_events.events(self._log.summary(cut), run), *found]

    def _hardware(self, cut: Span | None) -> tuple[Series, ...]:
        return self._series.get(
            (cut, self._archive.samples.state()), lambda: self._told.series(cut)
        )
