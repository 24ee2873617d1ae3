"""Throughput by horovod's synthetic benchmark, from the times of steps.

Protocol: horovod examples/pytorch/pytorch_synthetic_benchmark.py: 10 batches to warm up, then 10
iterations of 10 batches; each iteration's rate is one measurement.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev, stdev
from typing import Any

WARMUP_STEPS = 10
ITERATIONS = 10
STEPS_PER_ITERATION = 10
STEPS = WARMUP_STEPS + ITERATIONS * STEPS_PER_ITERATION
HOROVOD_DEVIATIONS = 1.96
STUDENT_T = 2.262157
"""97.5 % point of Student's t with ITERATIONS - 1 = 9 degrees of freedom."""


class ThroughputError(ValueError):
    """There is nothing to measure; the message says how much is needed."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Samples per second of one rank.

    Attributes:
        rates: One an iteration.
        ranks: Of the run; each has the same share of the samples.
        device: `GPU`, or `rank` where ranks have none.
        sample: What a sample is, in the singular: horovod's `Img`.
    """

    rates: tuple[float, ...]
    ranks: int
    device: str
    sample: str

    @property
    def mean(self) -> float:
        """Of one rank."""
        return fmean(self.rates)

    @property
    def horovod_spread(self) -> float:
        """1.96 standard deviations of an iteration, as horovod prints behind `+-`.

        It tells how much iterations vary. It is no confidence interval of the mean.
        """
        return HOROVOD_DEVIATIONS * pstdev(self.rates)

    @property
    def confidence_interval(self) -> tuple[float, float]:
        """95 % interval of the mean, by Student's t over the iterations."""
        half = STUDENT_T * stdev(self.rates) / math.sqrt(len(self.rates))
        return self.mean - half, self.mean + half

    def lines(self) -> list[str]:
        """Horovod's lines, then ours with the interval."""
        name, device = self.sample, self.device
        total, spread = self.ranks * self.mean, self.ranks * self.horovod_spread
        low, high = self.confidence_interval
        return [
            *(
                f"Iter #{place}: {rate:.1f} {name.lower()}/sec per {device}"
                for place, rate in enumerate(self.rates)
            ),
            f"{name}/sec per {device}: {self.mean:.1f} +-{self.horovod_spread:.1f}",
            f"Total {name.lower()}/sec on {self.ranks} {device}(s): {total:.1f} +-{spread:.1f}",
            f"95 % confidence interval of the mean per {device}: {low:.1f} to {high:.1f}",
        ]

    def to_json(self) -> dict[str, Any]:
        """As JSON types; samples per second of one rank, but for `total`."""
        low, high = self.confidence_interval
        return {
            "sample": self.sample,
            "samples_per_second_per_rank": self.mean,
            "horovod_spread": self.horovod_spread,
            "confidence_interval_95": [low, high],
            "total_samples_per_second": self.ranks * self.mean,
            "ranks": self.ranks,
            "iterations": list(self.rates),
        }


def measured(
    seconds: Sequence[float], samples: float, ranks: int, *, gpu: bool, sample: str = "Img"
) -> Throughput:
    """The throughput of a run's first steps.

    Args:
        seconds: Of each step of one rank, from the first; STEPS of them count. Leave out those
            that are slow by design (evaluation, checkpoint).
        samples: Of one rank in a step; a share of one where ranks train on one together.
        gpu: Whether ranks have one.

    Raises:
        ThroughputError: There are too few steps, or one took no time.
    """
    if len(seconds) < STEPS:
        raise ThroughputError(
            f"{len(seconds)} steps are too few for a throughput; {STEPS} are needed:"
            f" {WARMUP_STEPS} to warm up and {ITERATIONS} x {STEPS_PER_ITERATION}"
        )
    counted = seconds[WARMUP_STEPS:STEPS]
    wrong = next((value for value in counted if not (math.isfinite(value) and value > 0)), None)
    if wrong is not None:
        raise ThroughputError(f"a step took {wrong} seconds; it must take more than 0")
    rates = tuple(
        samples * STEPS_PER_ITERATION / math.fsum(counted[first : first + STEPS_PER_ITERATION])
        for first in range(0, len(counted), STEPS_PER_ITERATION)
    )
    return Throughput(rates, ranks, "GPU" if gpu else "rank", sample)
