"""The way from the host to the GPU: lanes, generation, and packets that were sent again."""

import numpy as np

from lockstep.analyzer.causes.symptoms.series import EVENTS, WHOLE, Level, level, symptom, total
from lockstep.analyzer.causes.symptoms.shape import Symptom, with_more
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.stats.before_after import gpu_words, query
from lockstep.collector.contract import metrics

WIDTH, GENERATION = metrics.GPU_PCIE_WIDTH.series(), metrics.GPU_PCIE_GENERATION.series()
REPLAY = metrics.GPU_PCIE_REPLAY.name


def pcie(grid: Grid, finding: Finding) -> Symptom | None:
    """The link of the rank's GPU; None if it does not tell.

    Width and generation may fall on an idle link, so both are judged against before and against
    the peers in the same windows, and never against the maximum.
    """
    link = f"{gpu_words(grid, finding.rank)}'s PCIe link"
    silent = f"{link} kept its width and generation"
    width, generation = (total(grid, name) for name in (WIDTH, GENERATION))
    fell = symptom(
        grid, finding, _octaves(width, generation), WHOLE,
        lambda told: f"{link} fell to {_words(grid, finding, told)}", query(grid, finding, WIDTH),
        silent=silent,
    )  # fmt: skip
    again = symptom(
        grid, finding, total(grid, REPLAY), EVENTS,
        lambda told: f"{link} sent {told.during:.0f} packets a second again",
        query(grid, finding, REPLAY), silent=silent, mild=True,
    )  # fmt: skip
    return with_more(fell, again, said=link)


def _octaves(width: FloatGrid | None, generation: FloatGrid | None) -> FloatGrid | None:
    """(W, R) what the link can carry, as the binary logarithm of lanes of generation 1.

    Lanes come in powers of two, and a generation carries twice the one before: each is one less.
    """
    if width is None:
        return None
    lanes = np.log2(np.where(width > 0, width, np.nan))
    return lanes if generation is None else lanes + generation - 1.0


def _words(grid: Grid, finding: Finding, told: Level) -> str:
    """Lanes and generation, now and normally; whole ones, because there are none between."""
    width, generation = (level(grid, finding, total(grid, name)) for name in (WIDTH, GENERATION))
    if width is None or generation is None:
        return f"{2 ** (told.during - told.usual(WHOLE)):.2f} of what it carried"
    lanes, age = (
        each.before if np.isfinite(width.before) else each.peers for each in (width, generation)
    )
    return (
        f"x{width.during:.0f} generation {generation.during:.0f}"
        f" from x{lanes:.0f} generation {age:.0f}"
    )
