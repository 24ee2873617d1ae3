"""The log line of a step in Megatron-LM's words, which its users and their tools can read."""

import math
from dataclasses import dataclass
from datetime import datetime

from lockstep.workloads.outcome.peak import Peak


@dataclass(frozen=True, slots=True)
class Iteration:
    """What is told of the steps since the last line.

    Attributes:
        number: Completed steps.
        of: Steps of the run.
        batch: Sequences of all replicas in a step.
        consumed: Sequences so far.
        seconds: Mean wall time of a step.
        tokens: Tokens per second and device; 0 = the task has none.
        samples: Samples per second and device.
        flops: Model FLOPs per second and device, by `formula`.
        peak: What the device could do; None = unknown.
        loss: Mean loss of the first replica's tokens; NaN where no step had a finite one.
        norm: The gradients' norm before clipping, of the last step.
        skipped: Steps so far whose gradients were not finite, and that changed nothing.
        nans: Steps so far whose loss was not finite.
        formula: How model FLOPs are counted.
    """

    number: int
    of: int
    batch: int
    consumed: int
    seconds: float
    tokens: float
    samples: float
    flops: float
    peak: Peak | None
    rate: float
    loss: float
    norm: float
    skipped: int
    nans: int
    formula: str

    @property
    def loss_name(self) -> str:
        """As Megatron-LM calls it where tokens are predicted."""
        return "lm loss" if self.tokens else "loss"

    @property
    def share(self) -> float | None:
        """Of the peak, as a ratio."""
        return None if self.peak is None else self.flops / self.peak.flops


def iteration_line(told: Iteration, at: datetime) -> str:
    """One line, as training_log of Megatron-LM's training.py writes it.

    What is our own stands at the end: Megatron-LM knows no peak. Its counts of skipped and NaN
    iterations are of one interval; ours are of the whole run.
    """
    tera = told.flops / 1e12
    loss = f" {told.loss_name}: {told.loss:.6E} |" if math.isfinite(told.loss) else ""
    line = (
        f" [{at:%Y-%m-%d %H:%M:%S}] iteration {told.number:8d}/{told.of:8d} |"
        f" consumed samples: {told.consumed:12d} |"
        f" elapsed time per iteration (ms): {1e3 * told.seconds:.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {tera:.{1 if tera >= 1 else 6}f} |"
        f" learning rate: {told.rate:.6E} | global batch size: {told.batch:5d} |{loss}"
        f" loss scale: {1.0:.1f} | grad norm: {told.norm:.3f} |"
        f" number of skipped iterations: {told.skipped:3d} |"
        f" number of nan iterations: {told.nans:3d} |"
    )
    if told.peak is None or told.share is None:
        return line
    return f"{line} {told.peak.words} (%, {told.formula}): {100 * told.share:.2f} |"
