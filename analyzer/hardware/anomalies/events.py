"""What deviates by being there: errors that no healthy part has, and states that ask for repair."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.anomalies.panel import Panel
from lockstep.analyzer.hardware.anomalies.peers import SHORTEST
from lockstep.analyzer.hardware.anomalies.shape import Deviation, deviation
from lockstep.analyzer.hardware.anomalies.watched import EVENTS, HARD_XIDS, Event, Subject
from lockstep.analyzer.shapes.labels import number, parsed
from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metric_rows.ranges import IB_ACTIVE
from lockstep.collector.contract.xid import PAGED, describe
from lockstep.collector.contract.xid_catalogue.shape import Severity

MILD = (Severity.INFO, Severity.WARNING)
"""The driver's line said that it is not fatal."""


def events(panel: Panel) -> Iterator[Deviation]:
    """Every event of what was recorded; one before it does not count."""
    for event in EVENTS:
        yield from _state(panel, event) if event.stands else _count(panel, event)
    yield from _fewer(panel)
    yield from _xids(panel)
    yield from _ports(panel)


def _count(panel: Panel, event: Event) -> Iterator[Deviation]:
    cells = panel.rises(event.metric, event.label, of_node=event.of_node, fresh=event.fresh)
    if cells is None:
        return
    amount = np.nansum(cells, axis=0)
    for column in np.flatnonzero(amount >= event.least).tolist():
        since = panel.times[np.argmax(cells[:, column] > 0)]
        count = round(float(amount[column]))
        words = event.one if count == 1 and event.one else event.many
        yield deviation(panel, event.subject, event.metric, column, since, f": {count} {words}",
                        of_node=event.of_node)  # fmt: skip


def _state(panel: Panel, event: Event) -> Iterator[Deviation]:
    cells = panel.cells(event.metric, event.label, of_node=event.of_node, down=event.down)
    if cells is None:
        return
    for column, begin in _stands(cells >= event.least, cells, event.stands):
        yield deviation(panel, event.subject, event.metric, column, panel.times[begin], event.one,
                        of_node=event.of_node)  # fmt: skip


def _fewer(panel: Panel) -> Iterator[Deviation]:
    """Nodes whose driver counts fewer GPUs than are on the bus, or than it counted."""
    metric = metrics.GPU_PRESENT.name
    present = panel.cells(metric, of_node=True)
    expected = panel.cells(metrics.GPU_EXPECTED.name, of_node=True)
    if present is None or expected is None:
        return
    less = present - expected
    for column, begin in _stands(less < 0, less, SHORTEST):
        last = np.flatnonzero(np.isfinite(less[:, column]))[-1]
        words = (
            f": its driver counts {present[last, column]:.0f} of {expected[last, column]:.0f} GPUs"
        )
        yield deviation(panel, Subject.GONE, metric, column, panel.times[begin], words,
                        of_node=True)  # fmt: skip


def _stands(
    so: NDArray[np.bool_], cells: FloatGrid, scrapes: int
) -> Iterator[tuple[int, int]]:  # fmt: skip
    """(column, first bin) of what is so in the last scrapes that told it, so many at least."""
    for column in np.flatnonzero(so.any(axis=0)).tolist():
        told = np.flatnonzero(np.isfinite(cells[:, column]))
        fine = np.flatnonzero(~so[told, column])
        first = int(fine[-1]) + 1 if fine.size else 0
        if len(told) - first >= scrapes:
            yield column, int(told[first])


def _xids(panel: Panel) -> Iterator[Deviation]:
    """XIDs of the hardware that were logged while it was recorded."""
    for told in panel.series(metrics.GPU_XID_LAST.name):
        labels, of_node = parsed(told.labels), told.gpu < 0
        xid = number(labels, "xid")
        if xid not in HARD_XIDS or (xid in PAGED and labels.get("severity") in MILD):
            continue
        begin, end = float(panel.times[0]), float(panel.times[-1]) + panel.seconds
        logged = told.first if begin <= told.first <= end else told.last
        if begin <= logged <= end:
            column = told.node if of_node else told.gpu
            words = f": XID {xid}, {describe(xid).text}"
            yield deviation(panel, Subject.DRIVER, metrics.GPU_XID_LAST.name, column, logged, words,
                            of_node=of_node)  # fmt: skip


def _ports(panel: Panel) -> Iterator[Deviation]:
    """InfiniBand ports that were active and are not any more; those never used are left alone."""
    metric = metrics.IB_STATE.name
    for told in panel.series(metric):
        if told.first == IB_ACTIVE and told.last != IB_ACTIVE:
            words = f": the port {told.labels} was active and is in state {told.last:.0f}"
            since = panel.times[told.last_bin]
            yield deviation(panel, Subject.NETWORK, metric, told.node, since, words, of_node=True)
