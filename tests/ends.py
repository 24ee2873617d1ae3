"""Simulated ends of runs, as the last scrape of every node shows them, with who began each.

A rank freezes, is stuck or dies, a whole node is lost, or the user ends a run that is well; the
others wait or go because of it, and are ended by their user, launcher or watchdog. Pages of no
node, of one or of half of them are missing: from the first step on, since before the stop, or since
a moment after it; never that of who began it, but where its node is lost. All ranks are one
data-parallel group.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.hangs.detector import hang
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.collector.contract import metrics
from tests.analyzer.conftest import Synthetic

FREEZE, STUCK, CRASH, NODE, USER = KINDS = ("freeze", "stuck", "crash", "node", "user")
NONE, ONE, HALF = LACKS = ("none", "one", "half")
STEPS = 60
SCRAPES = 30
"""The last that are looked at."""
NEVER = float("inf")
ENDED_AFTER = 10.0
"""Seconds that a launcher or a watchdog waits at least."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a run.

    Attributes:
        grid: Its last scrapes.
        kind: One of KINDS.
        lacks: One of LACKS.
        guilty: Ranks that began it.
    """

    grid: Grid
    kind: str
    lacks: str
    guilty: frozenset[int]


def judged(end: End) -> tuple[str, float]:
    """(right, among others, wrong or nobody; the certainty of who is named)."""
    found: list[Finding] = list(hang(end.grid))
    if not found:
        return "nobody", 0.0
    named = {one.rank for one in found}
    word = "right" if named == end.guilty else "among" if named & end.guilty else "wrong"
    return word, max(float(one.details["certainty"]) for one in found)


def drawn(seed: int) -> End:
    """The end of a seed."""
    dice = np.random.default_rng(seed)
    world, width = int(dice.choice([4, 8, 16])), int(dice.choice([1, 2, 4]))
    width = 1 if width >= world else width
    node = np.arange(world) // width
    kind, lacks = str(dice.choice(KINDS)), str(dice.choice(LACKS))
    place = int(dice.integers(world))
    mine = np.arange(world) == place
    guilty = {USER: mine & False, NODE: node == node[place]}.get(kind, mine)
    cut = _missing(lacks, node, place, dice)
    if kind == NODE:
        cut[node[place]] = 0.0
    stood, died, said, meta = _ends(kind, guilty, place, dice)
    pages = _Pages(world, kind, place, guilty, died, said)
    period = float(dice.choice([1.0, 5.0, 15.0]))
    grid, until = _grid(world, width), np.full(world, np.nan)
    late, phase = float(dice.uniform(0, 2 * period)), dice.uniform(0, period, len(set(node)))
    step = float(np.median(grid.time["wall"]))
    for rank in range(world):
        times = np.arange(phase[node[rank]] - 200.0, stood + late, period)
        times = times[times < cut.get(int(node[rank]), NEVER)][-SCRAPES:]
        until[rank] = times[-1] if times.size else np.nan
        for time in times.tolist():
            pages.scrape(rank, time, step, dice)
    end = float(grid.end.max())
    seen = replace(
        grid, last=dict(pages.last), scraped_until=end + until, scrape_seconds=period, meta=meta,
        last_time={key: end + pages.when[key] for key in pages.last}, down_since=end + pages.down,
    )  # fmt: skip
    return End(seen, kind, lacks, frozenset(np.flatnonzero(guilty).tolist()))


def _missing(
    lacks: str, node: NDArray[np.int64], place: int, dice: np.random.Generator
) -> dict[int, float]:
    """Node -> seconds after the stop up to which it is scraped; others always are."""
    others = [one for one in np.unique(node).tolist() if one != node[place]]
    count = {NONE: 0, ONE: 1, HALF: (len(others) + 1) // 2}[lacks]
    lost = dice.choice(others, min(count, len(others)), replace=False).tolist()
    spans = ((-NEVER, -NEVER), (-100.0, -5.0), (-5.0, 10.0), (0.0, 60.0))
    low, high = spans[int(dice.integers(len(spans)))]
    return {one: low if low == high else float(dice.uniform(low, high)) for one in lost}


def _ends(
    kind: str, guilty: NDArray[np.bool_], place: int, dice: np.random.Generator
) -> tuple[float, FloatGrid, list[str], Mapping[str, object]]:
    """(seconds that it stands, (R,) when each is gone, what each says last, the run's meta)."""
    world, others = len(guilty), ~guilty
    stood, died = float(np.exp(dice.uniform(np.log(0.5), np.log(90)))), np.full(world, NEVER)
    said, meta = ["running"] * world, {}
    if kind == USER:
        return 1.0, dice.uniform(0, 0.7, world), _all_say(("stopped", "running"), world, dice), {}
    if kind in (CRASH, NODE):
        died[guilty] = 0.0
        if dice.random() < 0.5:
            died[others] = dice.uniform(0.1, 2.0, others.sum())
            words = dice.choice(["peer_lost", "failed", "running"], world, p=[0.6, 0.2, 0.2])
            said = np.where(guilty, "running", words).tolist()
            stood = 2.0
        elif dice.random() < 0.7:
            died[others] = stood + dice.uniform(0, 1, others.sum())
        if kind == CRASH and dice.random() < 0.3:
            meta = {"outcome": _crash(place, -9)}
        return stood, died, said, meta
    by = str(dice.choice(["nobody", "user", "launcher", "watchdog"]))
    if by in ("launcher", "watchdog"):
        stood += ENDED_AFTER
    if by == "user":
        died = stood + dice.uniform(0, 0.5, world)
        said = _all_say(("stopped", "running"), world, dice)
    elif by == "launcher":
        died, meta = stood + dice.uniform(0, 0.1, world), {"outcome": {"ending": "hang"}}
    elif by == "watchdog":
        died = stood + dice.uniform(0, 1, world)
        died[place] = stood + float(dice.uniform(1, 10)) if dice.random() < 0.5 else NEVER
        said = _all_say(("failed", "peer_lost", "running"), world, dice)
        if dice.random() < 0.5:
            meta = {"outcome": _crash(int(np.argmin(died)), -6)}
    said[place] = "running"
    return stood, died, said, meta


def _all_say(words: tuple[str, ...], world: int, dice: np.random.Generator) -> list[str]:
    return [str(dice.choice(words))] * world


def _crash(rank: int, code: int) -> dict[str, object]:
    exits = [{"rank": rank, "code": code, "seconds": 0.0}]
    return {"ending": "crash", "ranks": [rank], "exits": exits, "reason": ""}


class _Pages:
    """What pages say last; all times from the stop on."""

    def __init__(
        self, world: int, kind: str, place: int, guilty: NDArray[np.bool_], died: FloatGrid,
        said: list[str],
    ) -> None:  # fmt: skip
        def nobody() -> FloatGrid:
            return np.full(world, np.nan)

        self.last: dict[str, FloatGrid] = defaultdict(nobody)
        self.when: dict[str, FloatGrid] = defaultdict(nobody)
        self.down = nobody()
        self._stands, self._frozen = kind != USER, place if kind == FREEZE else None
        self._guilty, self._died, self._said = guilty, died, said

    def scrape(self, rank: int, time: float, step: float, dice: np.random.Generator) -> None:
        """The page of a rank at `time`, read up to half a second before."""
        read = time - float(dice.uniform(0, 0.5))
        lived = min(read, float(self._died[rank]))
        stopped = max(lived, 0.0) if self._stands else 0.0
        steps = STEPS + int(np.floor((lived - stopped) / step))
        arrived = steps + bool(stopped > 0 and not self._guilty[rank])

        def tell(metric: str, labels: str, value: float) -> None:
            key = f"{metric}{{{labels}}}" if labels else metric
            self.last[key][rank], self.when[key][rank] = value, time

        tell(metrics.TRAIN_ENQUEUED.name, 'group="dp"', arrived)
        tell(metrics.TRAIN_COMPLETED.name, 'group="dp"', steps)
        if read >= self._died[rank]:
            self.down[rank] = np.fmin(self.down[rank], time)
            tell(metrics.RANK_LAST_STATE.name, f'state="{self._said[rank]}"', 1.0)
            return
        beat = stopped if rank == self._frozen else 0.0
        tell(metrics.TRAIN_HEARTBEAT_AGE.name, "", beat + float(dice.uniform(0, 1)))
        tell(metrics.TRAIN_PROGRESS_AGE.name, "", stopped)
        tell(metrics.TRAIN_STEPS.name, "", steps)
        if arrived > steps:
            tell(metrics.TRAIN_OPEN_OP_AGE.name, 'group="dp",op="dp-all-reduce"', stopped)


@cache
def _grid(world: int, width: int) -> Grid:
    run = Synthetic(world=world, ranks_per_node=width, telemetry=False, outcome=None, steps=STEPS)
    return align(run.run())
