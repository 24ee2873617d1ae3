"""Progress of a run, from the rank that knows the loss: lines of its log, points in TensorBoard."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import torch

from lockstep.workloads.loop.trainable import Counts
from lockstep.workloads.measure.peak import Peak
from lockstep.workloads.spec import RunSpec
from lockstep.workloads.tasks.registry import find

# The log line of a step has the form of Megatron-LM's, which existing tools read.


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


def iteration_line(iteration: Iteration, at: datetime) -> str:
    """One line, as training_log of Megatron-LM's training.py writes it.

    What is our own stands at the end: Megatron-LM knows no peak. Its counts of skipped and NaN
    iterations are of one interval; ours are of the whole run.
    """
    tera = iteration.flops / 1e12
    loss = (
        f" {iteration.loss_name}: {iteration.loss:.6E} |" if math.isfinite(iteration.loss) else ""
    )
    line = (
        f" [{at:%Y-%m-%d %H:%M:%S}] iteration {iteration.number:8d}/{iteration.of:8d} |"
        f" consumed samples: {iteration.consumed:12d} |"
        f" elapsed time per iteration (ms): {1e3 * iteration.seconds:.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {tera:.{1 if tera >= 1 else 6}f} |"
        f" learning rate: {iteration.rate:.6E} | global batch size: {iteration.batch:5d} |{loss}"
        f" loss scale: {1.0:.1f} | grad norm: {iteration.norm:.3f} |"
        f" number of skipped iterations: {iteration.skipped:3d} |"
        f" number of nan iterations: {iteration.nans:3d} |"
    )
    if iteration.peak is None or iteration.share is None:
        return line
    return f"{line} {iteration.peak.words} (%, {iteration.formula}): {100 * iteration.share:.2f} |"


LINE_STEPS = 10
"""Steps between two lines; only then is anything read back from the device."""


def utc_now() -> datetime:
    """Wall time, UTC."""
    return datetime.now(UTC)


class Teller:
    """Collects steps and tells of them every LINE_STEPS.

    Args:
        counts: Of this rank in a step.
        peak: Of one device; None = unknown.
        events: Folder of the TensorBoard files; None = none are written.
    """

    def __init__(
        self, spec: RunSpec, counts: Counts, peak: Peak | None, events: Path | None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:  # fmt: skip
        self._spec = spec
        self._counts = counts
        self._formula = find(spec.workload).formula
        self._peak = peak
        self._events = None if events is None else EventFiles(events)
        self._now = now
        self._seconds: list[float] = []
        self._losses: list[float] = []
        self._nans = 0

    def step(
        self, step: int, seconds: float, loss: float, rate: float, norm: torch.Tensor,
        skipped: torch.Tensor,
    ) -> None:  # fmt: skip
        """A step is done; `norm` and `skipped` may still be on their way on the device."""
        self._seconds.append(seconds)
        if math.isfinite(loss):
            self._losses.append(loss)
        else:
            self._nans += 1
        if (step + 1) % LINE_STEPS:
            return
        iteration, at = self._iteration(step, rate, float(norm), int(skipped)), self._now()
        print(iteration_line(iteration, at), flush=True)  # noqa: T201 - the rank's log
        if self._events is not None:
            self._events.write(iteration, at.timestamp())
        self._seconds.clear()
        self._losses.clear()

    def close(self) -> None:
        """Close the files; steps since the last line are not told."""
        if self._events is not None:
            self._events.close()

    def _iteration(self, step: int, rate: float, norm: float, skipped: int) -> Iteration:
        spec, counts, seconds = self._spec, self._counts, fmean(self._seconds)
        batch = spec.batch
        device_seconds = seconds * spec.layout.world / spec.layout.dp
        return Iteration(
            number=step + 1, of=spec.steps, batch=batch, consumed=(step + 1) * batch,
            seconds=seconds, tokens=counts.tokens / device_seconds,
            samples=counts.samples / device_seconds, flops=counts.flops / seconds, peak=self._peak,
            rate=rate, loss=fmean(self._losses) if self._losses else math.nan, norm=norm,
            skipped=skipped, nans=self._nans,
            formula=self._formula,
        )  # fmt: skip


FLUSH_SECONDS = 1
"""A rank that is ended loses no more of its curves."""


class EventFiles:
    """Writes a folder that TensorBoard reads; a thread of tensorboardX does the writing.

    Raises:
        OSError: The folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboardX.event_file_writer import EventFileWriter
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        self._event, self._summary = Event, Summary
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = EventFileWriter(str(folder), flush_secs=FLUSH_SECONDS)

    def write(self, iteration: Iteration, at: float) -> None:
        """Add a point to every curve.

        Args:
            iteration: The figures; their step is the number of completed ones.
            at: Unix time.
        """
        values = {
            iteration.loss_name: iteration.loss,
            "learning-rate": iteration.rate,
            "grad-norm": iteration.norm,
            "iteration-time": iteration.seconds,
            "samples-per-second-per-device": iteration.samples,
            f"throughput ({iteration.formula} TFLOP/s per device)": iteration.flops / 1e12,
        }
        if iteration.tokens:
            values["tokens-per-second-per-device"] = iteration.tokens
        if iteration.peak is not None and iteration.share is not None:
            values[f"{iteration.peak.words} ({iteration.formula})"] = iteration.share
        summary = self._summary(
            value=[self._summary.Value(tag=tag, simple_value=one) for tag, one in values.items()]
        )
        self._writer.add_event(self._event(wall_time=at, step=iteration.number, summary=summary))

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()
