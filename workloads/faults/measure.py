"""What an injected fault measurably did: its factor on the culprit's own time."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from lockstep.collector.contract import bounded_json
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.recording import WARMUP_STEPS

# Seconds that faults added to the steps of a rank, measured by the rank itself.
#
# They are written step by step, so that a rank that is killed leaves them too.


class Added:
    """What was added to the step that goes on, by fault.

    Args:
        path: A line a step that was held up: its number, and fault to seconds; None = nowhere.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._step: dict[str, float] = {}

    def add(self, asked: Mapping[Fault, float], seconds: float) -> None:
        """Faults that asked for so many seconds each took these together."""
        whole = sum(asked.values())
        for fault, each in asked.items():
            took = seconds * each / whole if whole > 0.0 else 0.0
            self._step[fault.spec] = self._step.get(fault.spec, 0.0) + took

    def end_step(self, step: int) -> None:
        """Write down what was added to it."""
        if self._step and self._path is not None:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("a")  # a rank may be started again
            seconds_by_spec = {spec: round(seconds, 6) for spec, seconds in self._step.items()}
            self._file.write(json.dumps([step, seconds_by_spec]) + "\n")
            self._file.flush()
        self._step = {}

    def close(self) -> None:
        """No more steps."""
        if self._file is not None:
            self._file.close()


def read_added(path: Path) -> dict[str, dict[str, list[float]]]:
    """Fault -> `steps` and `seconds`, as `Added` wrote them; a torn line is none.

    Raises:
        OSError: There is none: no fault has held this rank up.
    """
    added: dict[str, dict[str, list[float]]] = {}
    for step, seconds_by_spec in _lines(path.read_text().splitlines()):
        for spec, seconds in seconds_by_spec.items():
            columns = added.setdefault(spec, {"steps": [], "seconds": []})
            columns["steps"].append(step)
            columns["seconds"].append(seconds)
    return added


def _lines(lines: Iterable[str]) -> Iterable[tuple[int, Mapping[str, float]]]:
    for line in lines:
        try:
            step, seconds_by_spec = bounded_json.loads(line)
            yield int(step), {str(spec): float(each) for spec, each in seconds_by_spec.items()}
        except (ValueError, TypeError, AttributeError):
            continue


TRIM = 0.1
"""Share of the slowest and fastest steps left out of a mean: scheduler outliers."""
DRAWS = 1000
BLOCK = 5
"""Steps that are drawn together, because neighbours resemble each other."""
INTERVAL = (0.025, 0.975)

Steps = NDArray[np.int64]
Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Effect:
    """A fault's effect on own time, in the steps where it was in force.

    Attributes:
        factor: Own time per step over before, where all of the fault is in force: of a ramp, in
            its last step.
        low: Lower end of the 95 % interval of `factor`.
        high: Upper end.
        mean: Own time per step over before, over all steps in which it was in force.
        steps: Steps in force that were measured.
    """

    factor: float
    low: float
    high: float
    mean: float
    steps: int


def effect(fault: Fault, steps: Steps, own_seconds: Seconds) -> Effect | None:
    """Own time per step during the fault over before; None where one of them is missing.

    The interval is of a block bootstrap (Künsch 1989, Annals of Statistics 17): blocks of steps
    are drawn with replacement on either side, and the percentiles of the factor are its ends.

    Args:
        fault: The fault; its `factor` is what was intended.
        steps: (N,) step numbers of the culprit.
        own_seconds: (N,) its own time in those steps.
    """
    order = np.argsort(steps, kind="stable")
    steps, own_seconds = steps[order], own_seconds[order]
    strengths = np.array([fault.strength(int(step)) for step in steps])
    before = own_seconds[(steps >= WARMUP_STEPS) & (steps < fault.from_step)]
    during, strength = own_seconds[strengths > 0.0], strengths[strengths > 0.0]
    if not before.size or not during.size:
        return None
    mean = float(_trimmed_mean(during) / _trimmed_mean(before))
    if not math.isfinite(mean):
        return None
    dice = np.random.default_rng(before.size * 100_003 + during.size)
    drawn_before = before[_blocks(dice, before.size)]
    drawn = _blocks(dice, during.size)
    ratios = _trimmed_mean(during[drawn]) / _trimmed_mean(drawn_before)
    factors = _at_full(ratios, strength[drawn].mean(axis=-1))
    low, high = np.quantile(factors, INTERVAL)
    return Effect(
        factor=float(_at_full(mean, strength.mean())),
        low=float(low),
        high=float(high),
        mean=mean,
        steps=int(during.size),
    )


def _at_full(ratio: float | Seconds, strength: float | Seconds) -> float | Seconds:
    """The factor whose mean effect at these strengths is a ratio: the effect is linear in them."""
    return 1.0 + (ratio - 1.0) / strength


def _blocks(dice: np.random.Generator, size: int) -> NDArray[np.int64]:
    """(DRAWS, size) indices, in blocks that wrap around (Politis and Romano 1992)."""
    begins = dice.integers(size, size=(DRAWS, -(-size // BLOCK), 1))
    blocks = (begins + np.arange(BLOCK)) % size
    return blocks.reshape(DRAWS, -1)[:, :size]


def _trimmed_mean(values: Seconds) -> Seconds:
    """Along the last axis, without TRIM of either end."""
    ordered = np.sort(values, axis=-1)
    size = values.shape[-1]
    cut = int(TRIM * size)
    mean: Seconds = ordered[..., cut : size - cut].mean(axis=-1)
    return mean
