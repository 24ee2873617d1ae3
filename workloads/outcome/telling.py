"""What the rank that knows the loss tells: a line in its log and a point in TensorBoard."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import torch

from lockstep.workloads.outcome.iteration_line import Iteration, iteration_line
from lockstep.workloads.outcome.peak import Peak
from lockstep.workloads.spec import RunSpec
from lockstep.workloads.tasks import find
from lockstep.workloads.trainable import Counts

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
        told, at = self._iteration(step, rate, float(norm), int(skipped)), self._now()
        print(iteration_line(told, at), flush=True)  # noqa: T201 - the rank's log
        if self._events is not None:
            self._events.write(told, at.timestamp())
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

    def write(self, told: Iteration, at: float) -> None:
        """Add a point to every curve.

        Args:
            told: The figures; their step is the number of completed ones.
            at: Unix time.
        """
        values = {
            told.loss_name: told.loss,
            "learning-rate": told.rate,
            "grad-norm": told.norm,
            "iteration-time": told.seconds,
            "samples-per-second-per-device": told.samples,
            f"throughput ({told.formula} TFLOP/s per device)": told.flops / 1e12,
        }
        if told.tokens:
            values["tokens-per-second-per-device"] = told.tokens
        if told.peak is not None and told.share is not None:
            values[f"{told.peak.words} ({told.formula})"] = told.share
        summary = self._summary(
            value=[self._summary.Value(tag=tag, simple_value=one) for tag, one in values.items()]
        )
        self._writer.add_event(self._event(wall_time=at, step=told.number, summary=summary))

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()
