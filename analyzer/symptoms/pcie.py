"""The way from the host to the GPU: lanes, generation, and packets that were sent again."""

import numpy as np

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.before_after import gpu_words, query, signal_before_after
from analyzer.symptoms.make import symptom
from analyzer.symptoms.series import Level, level, total
from analyzer.symptoms.shape import Symptom
from collector.contract import metrics

REPLAYS_PER_SECOND = 0.2
"""A healthy link replays next to nothing (bit errors at 1e-12, PCIe base specification): one in
five seconds beyond before and the peers is a bad link."""
NARROW = 0.9
WIDTH, GENERATION = metrics.GPU_PCIE_WIDTH.series(), metrics.GPU_PCIE_GENERATION.series()
REPLAY = metrics.GPU_PCIE_REPLAY.name


def pcie(grid: Grid, finding: Finding) -> Symptom | None:
    """The link of the rank's GPU; None if it does not tell.

    Width and generation may fall on an idle link, so both are judged against before and against
    the peers in the same windows, and never against the maximum.
    """
    speed = _speed(grid)
    told = level(grid, finding, speed)
    replays = level(grid, finding, total(grid, REPLAY))
    if told is None and replays is None:
        return None
    gpu = gpu_words(grid, finding.rank)
    again = "" if replays is None or not _many(replays) else (
        f" and sent {replays.during:.0f} packets a second again"
    )  # fmt: skip
    if told is not None and speed is not None and told.during < NARROW * _normal(told):
        words = f"{gpu}'s PCIe link fell to {_words(grid, finding, told)}{again}"
        level_told = Level(_normal(told), told.during, told.peers)
        return symptom(grid, finding, speed, level_told, text=words,
                       query=query(grid, finding, WIDTH), seen=True)  # fmt: skip
    cells = total(grid, REPLAY)
    if replays is not None and cells is not None and _many(replays):
        words = f"{gpu}'s PCIe link sent {replays.during:.0f} packets a second again"
        return symptom(grid, finding, cells, replays, text=words,
                       query=query(grid, finding, REPLAY), seen=True, grave=False)  # fmt: skip
    return Symptom(False, f"{gpu}'s PCIe link kept its width and generation",
                   query(grid, finding, WIDTH))  # fmt: skip


def _speed(grid: Grid) -> FloatGrid | None:
    """(W, R) what the link can carry, in lanes of generation 1: twice as much a generation."""
    width, generation = total(grid, WIDTH), total(grid, GENERATION)
    if width is None:
        return None
    return width if generation is None else width * np.exp2(generation - 1.0)


def _words(grid: Grid, finding: Finding, told: Level) -> str:
    """Lanes and generation, now and normally; medians, because there are no lanes between."""
    width, generation = (
        signal_before_after(grid, finding, WIDTH),
        signal_before_after(grid, finding, GENERATION),
    )
    if width is None or generation is None:
        return f"{told.during / _normal(told):.2f} of what it carried"
    before = np.isfinite(width.before)
    lanes = width.before if before else width.peers
    age = generation.before if before else generation.peers
    return (
        f"x{width.during:.0f} generation {generation.during:.0f}"
        f" from x{lanes:.0f} generation {age:.0f}"
    )


def _normal(told: Level) -> float:
    """Before, where that is known: peers may have other slots."""
    return told.before if np.isfinite(told.before) else told.peers


def _many(told: Level) -> bool:
    return told.during >= REPLAYS_PER_SECOND and told.during > 2.0 * told.other
