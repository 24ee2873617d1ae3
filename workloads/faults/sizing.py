"""How long a fault must hold a rank up so that its own time becomes what was asked for."""

from collections import deque

from workloads.faults.plan import Fault

BASELINE_STEPS = 1000
TRIM = 0.1
"""Share of the slowest and fastest healthy steps left out, as measure.py does."""
LEARNING = 0.1
"""Share of a step's error that the next one makes up for."""
MOST_LEARNT = 0.5
"""By how much of itself a fault's size is corrected at most."""
OUTLIER = 0.5
"""A step that misses its aim by more of it (a checkpoint, an evaluation) teaches nothing."""


class Sizing:
    """Healthy own time, and the size of faults on it, corrected from what the steps really take."""

    def __init__(self) -> None:
        self._healthy: deque[float] = deque(maxlen=BASELINE_STEPS)
        self._mean: float | None = None
        self._learnt: dict[Fault, float] = {}

    def learn_healthy(self, own_seconds: float) -> None:
        """A step without a fault took so long."""
        self._healthy.append(own_seconds)
        self._mean = None

    @property
    def is_known(self) -> bool:
        """Whether there is a baseline yet."""
        return bool(self._healthy)

    @property
    def baseline(self) -> float:
        """Healthy own seconds of a step."""
        if self._mean is None:
            ordered = sorted(self._healthy)
            cut = int(TRIM * len(ordered))
            kept = ordered[cut : len(ordered) - cut]
            self._mean = sum(kept) / len(kept)
        return self._mean

    def wanted(self, fault: Fault, step: int) -> float:
        """Own seconds that a step should take."""
        assert fault.factor is not None
        return self.baseline * (1.0 + (fault.factor - 1.0) * fault.strength(step))

    def added(self, fault: Fault, step: int) -> float:
        """Seconds by which the fault should hold the step up."""
        return (self.wanted(fault, step) - self.baseline) * (1.0 + self._learnt.get(fault, 0.0))

    def learn(self, fault: Fault, step: int, own_seconds: float) -> None:
        """The only fault in force made a step take so long."""
        wanted = self.wanted(fault, step)
        error = wanted - own_seconds
        if wanted <= self.baseline or abs(error) > OUTLIER * wanted:
            return
        assert fault.factor is not None
        whole = self.baseline * (fault.factor - 1.0)
        learnt = self._learnt.get(fault, 0.0) + LEARNING * fault.strength(step) * error / whole
        self._learnt[fault] = min(MOST_LEARNT, max(-MOST_LEARNT, learnt))
