"""TensorBoard event files of a run; the tags are Megatron-LM's where it has one."""

from pathlib import Path

from workloads.outcome.iteration_line import Iteration

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
