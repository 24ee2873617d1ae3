"""GPUs of several models in one run: the same work takes some of them longer, and none is slow."""

from collections.abc import Mapping

from lockstep.analyzer.operations.structure.facts import LONGER
from lockstep.analyzer.shapes.run import Grid
from lockstep.analyzer.stats.changepoint import column_medians
from lockstep.analyzer.stats.peer_groups import columns_by, model_name
from lockstep.analyzer.stats.robust_stats import median_of

KIND = "mixed-gpu-models"


def slower_models(grid: Grid) -> tuple[Mapping[str, object], ...]:
    """The model that is slowest against the fastest of its stage, as docs/reference/verdict.md.

    `share` is what steps would be shorter by at most, were all of the fastest.
    """
    own = column_medians(grid.time["own"][~grid.masked])
    levels: dict[int, dict[str, float]] = {}
    groups = columns_by(grid, lambda info: (info.pp, model_name(info.model)))
    for (stage, model), columns in groups.items():
        level = median_of(own[columns])
        if model and level > 0:
            levels.setdefault(stage, {})[model] = level
    found = []
    for stage, told in levels.items():
        slow, fast = max(told, key=lambda m: told[m]), min(told, key=lambda m: told[m])
        if told[slow] >= (1.0 + LONGER) * told[fast]:
            found.append((told[slow] - told[fast], stage, slow, fast))
    if not found:
        return ()
    more, stage, slow, fast = max(found)
    times = levels[stage][slow] / levels[stage][fast]
    text = f"the same work takes {slow} {times:.2f}x the time of {fast}; both are in this run"
    share = more / max(median_of(grid.time["wall"][~grid.masked]), more)
    return ({"kind": KIND, "share": float(share), "text": text},)
