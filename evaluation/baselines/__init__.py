"""Published rules of peers, re-implemented from their papers and documentation on our Grid.

They see the same run as the verdict does. Each answers with the ranks that it accuses.
"""

from collections.abc import Callable, Mapping, Sequence

from lockstep.analyzer.shapes.run import Grid
from lockstep.evaluation.baselines.minder import minder
from lockstep.evaluation.baselines.nvrx import nvrx
from lockstep.evaluation.baselines.zscore import zscore

BASELINES: Mapping[str, Callable[[Grid], Sequence[int]]] = {
    "nvrx": nvrx,
    "minder_distance": minder,
    "zscore": zscore,
}
"""Name in a score -> rule."""


def published_answers(grid: Grid) -> dict[str, list[int]]:
    """Rule -> the ranks that it accuses."""
    return {name: list(rule(grid)) for name, rule in BASELINES.items()}
