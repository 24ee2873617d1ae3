"""MLBench's learning rate for task 1a: a warm-up to many workers, then halves on plateaus.

mlbench-benchmarks imagerecognition/cifar10-resnet20-all-reduce/main.py and mlbench-core
lr_scheduler/pytorch/lr.py (ReduceLROnPlateauWithWarmup), with the warm-up by step, which that class
can and its task does by epoch.
"""

import math

FACTOR = 0.5
THRESHOLD = 0.01
"""A loss counts as better if it is lower by more than this."""
PATIENCE = 1
"""Evaluations that may be no better before the rate is cut."""
COOLING = 1 / 3
"""Share of a short run's steps in which the rate goes to 0."""


class PlateauRate:
    """The rate of each step; every rank must be told the same losses.

    Args:
        least: Rate of one worker, and the lowest after cuts.
        workers: The rate goes to `least` times as many.
        epoch: Steps of an epoch; the warm-up is log2 of the workers, rounded down, epochs long.
        cooled_by: Steps of a run that is too short for plateaus, whose rate goes to 0 at its end,
            which MLBench's does not; None = as MLBench's.

    Attributes:
        cuts: How often the rate was halved.
    """

    def __init__(
        self, least: float, workers: int, epoch: float, cooled_by: int | None = None
    ) -> None:
        self._cooled_by = cooled_by
        self._least = least
        self._rate = least * workers
        self._warm_up = int(math.log2(workers)) * epoch
        self._best = math.inf
        self._worse = 0
        self.cuts = 0

    def __call__(self, step: int) -> float:
        """The rate of a step, from 0."""
        rate = self._rate
        if step < self._warm_up:
            rate = self._least + (self._rate - self._least) * step / self._warm_up
        if self._cooled_by is None:
            return rate
        left = max(0, self._cooled_by - step)
        return rate * min(1.0, left / (COOLING * self._cooled_by))

    def observe(self, step: int, loss: float) -> None:
        """The validation loss after a step; during the warm-up it says nothing."""
        if step + 1 < self._warm_up:
            return
        if loss < self._best - THRESHOLD:
            self._best, self._worse = loss, 0
            return
        self._worse += 1
        if self._worse > PATIENCE and self._rate > self._least:
            self._rate = max(self._least, self._rate * FACTOR)
            self._worse = 0
            self.cuts += 1
