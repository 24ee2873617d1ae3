"""A GPU that vanished, told from a scrape that failed and from a source that stopped.

A GPU that falls off its bus shows as telemetry that collapses, not as numbers that change (GWDG,
"When GPUs fail quietly", arXiv 2603.28781): one GPU's series stop while its node still answers and
its neighbours still tell. A page that is missing altogether says nothing of any GPU.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from analyzer.anomalies.fleet import ComparablePanel
from analyzer.anomalies.shape import Deviation, who
from analyzer.anomalies.watched import Subject
from analyzer.slowness.robust_stats import median
from analyzer.wording import listed
from collector.contract import metrics

SCRAPES = 3
"""Scrapes of the node that a GPU must miss: one alone may have met a driver that was busy."""
COLLAPSED = 0.5
"""Share of the series that a GPU usually tells, below which its telemetry has collapsed."""
GPU_SOURCES = ("nvml", "dcgm", "dcgm_exporter")
UP = metrics.GPU_UP.name


def vanished_gpus(fleet: ComparablePanel) -> Iterator[Deviation]:
    """GPUs that told of themselves and no longer do, though their nodes answer."""
    silent = _silent(fleet)
    alone = _source_stopped(fleet, silent)
    series = fleet.panel.series_of_gpus
    tells = _tells(series)
    for column in np.flatnonzero(silent & ~alone & ~fleet.simulated).tolist():
        node, gpu = fleet.panel.places[column]
        count = series[:, column]
        last = int(np.flatnonzero(tells[:, column])[-1])
        after = int(fleet.panel.answered[last + 1 :, fleet.panel.node_of[column]].sum())
        how = "tells nothing" if count[-1] == 0 else "tells next to nothing"
        text = f"{who(node, gpu)} {how} since {after} scrapes, in which its node answered"
        yield Deviation(Subject.GONE, UP, node, gpu, None,
                        float(fleet.panel.times[min(last + 1, len(count) - 1)]), text,
                        slows=True)  # fmt: skip
    yield from _refuses(fleet, silent)
    yield from _fewer(fleet)


def silent_nodes(fleet: ComparablePanel) -> Iterator[str]:
    """What was not there and says nothing of the hardware: nodes that no scrape reached."""
    panel = fleet.panel
    if not len(panel.times):
        return
    missed = np.flatnonzero((~panel.answered[-SCRAPES:]).all(axis=0))
    lost = [panel.nodes[column] for column in missed.tolist()]
    if lost:
        yield (
            f"the last {SCRAPES} scrapes of {listed(lost)} failed: of the hardware there nothing"
            " is known since"
        )
    silent = _silent(fleet)
    stopped = _source_stopped(fleet, silent) & ~fleet.simulated
    nodes = sorted({panel.places[column][0] for column in np.flatnonzero(stopped).tolist()})
    if nodes:
        yield f"no GPU of {listed(nodes)} told anything at the end: the source of GPUs stopped"


def _tells(count: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(T, ...) bins in which a GPU told most of its series."""
    usual = np.nan_to_num(median(np.where(count > 0, count.astype(float), np.nan), 0))
    tells: NDArray[np.bool_] = count > COLLAPSED * usual
    return tells


def _silent(fleet: ComparablePanel) -> NDArray[np.bool_]:
    """(D,) GPUs that missed the last SCRAPES scrapes and more of their own node."""
    panel = fleet.panel
    tells = _tells(panel.series_of_gpus)
    bins = np.arange(len(panel.times))[:, None]
    last = np.where(tells.any(axis=0), np.max(np.where(tells, bins, -1), axis=0, initial=-1), -1)
    answered = panel.answered[:, panel.node_of] & (bins > last)
    silent: NDArray[np.bool_] = (last >= 0) & (answered.sum(axis=0) >= SCRAPES)
    return silent


def _source_stopped(fleet: ComparablePanel, silent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(D,) silent GPUs whose neighbours are all silent too: then it is not the GPU that stopped.

    A node with one GPU has no neighbours: there a source that says it is up decides.
    """
    panel = fleet.panel
    every = np.bincount(panel.node_of, minlength=len(panel.nodes))
    mute = np.bincount(panel.node_of[silent], minlength=len(panel.nodes))
    up = np.zeros(len(panel.nodes), dtype=bool)
    for told in panel.first_and_last(metrics.SOURCE_UP.name):
        known = any(f'source="{source}"' in told.labels for source in GPU_SOURCES)
        up[told.node] |= known and told.last > 0
    whole = (every == mute) & ~((every == 1) & up)
    stopped: NDArray[np.bool_] = silent & whole[panel.node_of]
    return stopped


def _refuses(fleet: ComparablePanel, silent: NDArray[np.bool_]) -> Iterator[Deviation]:
    """GPUs that are listed and do not answer, or hold their driver's calls."""
    for metric, bad, words in (
        (UP, 0.0, "does not answer its driver"),
        (metrics.GPU_STALLED.name, 1.0, "holds a call to its driver"),
    ):
        cells = fleet.gpus(metric)
        if cells is None or len(cells) < SCRAPES:
            continue
        for column in np.flatnonzero((cells[-SCRAPES:] == bad).all(axis=0) & ~silent).tolist():
            node, gpu = fleet.panel.places[column]
            fine = np.flatnonzero(cells[:, column] != bad)
            begin = int(fine[-1]) + 1 if fine.size else 0
            yield Deviation(Subject.GONE, metric, node, gpu, None,
                            float(fleet.panel.times[begin]), f"{who(node, gpu)} {words}",
                            slows=True)  # fmt: skip


def _fewer(fleet: ComparablePanel) -> Iterator[Deviation]:
    """Nodes whose driver counts fewer GPUs than are on the bus, or than it counted."""
    present = fleet.panel.of_nodes(metrics.GPU_PRESENT.name)
    expected = fleet.panel.of_nodes(metrics.GPU_EXPECTED.name)
    if present is None or expected is None or len(present) < SCRAPES:
        return
    fewer = (present[-SCRAPES:] < expected[-SCRAPES:]).all(axis=0)
    for column in np.flatnonzero(fewer).tolist():
        node = fleet.panel.nodes[column]
        alike = np.flatnonzero(~(present[:, column] < expected[:, column]))
        begin = min(int(alike[-1]) + 1, len(present) - 1) if alike.size else 0
        text = (
            f"{node}: its driver counts {present[-1, column]:.0f} of"
            f" {expected[-1, column]:.0f} GPUs"
        )
        yield Deviation(Subject.GONE, metrics.GPU_PRESENT.name, node, None, None,
                        float(fleet.panel.times[begin]), text)  # fmt: skip
