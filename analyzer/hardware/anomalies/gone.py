"""A GPU that vanished, told from a scrape that failed and from a source that stopped.

A GPU that falls off its bus shows as telemetry that collapses, not as numbers that change (GWDG,
"When GPUs fail quietly", arXiv 2603.28781): one GPU's series stop while its node still answers and
its neighbours still tell. A page that is missing altogether says nothing of any GPU.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.anomalies.panel import Integers, Panel
from lockstep.analyzer.hardware.anomalies.peers import SHORTEST
from lockstep.analyzer.hardware.anomalies.shape import Deviation, deviation
from lockstep.analyzer.hardware.anomalies.watched import Subject
from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.shapes.wording import listed
from lockstep.analyzer.stats.robust_stats import median
from lockstep.collector.contract import metrics

GPU_SOURCES = ("nvml", "dcgm", "dcgm_exporter")


def vanished_gpus(panel: Panel) -> Iterator[Deviation]:
    """GPUs that told of themselves and no longer do, though their nodes answer."""
    last, missed = _missed(panel)
    silent = missed >= SHORTEST
    alone = silent & ~_source_stopped(panel, silent) & ~panel.simulated
    for column in np.flatnonzero(alone).tolist():
        how = "tells nothing" if panel.series_of_gpus[-1, column] == 0 else "tells next to nothing"
        words = f" {how} since {missed[column]} scrapes, in which its node answered"
        since = panel.times[last[column] + 1]
        yield deviation(panel, Subject.GONE, metrics.GPU_UP.name, column, since, words)


def silent_nodes(panel: Panel) -> Iterator[str]:
    """What was not there and says nothing of the hardware: nodes that no scrape reached."""
    if not len(panel.times):
        return
    unreached = np.flatnonzero((~panel.answered[-SHORTEST:]).all(axis=0))
    lost = [panel.nodes[column] for column in unreached.tolist()]
    if lost:
        yield (
            f"the last {SHORTEST} scrapes of {listed(lost)} failed: of the hardware there nothing"
            " is known since"
        )
    stopped = _source_stopped(panel, _missed(panel)[1] >= SHORTEST) & ~panel.simulated
    nodes = sorted({panel.places[column][0] for column in np.flatnonzero(stopped).tolist()})
    if nodes:
        yield f"no GPU of {listed(nodes)} told anything at the end: the source of GPUs stopped"


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
    for told in panel.series(metrics.SOURCE_UP.name):
        up[told.node] |= parsed(told.labels).get("source") in GPU_SOURCES and told.last > 0
    stopped: NDArray[np.bool_] = silent & ((every == mute) & ~((every == 1) & up))[panel.node_of]
    return stopped
