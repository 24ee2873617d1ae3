"""The ranks of which enough is known to say that they are well, and words for the others.

Accusing takes evidence against one rank. Exonerating takes evidence of all: a rank of which nothing
is known may be the slow one. So whoever says that nobody is to blame asks here first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import EXPECTED_STEPS, FloatGrid, Grid
from lockstep.analyzer.shapes.wording import listed
from lockstep.analyzer.stats.significance import STEPS_AT_LEAST, TRANSIENT_SHARE

COVERAGE_AT_LEAST = 0.5
"""Share of what was expected that must be known, before anything is said of the rest: the larger
part, as medians take."""
KNOWN_AT_LEAST = 1.0 - TRANSIENT_SHARE
"""Share of a rank's steps: in the rest nothing fits that is long enough to wake somebody."""
LAST_SHARE = 0.05
"""Of the run: who is not known in so many of the last steps (STEPS_AT_LEAST at least) may just have
become slow. A third of TRANSIENT_SHARE, as what goes on is named after fewer steps than what
ended."""
LAST_WINDOWS = 2
"""So many scrapes come late in every run: a rank's last one, and one of the window that it cuts."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Columns of a Grid by why own time is not known of them; each rank is in one at most.

    Attributes:
        silent: Nobody reported a step of them.
        untimed: They reported steps, and nobody timed all their collectives in any.
        partly: Own time is known of some steps and of too few: (column, steps known, step since
            which it is not, or None where the holes lie elsewhere).
    """

    silent: tuple[int, ...]
    untimed: tuple[int, ...]
    partly: tuple[tuple[int, int, int | None], ...]

    def __bool__(self) -> bool:
        return bool(self.silent or self.untimed or self.partly)


def unseen_ranks(grid: Grid) -> Unseen:
    """The ranks of which too little is known to say that they were not slow."""
    own, steps = grid.time["own"], (grid.to_step - grid.from_step).astype(float)
    known, told = np.isfinite(own), np.isfinite(grid.time["wall"])
    silent: list[int] = []
    untimed: list[int] = []
    partly: list[tuple[int, int, int | None]] = []
    expected = _expected(grid)
    for column in range(len(grid.ranks)):
        mine = known[:, column]
        if not mine.any():
            (untimed if told[:, column].any() else silent).append(column)
            continue
        count = float(steps[mine].sum())
        last = int(np.flatnonzero(mine)[-1])
        missed = float(steps[last + 1 :].sum())
        ended = missed >= max(STEPS_AT_LEAST, LAST_SHARE * expected)
        ended &= len(mine) - 1 - last > LAST_WINDOWS
        if ended or count < KNOWN_AT_LEAST * expected:
            partly.append((column, int(count), int(grid.to_step[last]) if ended else None))
    return Unseen(tuple(silent), tuple(untimed), tuple(partly))


def unseen_words(grid: Grid) -> str | None:
    """Who is not known, since when, and what would make it known; None where all ranks are."""
    found = unseen_ranks(grid)
    ranks = [info.rank for info in grid.ranks]
    words = []
    if found.untimed:
        who = _names([ranks[column] for column in found.untimed], len(ranks))
        words.append(
            f"no computation of {who} has a duration"
            if EXPECTED_STEPS in grid.meta
            else f"the own time of {who} is unknown, as its waits for the others are not timed:"
            " lockstep.recorder() times collectives (docs/ml/timed-waits.md)"
        )
    if found.silent:
        who = _names([ranks[column] for column in found.silent], len(ranks))
        words.append(
            f"{who} reported no step times: its collector was not scraped, or it never began"
        )
    if found.partly:
        who = _names([ranks[column] for column, _, _ in found.partly], len(ranks))
        _, least, since = min(found.partly, key=lambda one: one[1])
        total = round(_expected(grid))
        when = f" and not since step {since}" if since is not None else ""
        words.append(
            f"own time of {who} is known for {least} of {total} steps only{when}: the rest was not"
            " scraped or not timed"
        )
    return "; ".join(words) or None


def _expected(grid: Grid) -> float:
    """Steps that every rank did: those of all windows, and those that no window holds."""
    if not len(grid.from_step):
        return 0.0
    if EXPECTED_STEPS in grid.meta:
        return float(grid.meta[EXPECTED_STEPS])
    gaps = np.maximum(grid.from_step[1:] - grid.to_step[:-1], 0)
    return float((grid.to_step - grid.from_step).sum() + gaps.sum())


def _names(ranks: Sequence[int], world: int) -> str:
    if len(ranks) == world and world > 1:
        return f"each of the {world} ranks"
    return f"rank {listed(ranks)}"


def known_in(cells: FloatGrid, span: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(R,) whether at least half of the rows of a span, and one, are known of each column."""
    rows = cells[span]
    if not len(rows):
        return np.zeros(cells.shape[1], dtype=bool)
    return np.asarray(2 * np.isfinite(rows).sum(axis=0) >= len(rows))
