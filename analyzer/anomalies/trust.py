"""Which series are not to be believed, in words: they accuse nobody and are nobody's peers.

docs/method/trust.md: gaps, stale series and contradictions are signals of their own, and lower what
is known; they are never evidence.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from analyzer.anomalies.activity import PEGGED
from analyzer.anomalies.fleet import ComparablePanel
from analyzer.anomalies.peers import LASTS_BINS, peer_distances
from analyzer.anomalies.robust import longest_stretch
from analyzer.anomalies.shape import who
from analyzer.slowness.transfers import median
from analyzer.symptoms.idle import BUSY, IDLE
from collector.contract import metrics

USED, POWER = metrics.GPU_UTILIZATION.name, metrics.GPU_POWER.name
OF_PEERS = 0.5
"""And of what its peers draw at full utilisation."""
STANDS_BINS = 20
"""Scrapes in which a value that is measured, with noise, does not stay the same to the last digit:
five minutes at 15 s."""
MOVES = {POWER: 0.02, metrics.GPU_TEMPERATURE.name: 0.05, USED: 0.05}
"""Share of its middle by which the peers' series moves meanwhile, between its 5 % and 95 %
quantiles. Temperatures are whole degrees, so that a steady one stands still on healthy parts."""


def mark_untrusted(fleet: ComparablePanel) -> tuple[ComparablePanel, tuple[str, ...]]:
    """The fleet with what is not to be believed marked, and why."""
    notes: list[str] = []
    doubted = dict(fleet.doubted)
    for metric, column, words in (*_idle_at_work(fleet), *_stand_still(fleet)):
        marks = doubted.setdefault(metric, np.zeros(len(fleet.panel.places), dtype=bool))
        marks[column] = True
        if words and words not in notes:
            notes.append(words)
    return replace(fleet, doubted=doubted), tuple(notes)


def _idle_at_work(fleet: ComparablePanel) -> Iterator[tuple[str, int, str]]:
    """GPUs with a kernel running nearly always and the power of an idle one."""
    used, power = fleet.gpus(USED), fleet.gpus(POWER)
    if used is None or power is None:
        return
    limit = fleet.gpus(metrics.GPU_POWER_LIMIT.name, 'kind="enforced"')
    full = used >= BUSY
    groups = np.where(full, fleet.kind, -1)
    _, normal = peer_distances(power, groups, 1.0)
    with np.errstate(invalid="ignore"):
        idle = full & (power < OF_PEERS * normal)
        if limit is not None:
            known = np.isfinite(normal)
            idle = full & (power < IDLE * limit) & (idle | ~known)
    for column in np.flatnonzero(idle.sum(axis=0) >= LASTS_BINS).tolist():
        if longest_stretch(idle[:, column])[1] < LASTS_BINS:
            continue
        place, watts = who(*fleet.panel.places[column]), median(power[idle[:, column], column])
        words = (
            f"{place} tells {median(used[idle[:, column], column]):.0%} utilisation and"
            f" {watts:.0f} W, the power of an idle GPU: one of the two is wrong, and neither counts"
        )
        yield USED, column, words
        yield POWER, column, words


def _stand_still(fleet: ComparablePanel) -> Iterator[tuple[str, int, str]]:
    """Measured values that never move while those of the peers do."""
    for metric, least in MOVES.items():
        label = ('sensor="gpu"',) if metric == metrics.GPU_TEMPERATURE.name else ()
        cells = fleet.gpus(metric, *label)
        if cells is None or len(cells) < STANDS_BINS:
            continue
        known = np.isfinite(cells).sum(axis=0) >= STANDS_BINS
        top = np.max(cells, axis=0, initial=-np.inf, where=np.isfinite(cells))
        bottom = np.min(cells, axis=0, initial=np.inf, where=np.isfinite(cells))
        # A GPU without work tells 0 all the time, and rightly.
        stands = known & (top == bottom) & (top > 0)
        if metric != metrics.GPU_TEMPERATURE.name:
            stands &= fleet.busy.mean(axis=0) > 0.5
        if metric == USED:
            # At its ceiling stands also a GPU that works on while its peers wait for it.
            stands &= top < PEGGED
        if not stands.any():
            continue
        moves = [
            bool(told) and _moves(cells[:, each], least) for each, told in enumerate(known.tolist())
        ]
        peers = np.bincount(fleet.kind[known])
        moved = np.bincount(fleet.kind[np.flatnonzero(moves)], minlength=len(peers))
        for column in np.flatnonzero(stands).tolist():
            kind = fleet.kind[column]
            if 2 * moved[kind] > peers[kind] - 1:  # it is one of them, and does not move
                name = metric.removeprefix("lockstep_gpu_").rpartition("_")[0].replace("_", " ")
                yield metric, column, (
                    f"the {name} of {who(*fleet.panel.places[column])} stands at exactly"
                    f" {top[column]:g} while that of its peers moves: it does not count"
                )  # fmt: skip


def _moves(series: np.ndarray, least: float) -> bool:
    there = series[np.isfinite(series)]
    low, middle, high = np.quantile(there, [0.05, 0.5, 0.95])
    return bool(high - low >= least * abs(middle) and high > low)
