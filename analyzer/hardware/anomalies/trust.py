"""Which series are not to be believed, in words: they accuse nobody and are nobody's peers.

docs/method/trust.md: gaps, stale series and contradictions are signals of their own, and lower what
is known; they are never evidence.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.causes.symptoms.gpu_state import BUSY, CELSIUS, LIMITED, idle_at_work
from lockstep.analyzer.causes.symptoms.series import PERCENT
from lockstep.analyzer.causes.telemetry_quality import SCRAPES, stands_still
from lockstep.analyzer.hardware.anomalies.activity import PEGGED
from lockstep.analyzer.hardware.anomalies.deviation import who
from lockstep.analyzer.hardware.anomalies.distances import (
    LASTS_BINS,
    longest_stretch,
    peer_distances,
)
from lockstep.analyzer.hardware.anomalies.levels import held_at_full_clock
from lockstep.analyzer.hardware.anomalies.panel import Integers, Panel
from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.stats.robust_stats import median_of
from lockstep.collector.contract import metrics

IDENTITY = ("serial", "pci_bus_id", "model")
"""Labels of the GPU's info series that another part has otherwise; the driver's version changes
with an update, and the part is the same."""


def one_name(samples: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The samples with each node under its last name, and the changes in words.

    Names are one node if they tell the same boot, one after the other. Names that answer at the
    same time are emulated nodes of one machine, which are distinguished by their names alone.
    """
    boots = samples[samples["metric"] == metrics.BOOT_INFO.name]
    named = boots.drop_duplicates(["node", "labels"])[["node", "labels"]].fillna("")
    of_boot: dict[str, set[str]] = {}
    for node, labels in named.itertuples(index=False):
        of_boot.setdefault(parsed(str(labels)).get("boot_id", ""), set()).add(str(node))
    suspects = [nodes for boot, nodes in of_boot.items() if boot and len(nodes) > 1]
    if not suspects:
        return samples, ()
    times = samples.groupby("node", observed=True)["time"].agg(["min", "max"])
    begin, end = times["min"].to_dict(), times["max"].to_dict()
    names: dict[str, str] = {}
    for nodes in suspects:
        *old, last = sorted(nodes, key=lambda node: begin[node])
        if all(end[one] < begin[other] for one, other in pairwise([*old, last])):
            names |= dict.fromkeys(old, last)
    words = tuple(f"{old} is called {new} since a restart" for old, new in names.items())
    return samples.assign(node=samples["node"].map(lambda node: names.get(node, node))), words


def exchanged_parts(panel: Panel) -> tuple[Integers, tuple[str, ...]]:
    """((D,) first bin of the part that is in each place now, the exchanges in words)."""
    since = np.zeros(len(panel.places), dtype=np.int64)
    known: dict[int, dict[str, str]] = {}
    infos = [ends for ends in panel.series(metrics.GPU_INFO.name) if ends.gpu >= 0]
    for ends in sorted(infos, key=lambda ends: (ends.first_bin, ends.labels)):
        labels = parsed(ends.labels)
        now = {name: labels[name] for name in IDENTITY if labels.get(name)}
        before = known.setdefault(ends.gpu, now)
        # A label that is only told now has not changed.
        if any(before.get(name, text) != text for name, text in now.items()):
            since[ends.gpu] = ends.first_bin
        known[ends.gpu] = now
    words = tuple(
        f"{who(*panel.places[gpu])} is another part than at first: only what it reported since then"
        " counts"
        for gpu in np.flatnonzero(since).tolist()
    )
    return since, words


USED, POWER = metrics.GPU_UTILIZATION.name, metrics.GPU_POWER.name
MEASURED = (
    (POWER, "", "power", LIMITED.resolution),
    (metrics.GPU_TEMPERATURE.name, 'sensor="gpu"', "temperature", CELSIUS.resolution),
    (USED, "", "utilization", PERCENT),
)
"""Gauges that are measured, with noise: metric, label, its name, and its resolution."""
Doubt = tuple[str, int, str]
"""(metric, column, why in words)."""


def mark_untrusted(panel: Panel) -> tuple[Panel, tuple[str, ...]]:
    """The panel without what is not to be believed, and why."""
    doubts = [*_idle_at_work(panel), *_stand_still(panel)]
    marks: dict[str, NDArray[np.bool_]] = {}
    for metric, column, _ in doubts:
        marks.setdefault(metric, np.zeros(len(panel.places), dtype=bool))[column] = True
    nobody = np.zeros(len(panel.places), dtype=np.int64)
    words = (*(words for _, _, words in doubts), *_held(panel))
    return panel.believed(nobody, marks), tuple(dict.fromkeys(words))


def _idle_at_work(panel: Panel) -> Iterator[Doubt]:
    """GPUs with a kernel running nearly always and the power of an idle one."""
    used, power = panel.cells(USED), panel.cells(POWER)
    if used is None or power is None:
        return
    limit = panel.cells(metrics.GPU_POWER_LIMIT.name, 'kind="enforced"')
    _, peers = peer_distances(power, np.where(used >= BUSY, panel.kind, -1), 1.0)
    idle = idle_at_work(used, power, np.nan if limit is None else limit, peers)
    for column in np.flatnonzero(idle.sum(axis=0) >= LASTS_BINS).tolist():
        first, stop = longest_stretch(idle[:, column])
        if stop - first < LASTS_BINS:
            continue
        place, bins = who(*panel.places[column]), idle[:, column]
        words = (
            f"{place} reports {median_of(used[bins, column]):.0%} utilisation and"
            f" {median_of(power[bins, column]):.0f} W, the power of an idle GPU: one of the two is"
            " wrong, and neither counts"
        )
        yield USED, column, words
        yield POWER, column, words


def _stand_still(panel: Panel) -> Iterator[Doubt]:
    """Measured values that never move while those of most of the peers do."""
    works = 2 * panel.busy.sum(axis=0) > len(panel.times)
    for metric, label, name, resolution in MEASURED:
        cells = panel.cells(metric, label)
        if cells is None:
            continue
        top = np.max(cells, axis=0, initial=-np.inf, where=np.isfinite(cells))
        # A GPU without work tells 0 all the time, and rightly; at its ceiling stands also one that
        # works on while its peers wait for it.
        idle = ~works & (metric in (USED, POWER))
        usual = (top <= 0) | idle | ((metric == USED) & (top >= PEGGED))
        often = np.isfinite(cells).sum(axis=0) >= SCRAPES
        stands = often & ~usual & stands_still(cells, resolution, panel.kind)
        for column in np.flatnonzero(stands).tolist():
            words = (
                f"the {name} of {who(*panel.places[column])} stands at exactly {top[column]:g}"
                " while that of its peers moves: it does not count"
            )
            yield metric, column, words


def _held(panel: Panel) -> Iterator[str]:
    """GPUs that report being held back at the clock of those that are not.

    Only that reason is not to be believed (`level_deviations`): another one may be right.
    """
    for watched, column in held_at_full_clock(panel):
        place = who(*panel.places[column])
        yield f"{place} reports that it is {watched.held}, but its clock is its peers'"
