"""What deviates by being there: errors that no healthy part has, and states that ask for repair."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.anomalies.deviation import Deviation, as_deviation
from lockstep.analyzer.hardware.anomalies.distances import SHORTEST
from lockstep.analyzer.hardware.anomalies.panel import Integers, Panel
from lockstep.analyzer.hardware.anomalies.watched_metrics import EVENTS, HARD_XIDS, Event, Subject
from lockstep.analyzer.shapes.labels import number, parsed
from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.shapes.wording import listed
from lockstep.analyzer.stats.robust_stats import median
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
        words = event.single if count == 1 and event.single else event.many
        yield as_deviation(
            panel,
            event.subject,
            event.metric,
            column,
            since,
            f": {count} {words}",
            of_node=event.of_node,
        )


def _state(panel: Panel, event: Event) -> Iterator[Deviation]:
    cells = panel.cells(event.metric, event.label, of_node=event.of_node, down=event.down)
    if cells is None:
        return
    for column, begin in _stands(cells >= event.least, cells, event.stands):
        yield as_deviation(
            panel,
            event.subject,
            event.metric,
            column,
            panel.times[begin],
            event.single,
            of_node=event.of_node,
        )


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
        yield as_deviation(
            panel, Subject.GONE, metric, column, panel.times[begin], words, of_node=True
        )


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
    for ends in panel.series(metrics.GPU_XID_LAST.name):
        labels, of_node = parsed(ends.labels), ends.gpu < 0
        xid = number(labels, "xid")
        if xid not in HARD_XIDS or (xid in PAGED and labels.get("severity") in MILD):
            continue
        begin, end = float(panel.times[0]), float(panel.times[-1]) + panel.seconds
        logged = ends.first if begin <= ends.first <= end else ends.last
        if begin <= logged <= end:
            column = ends.node if of_node else ends.gpu
            words = f": XID {xid}, {describe(xid).text}"
            yield as_deviation(
                panel,
                Subject.DRIVER,
                metrics.GPU_XID_LAST.name,
                column,
                logged,
                words,
                of_node=of_node,
            )


def _ports(panel: Panel) -> Iterator[Deviation]:
    """InfiniBand ports that were active and are not any more; those never used are left alone."""
    metric = metrics.IB_STATE.name
    for ends in panel.series(metric):
        if ends.first == IB_ACTIVE and ends.last != IB_ACTIVE:
            words = f": the port {ends.labels} was active and is in state {ends.last:.0f}"
            since = panel.times[ends.last_bin]
            yield as_deviation(
                panel, Subject.NETWORK, metric, ends.node, since, words, of_node=True
            )


GPU_SOURCES = ("nvml", "dcgm", "dcgm_exporter")


def vanished_gpus(panel: Panel) -> Iterator[Deviation]:
    """GPUs that reported and no longer do, though their nodes answer.

    A GPU that falls off its bus shows as telemetry that collapses, not as numbers that change
    (GWDG, "When GPUs fail quietly", arXiv 2603.28781): the series of one GPU stop while its node
    still answers and its neighbours still report. A missing page says nothing of any GPU.
    """
    last, missed = _missed(panel)
    silent = missed >= SHORTEST
    alone = silent & ~_source_stopped(panel, silent) & ~panel.simulated
    for column in np.flatnonzero(alone).tolist():
        much = "nothing" if panel.series_of_gpus[-1, column] == 0 else "next to nothing"
        words = f" reports {much} since {missed[column]} scrapes, in which its node answered"
        since = panel.times[last[column] + 1]
        yield as_deviation(panel, Subject.GONE, metrics.GPU_UP.name, column, since, words)


def silent_nodes(panel: Panel) -> Iterator[str]:
    """What was not there and says nothing of the hardware: nodes that no scrape reached."""
    if not len(panel.times):
        return
    unreached = np.flatnonzero((~panel.answered[-SHORTEST:]).all(axis=0))
    lost = [panel.nodes[column] for column in unreached.tolist()]
    if lost:
        yield (
            f"the last {SHORTEST} scrapes of {listed(lost)} failed: the state of the hardware there"
            " is unknown since"
        )
    stopped = _source_stopped(panel, _missed(panel)[1] >= SHORTEST) & ~panel.simulated
    nodes = sorted({panel.places[column][0] for column in np.flatnonzero(stopped).tolist()})
    if nodes:
        yield f"no GPU of {listed(nodes)} reported anything at the end: the source of GPUs stopped"


def _missed(panel: Panel) -> tuple[Integers, Integers]:
    """((D,) last bin in which a GPU told half of its usual series, scrapes of its node since).

    -1 and 0 of one that never did.
    """
    count = panel.series_of_gpus
    usual = median(np.where(count > 0, count.astype(float), np.nan), 0)
    bins = np.arange(len(panel.times))[:, None]
    last = np.max(np.where(2 * count > usual, bins, -1), axis=0, initial=-1)
    since = (panel.answered[:, panel.node_of] & (bins > last)).sum(axis=0)
    return last, np.where(last >= 0, since, 0)


def _source_stopped(panel: Panel, silent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(D,) silent GPUs whose neighbours are all silent too: then it is not the GPU that stopped.

    A node with one GPU has no neighbours: there a source that says it is up decides.
    """
    every, mute = (
        np.bincount(some, minlength=len(panel.nodes))
        for some in (panel.node_of, panel.node_of[silent])
    )
    up = np.zeros(len(panel.nodes), dtype=bool)
    for ends in panel.series(metrics.SOURCE_UP.name):
        up[ends.node] |= parsed(ends.labels).get("source") in GPU_SOURCES and ends.last > 0
    stopped: NDArray[np.bool_] = silent & ((every == mute) & ~((every == 1) & up))[panel.node_of]
    return stopped
