"""What the Run page and the events need, read once for both: a day of samples takes long to scan.

The last answer is kept while no part is added; it is small beside what was scanned.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dashboard.shapes import Event, Lines, Span
from dashboard.sources.archive import hardware, steps, training, training_events, trouble_events
from dashboard.sources.archive.samples import Samples, Series
from dashboard.sources.archive.table import State, Table
from workloads.outcome.peak import Peak

T = TypeVar("T")
PLAIN = tuple(metric.name for metric in hardware.OF_A_RUN)


class Kept(Generic[T]):
    """The last thing that was made, for as long as it was made of the same."""

    def __init__(self) -> None:
        self._last: tuple[object, T] | None = None
        self._lock = threading.Lock()

    def get(self, key: object, make: Callable[[], T] | None) -> T | None:
        """What was made of this key; `make` = None looks without making it."""
        with self._lock:
            if self._last is not None and self._last[0] == key:
                return self._last[1]
            if make is None:
                return None
            made = make()
            self._last = (key, made)
            return made


class Page:
    """Lines and events of one archive."""

    def __init__(self, table: Table, samples: Table, scraped: Samples) -> None:
        self._table, self._samples, self._scraped = table, samples, scraped
        self._training: Kept[tuple[tuple[Lines, ...], steps.Steps, list[Event]]] = Kept()
        self._hardware: Kept[tuple[Series, ...]] = Kept()

    def lines(self, run: str, cut: Span | None, peak: Peak | None) -> tuple[Lines, ...]:
        """All charts of the page; those of the hardware with the step at each moment."""

        def make() -> tuple[tuple[Lines, ...], steps.Steps, list[Event]]:
            told = steps.read(self._table, (*training.COLUMNS, "tags"), cut)
            # Of the steps only the axis is kept: the cells of a day are 100 MB.
            return training.lines(told, peak), told.axis(), training_events.events(told, run)

        made = self._training.get(self._key(self._table, cut), make)
        assert made is not None
        above, axis, _ = made
        below = hardware.lines(self._series(cut))
        return (*above, *(steps.numbered(each, axis) for each in below))

    def events(
        self, run: str, cut: Span | None, span: Span, node: str, ended: float | None
    ) -> list[Event]:
        """Of the training, where no node is asked for, and of the hardware."""
        found = trouble_events.events(
            self._series(cut), self._scraped.interval(),
            # What a counter had counted before anybody looked says nothing of this span.
            Span(max(span.start, self._scraped.begin()), span.end), run, node, ended,
        )  # fmt: skip
        if node:
            return found
        made = self._training.get(self._key(self._table, cut), None)
        if made is not None:
            return [*made[2], *found]
        return [*training_events.events(steps.read(self._table, ("tags",), cut), run), *found]

    def _series(self, cut: Span | None) -> tuple[Series, ...]:
        def only(batch: pa.RecordBatch) -> NDArray[np.bool_]:
            return trouble_events.rows_to_read(batch, frozenset(PLAIN))

        def make() -> tuple[Series, ...]:
            return self._scraped.series((*PLAIN, *trouble_events.NAMES), cut, only=only)

        return self._hardware.get(self._key(self._samples, cut), make) or ()

    @staticmethod
    def _key(table: Table, cut: Span | None) -> tuple[Span | None, int, State | None]:
        return (cut, *table.state())
