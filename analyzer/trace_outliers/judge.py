"""Which workers are slow beyond chance: from the first step on, or for a while."""

from dataclasses import dataclass, replace

import numpy as np

from analyzer.operations import Flags, Floats
from analyzer.trace_outliers.cells import Cells
from analyzer.trace_outliers.limits import CHANCE, RECORD, highest_healthy
from analyzer.trace_outliers.residuals import Series, comparisons, work
from analyzer.trace_outliers.robust_stats import median, spread, trimmed
from analyzer.trace_outliers.spans import search
from analyzer.trace_outliers.suspects import Suspect, find_suspects

CONFIRMED = 0.75 * RECORD
"""What one way of comparing shows, all that the worker computes must show as well, nearly."""
ROUNDS = 6
FEW_WORKERS = 256
TRIED = 3
FEWEST_STEPS = 5
"""Fewer steps say nothing about the noise between steps."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """All suspects of a trace, the clearest first, and who was near.

    Attributes:
        suspects: Slow workers.
        level: (P, D) log of each worker's own time over what it should be, all steps.
        limit: (P, D) the level that chance alone may reach.
        replica: (D,) log of how much longer a replica takes on all stages alike; 0 with one stage.
    """

    suspects: tuple[Suspect, ...]
    level: Floats
    limit: Floats
    replica: Floats

    def flags(self) -> Flags:
        """(P, D) whether a worker is a suspect."""
        found = np.zeros(self.level.shape, dtype=bool)
        for one in self.suspects:
            found[one.stage, one.dp] = True
        return found


def judge(found: Cells) -> Judgement:
    """Accuses the clearest, takes them out of the others' references, and looks again."""
    _, _, stages, replicas, _ = found.ratio.shape
    slow = np.zeros((stages, replicas), dtype=bool)
    named: dict[tuple[int, int], Suspect] = {}
    for _ in range(ROUNDS):
        fresh = _seen(comparisons(found, slow), slow)
        new = {cell: one for cell, one in fresh.items() if not slow[cell]}
        if not new:
            new = _without_each(found, slow)
        # Those who were accused are measured again against references without the new ones.
        named |= {cell: one for cell, one in fresh.items() if slow[cell]}
        most = max((one.excess for one in new.values()), default=0.0)
        added = False
        for cell, one in sorted(new.items(), key=lambda item: -item[1].excess):
            # At most half of those it is compared with can be slow: the others are the ruler.
            ruler = slow if replicas == 1 else slow[cell[0]]
            if one.excess >= most / 2 and ruler.sum() < ruler.size // 2:
                named[cell], slow[cell], added = one, True, True
        if not added:
            break
    level, limit = _levels(comparisons(found, slow)[0], slow)
    replica = np.zeros(replicas)
    if found.cancels and replicas > 1:
        long = median(work(found, slow), (0, 1))
        replica = median(long - median(long, 0, keepdims=True), 1)
    ordered = sorted(named.values(), key=lambda one: (-one.margin, one.dp, one.stage))
    return Judgement(tuple(ordered), level, limit, replica)


def _seen(chosen: list[Series], slow: Flags) -> dict[tuple[int, int], Suspect]:
    """(stage, dp) -> who is slow, by the way that shows it most clearly."""
    found: dict[tuple[int, int], Suspect] = {}
    for way in chosen:
        # The first way of its kind compares all that a worker computes.
        whole = next(other for other in chosen if other.cancelled == way.cancelled)
        for cell, one in find_suspects(way, slow, len(chosen)).items():
            if one.excess * _confirmation(whole, one) < CONFIRMED:
                continue
            if cell not in found or one.margin > found[cell].margin:
                found[cell] = _scaled(one, _confirmation(whole, one))
    return found


def _confirmation(way: Series, one: Suspect) -> float:
    """How much of an excess all that the worker computes shows as well, as a ratio."""
    values = way.peers[one.stage, one.dp]
    during, rest = one.by_step > 0, one.by_step == 0
    during, rest = during & np.isfinite(values), rest & np.isfinite(values)
    if not during.any():
        return 1.0
    outside = float(np.median(values[rest])) if rest.any() else 0.0
    return (float(np.median(values[during])) - outside) / one.excess


def _scaled(one: Suspect, ratio: float) -> Suspect:
    return replace(one, excess=one.excess * ratio, by_step=one.by_step * ratio)


def _without_each(found: Cells, slow: Flags) -> dict[tuple[int, int], Suspect]:
    """Who is slow once it is left out of all that it is compared with.

    Among few workers a slow one widens the spread it is judged by. The first of those who lie
    highest that is beyond what the rest of them may do.
    """
    if slow.size > FEW_WORKERS or slow.shape[1] < 3:
        return {}
    chosen = comparisons(found, slow)
    levels = [trimmed(way.peers) for way in chosen]
    over = np.max([level / max(float(spread(level.reshape(-1))), 1e-9) for level in levels], axis=0)
    over[slow | ~np.isfinite(over)] = -np.inf
    for row in np.argsort(-over, axis=None)[:TRIED]:
        cell = (int(row // slow.shape[1]), int(row % slow.shape[1]))
        if not np.isfinite(over[cell]):
            break
        without = slow.copy()
        without[cell] = True
        fresh = _seen(comparisons(found, without), without)
        if cell in fresh:
            return {cell: fresh[cell]}
    return {}


def _levels(way: Series, slow: Flags) -> tuple[Floats, Floats]:
    """(P, D) the level of each worker, and what chance may do; for `Judgement`."""
    flat = way.peers.reshape(-1, way.peers.shape[2])
    spans = search(flat, CHANCE)
    level = trimmed(flat)
    limit, _ = highest_healthy(level, spans, slow, flat.shape[1], 1)
    return level.reshape(slow.shape), limit.reshape(slow.shape)
