"""Which series are not to be believed, in words: they accuse nobody and are nobody's peers.

docs/method/trust.md: gaps, stale series and contradictions are signals of their own, and lower what
is known; they are never evidence.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.causes.symptoms.gpu_state import BUSY, CELSIUS, LIMITED, idle_at_work
from lockstep.analyzer.causes.symptoms.series import PERCENT
from lockstep.analyzer.causes.telemetry_quality import SCRAPES, stands_still
from lockstep.analyzer.hardware.anomalies.activity import PEGGED
from lockstep.analyzer.hardware.anomalies.apart import held_at_full_clock
from lockstep.analyzer.hardware.anomalies.panel import Panel
from lockstep.analyzer.hardware.anomalies.peers import LASTS_BINS, longest_stretch, peer_distances
from lockstep.analyzer.hardware.anomalies.shape import who
from lockstep.analyzer.stats.robust_stats import median_of
from lockstep.collector.contract import metrics

USED, POWER = metrics.GPU_UTILIZATION.name, metrics.GPU_POWER.name
MEASURED = (
    (POWER, "", "power", LIMITED.resolution),
    (metrics.GPU_TEMPERATURE.name, 'sensor="gpu"', "temperature", CELSIUS.resolution),
    (USED, "", "utilization", PERCENT),
)
"""Gauges that are measured, with noise: metric, label, its name, the least that it tells apart."""
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
            f"{place} tells {median_of(used[bins, column]):.0%} utilisation and"
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
    """GPUs that tell of being held back at the clock of those that are not.

    Only that reason is not to be believed (apart.apart): of another one they may tell rightly.
    """
    for watched, column in held_at_full_clock(panel):
        place = who(*panel.places[column])
        yield f"{place} tells of being {watched.held}, and its clock is its peers'"
