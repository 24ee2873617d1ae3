"""The way from the host to the GPU: lanes, generation, and packets that were sent again."""

from dataclasses import replace

import numpy as np

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.before_after import gpu_words, query
from analyzer.symptoms.make import EVENTS, MILD, WHOLE, deviations, symptom
from analyzer.symptoms.series import Level, level, total
from analyzer.symptoms.shape import Symptom
from collector.contract import metrics

WIDTH, GENERATION = metrics.GPU_PCIE_WIDTH.series(), metrics.GPU_PCIE_GENERATION.series()
REPLAY = metrics.GPU_PCIE_REPLAY.name


def pcie(grid: Grid, finding: Finding) -> Symptom | None:
    """The link of the rank's GPU; None if it does not tell.

    Width and generation may fall on an idle link, so both are judged against before and against
    the peers in the same windows, and never against the maximum.
    """
    speed, sent = _speed(grid), total(grid, REPLAY)
    told, replays = level(grid, finding, speed), level(grid, finding, sent)
    if told is None and replays is None:
        return None
    gpu = gpu_words(grid, finding.rank)
    silent = f"{gpu}'s PCIe link kept its width and generation"
    many = replays is not None and deviations(replays, EVENTS) >= MILD
    counted = f"sent {replays.during:.0f} packets a second again" if replays is not None else ""
    if told is not None and np.isfinite(told.before):
        told = replace(told, peers=float("nan"))  # they may have other slots
    if told is not None and speed is not None and deviations(told, WHOLE) >= MILD:
        words = f"{gpu}'s PCIe link fell to {_words(grid, finding, told)}"
        return symptom(grid, finding, speed, told, WHOLE,
                       text=words + f" and {counted}" * many,
                       query=query(grid, finding, WIDTH))  # fmt: skip
    if replays is None or sent is None:
        return Symptom(False, silent, query(grid, finding, WIDTH))
    return symptom(grid, finding, sent, replays, EVENTS, silent=silent, mild=True,
                   text=f"{gpu}'s PCIe link {counted}",
                   query=query(grid, finding, REPLAY if many else WIDTH))  # fmt: skip


def _speed(grid: Grid) -> FloatGrid | None:
    """(W, R) what the link can carry, as the binary logarithm of lanes of generation 1.

    Lanes come in powers of two, and a generation carries twice the one before: each is one less.
    """
    width, generation = total(grid, WIDTH), total(grid, GENERATION)
    if width is None:
        return None
    lanes = np.log2(np.where(width > 0, width, np.nan))
    return lanes if generation is None else lanes + generation - 1.0


def _words(grid: Grid, finding: Finding, told: Level) -> str:
    """Lanes and generation, now and normally; whole ones, because there are none between."""
    width, generation = (level(grid, finding, total(grid, name)) for name in (WIDTH, GENERATION))
    if width is None or generation is None:
        return f"{2 ** (told.during - told.usual(lower=True)):.2f} of what it carried"
    before = np.isfinite(width.before)
    lanes = width.before if before else width.peers
    age = generation.before if before else generation.peers
    return (
        f"x{width.during:.0f} generation {generation.during:.0f}"
        f" from x{lanes:.0f} generation {age:.0f}"
    )
