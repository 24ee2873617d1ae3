"""A run's collectives in the formats of others, from the same clock reads as the ring's records.

A run on CPU has no NCCL. These files let its verdict by each source alone be compared: they hold
only what stands in NVIDIA's or torch's own lines, and their readers never see a ring.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lockstep.workloads.spec import RunSpec

if TYPE_CHECKING:
    import torch.distributed as dist

INSPECTOR, FLIGHT_RECORDER, SDK = "inspector", "flight-recorder", "sdk"
FORMATS: tuple[str, ...] = (INSPECTOR, FLIGHT_RECORDER, SDK)
"""Words of `--record`; the last is the ring alone, which every run has."""
INSPECTOR_FOLDER = "nccl-inspector"
FLIGHT_RECORDER_FOLDER = "flight-recorder"
"""Folders of the archive."""


class Timer(Protocol):
    """Is told of every operation of a rank, by its training thread."""

    def arrive(self, op: str, group: "dist.ProcessGroup", size: int, peer: int | None) -> Any:
        """An operation begins; what comes back is given to `complete`.

        Args:
            op: A name of words.OPS.
            group: Where.
            size: Bytes of the tensor: the whole array of all-gather and reduce-scatter.
            peer: Of a transfer, the other's rank in the group.
        """
        ...

    def complete(self, arrived: Any, begin_ns: int, end_ns: int) -> None:
        """It went from here to there, monotonic time."""
        ...

    def close(self) -> None:
        """No more comes."""
        ...


class Streams:
    """How long an operation was alone: NCCL runs those of one communicator one after the other.

    On gloo several are under way at once, and each waits for its own peers; on NCCL the next kernel
    begins when the last one ends, and that is what Inspector and torch time.
    """

    def __init__(self) -> None:
        self._ended: dict[str, int] = {}

    def seconds(self, group: str, begin_ns: int, end_ns: int) -> float:
        """Of the operation of this group that was told to have ended last."""
        before = self._ended.get(group, 0)
        self._ended[group] = max(before, end_ns)
        return max(0, end_ns - max(begin_ns, before)) / 1e9


def timers(spec: RunSpec, rank: int, node: str, archive: Path) -> tuple[Timer, ...]:
    """Those that `--record` asks for.

    Args:
        spec: Of the run.
        rank: Global rank.
        node: Name of its node, emulated or not.
        archive: Folder of the run's archive.

    Raises:
        OSError: A file cannot be made.
    """
    chosen: list[Timer] = []
    if INSPECTOR in spec.record:
        from lockstep.workloads.measure.inspector import InspectorLines

        chosen.append(InspectorLines(archive / INSPECTOR_FOLDER, node, spec.run))
    if FLIGHT_RECORDER in spec.record:
        from lockstep.workloads.measure.timed_flight_recorder import TimedFlightRecorder

        chosen.append(TimedFlightRecorder(archive / FLIGHT_RECORDER_FOLDER, rank))
    return tuple(chosen)
