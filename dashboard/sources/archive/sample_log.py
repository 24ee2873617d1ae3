"""The samples that the Run page and the events need: each part of the table is read once."""

import threading

import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from lockstep.analyzer.read.archive.growing import Growing
from lockstep.analyzer.read.archive.load import Archive
from lockstep.analyzer.read.archive.parts import whole
from lockstep.analyzer.read.archive.series import COLUMNS, Series, grouped
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.archive import hardware, trouble_events

PLAIN = frozenset(metric.name for metric in hardware.OF_A_RUN)
KEPT_BYTES = 64 << 20
"""Of rows: three weeks of 16 GPUs at 15 s; of a table with more, each span is read anew."""


class SampleLog:
    """Series of PLAIN, and of trouble_events.NAMES what says that something is not well.

    Args:
        archive: Of the run; its series are read anew where memory does not hold them.
    """

    def __init__(self, archive: Archive) -> None:
        self._table, self._scraped = archive.samples, archive.series
        self._growing = Growing(archive.samples, COLUMNS)
        self._lock = threading.Lock()
        self._rows: list[pa.Table] = []
        self._too_many = False

    def series(self, cut: Span | None) -> tuple[Series, ...]:
        """Of a span; None = all.

        Raises:
            TroubleError: The files went away.
        """
        if not self._table.grows or self._too_many:
            return self._scraped.series((*PLAIN, *trouble_events.NAMES), cut, only=_rows)
        with self._lock:
            self._grow()
            rows = list(self._rows)
        if self._too_many:
            return self.series(cut)
        if not rows:
            return ()
        told = pa.concat_tables(rows)
        if cut is not None:
            told = told.filter((ds.field("time") >= cut.start) & (ds.field("time") <= cut.end))
        return tuple(grouped(told))

    def _grow(self) -> None:
        over, news = self._growing.look()
        if over:
            self._rows = []
        for rows in news:
            for batch in rows.to_batches():
                self._rows.append(pa.Table.from_batches([batch.filter(pa.array(_rows(batch)))]))
            if sum(each.nbytes for each in self._rows) > KEPT_BYTES:
                self._rows, self._too_many = [], True
                return
        if len(self._rows) > 1:
            self._rows = [whole(pa.concat_tables(self._rows))]


def _rows(batch: pa.RecordBatch) -> "NDArray":  # type: ignore[type-arg]
    return trouble_events.rows_to_read(batch, PLAIN)
