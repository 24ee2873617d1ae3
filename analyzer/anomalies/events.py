"""What deviates by being there: errors that no healthy part has, and states that ask for repair."""

import re
from collections.abc import Iterator

import numpy as np

from analyzer.anomalies.fleet import ComparablePanel
from analyzer.anomalies.shape import Deviation, who
from analyzer.anomalies.watched import EVENTS, HARD_XIDS, Event, Subject
from analyzer.run import FloatGrid
from collector.contract import metrics
from collector.contract.xid import PAGED, describe

OPEN_LINK = metrics.IB_STATE.name
ACTIVE = 4.0
"""IB_STATE: the port carries data."""
MILD = re.compile(r'(?:^|,)severity="(?:info|warning)"', re.ASCII)
"""The driver's line said that it is not fatal."""
XID = re.compile(r'(?:^|,)xid="(\d{1,9})"', re.ASCII)


def events(fleet: ComparablePanel) -> Iterator[Deviation]:
    """Every event of what was recorded; one before it does not count."""
    for event in EVENTS:
        yield from _of(fleet, event)
    yield from _xids(fleet)
    yield from _ports(fleet)


def _of(fleet: ComparablePanel, event: Event) -> Iterator[Deviation]:
    labels = [event.label] if event.label else []
    panel = fleet.panel
    if event.state:
        cells = fleet.gpus(event.metric, *labels)
    elif event.of_node:
        cells = panel.rises(event.metric, *labels, of_node=True, fresh=event.fresh)
    else:
        cells = fleet.rises(event.metric, *labels, fresh=event.fresh)
    if cells is None:
        return
    amount = _newest(cells) if event.state else np.nansum(cells, axis=0)
    for column in np.flatnonzero(amount >= event.least).tolist():
        node, gpu = (panel.nodes[column], None) if event.of_node else panel.places[column]
        begin = int(np.argmax(cells[:, column] > 0))
        count = round(float(amount[column]))
        words = event.one if event.state or (count == 1 and event.one) else event.many
        text = f"{who(node, gpu)}: {words if event.state else f'{count} {words}'}"
        yield Deviation(event.subject, event.metric, node, gpu, None,
                        float(panel.times[begin]), text, slows=not event.of_node)  # fmt: skip


def _xids(fleet: ComparablePanel) -> Iterator[Deviation]:
    """XIDs of the hardware that were logged while it was recorded."""
    panel = fleet.panel
    if not len(panel.times):
        return
    begin, end = float(panel.times[0]), float(panel.times[-1]) + panel.seconds
    for told in panel.first_and_last(metrics.GPU_XID_LAST.name):
        number = _number(told.labels)
        if number in PAGED and MILD.search(told.labels):
            continue
        logged = told.first if begin <= told.first <= end else told.last
        if number not in HARD_XIDS or not begin <= logged <= end:
            continue
        node, gpu = (panel.nodes[told.node], None) if told.gpu < 0 else panel.places[told.gpu]
        text = f"{who(node, gpu)}: XID {number}, {describe(number).text}"
        yield Deviation(Subject.DRIVER, metrics.GPU_XID_LAST.name, node, gpu, None, logged, text,
                        slows=True)  # fmt: skip


def _ports(fleet: ComparablePanel) -> Iterator[Deviation]:
    """InfiniBand ports that were active and are not any more; those never used are left alone."""
    for told in fleet.panel.first_and_last(OPEN_LINK):
        if told.first != ACTIVE or told.last == ACTIVE:
            continue
        node = fleet.panel.nodes[told.node]
        text = f"{node}: the port {told.labels} was active and is in state {told.last:.0f}"
        yield Deviation(Subject.NETWORK, OPEN_LINK, node, None, None,
                        float(fleet.panel.times[told.last_bin]), text)  # fmt: skip


def _number(labels: str) -> int:
    found = XID.search(labels)
    return int(found[1]) if found else 0


def _newest(cells: FloatGrid) -> FloatGrid:
    """(D,) the last value told; 0 where none was."""
    known = np.isfinite(cells)
    place = len(cells) - 1 - np.argmax(known[::-1], axis=0)
    newest: FloatGrid = np.nan_to_num(cells[place, np.arange(cells.shape[1])])
    return newest
