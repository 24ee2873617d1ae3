"""Loaders of data: each fills a queue while its rank computes, and a step takes one batch of it."""

import numpy as np

from tests.benchmarks.foreign.effects import StepEffects
from tests.benchmarks.foreign.scenario import Scenario
from tests.benchmarks.simulated.arrays import Floats


class Loader:
    """State of the loaders of all ranks, (ranks,); those of the first stage alone load."""

    def __init__(self, scenario: Scenario, now: Floats) -> None:
        self._scenario = scenario
        self.restart(now)

    def restart(self, now: Floats) -> None:
        """With full queues."""
        self._batches = np.full(self._scenario.layout.ranks, float(self._scenario.habits.depth))
        self._since = now.copy()

    def fetch(self, step: int, now: Floats, effects: StepEffects, chance: Floats) -> Floats:
        """Seconds of the phase data: waiting for a batch and copying it to the device."""
        habits, layout = self._scenario.habits, self._scenario.layout
        step_seconds, work = self._scenario.length.step_seconds, habits.work[step]
        host = np.minimum(1, 0.3 + 0.7 * effects.host[layout.node])
        making = habits.loader_use * step_seconds * work * effects.worker
        making = making * effects.disk[layout.node] / host
        if habits.epochs and self._begins_an_epoch(step):
            making = making * 2.2
        there = np.minimum(habits.depth, self._batches + (now - self._since) / making)
        waiting = np.where(there < 1, (1 - there) * making, 0)
        self._batches = np.where(there < 1, 0, there - 1)
        loads = layout.pp_of == 0
        self._since = now + np.where(loads, waiting, 0)
        taking = np.where(loads, waiting + 0.003 * (1 + 0.3 * chance), 0.001)
        share = np.where(loads, 1, 0.3)
        copying: Floats = habits.to_device * step_seconds * work * effects.bus * share
        return taking + copying

    def _begins_an_epoch(self, step: int) -> bool:
        """A new file order is drawn and caches are cold."""
        steps = self._scenario.length.steps
        begins = [int(steps * share) for share in (0.25, 0.5, 0.75)]
        return any(begin <= step < begin + max(3, steps // 60) for begin in begins)
