"""What trivial answerers say about a run: a detector is worth what it is better than these."""

import numpy as np

from lockstep.analyzer.shapes.run import Grid


def trivial_answers(grid: Grid, seed: int) -> dict[str, int | None]:
    """Baseline -> the rank it accuses, None = nobody.

    `never` accuses nobody; `random` a rank drawn from the seed; `slowest_step` the rank with the
    longest median own time, always; `last_rank` the last.
    """
    ranks = [info.rank for info in grid.ranks]
    if not ranks:
        return dict.fromkeys(("never", "random", "slowest_step", "last_rank"))
    own = grid.time["own"][~grid.masked]
    medians = [
        float(np.median(column[np.isfinite(column)])) if np.isfinite(column).any() else -np.inf
        for column in own.T
    ]
    return {
        "never": None,
        "random": int(np.random.default_rng(seed).choice(ranks)),
        "slowest_step": ranks[int(np.argmax(medians))],
        "last_rank": ranks[-1],
    }
