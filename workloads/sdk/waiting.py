"""A blocking collective that the program itself marks: what it takes is waiting, not own time."""

from dataclasses import dataclass
from time import monotonic_ns
from types import TracebackType
from typing import Self

from lockstep.collector.contract import ring
from lockstep.collector.contract.ring import NO_TAG
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import GROUP_INDEX, OP_INDEX
from lockstep.workloads.sdk.amounts import count
from lockstep.workloads.sdk.warning import shown, warn_about

NAMES: dict[tuple[str, str], str] = {
    ("dp", "all-reduce"): "dp-all-reduce",
    ("dp", "all-gather"): "params-all-gather",
    ("dp", "reduce-scatter"): "grads-reduce-scatter",
    ("tp", "all-reduce"): "tp-all-reduce",
    ("tp", "all-gather"): "tp-all-gather",
    ("tp", "reduce-scatter"): "tp-reduce-scatter",
    ("world", "all-reduce"): "world-all-reduce",
    ("world", "broadcast"): "world-broadcast",
    ("world", "barrier"): "world-barrier",
}
"""(group, kind) -> the operation of words.OPS; for others only the waiting is counted."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An operation and a group by their indices in the ring."""

    op: int
    group: int


def slot_of(group: str, kind: str) -> Slot | None:
    """None where the ring has no name for it; a group that does not exist is warned of."""
    if not isinstance(group, str) or group not in GROUP_INDEX:
        warn_about("group", lambda: f"there is no group {shown(group)}; only the waiting counts:"
                   f" {', '.join(GROUP_INDEX)}")  # fmt: skip
        return None
    if not isinstance(kind, str):
        warn_about(
            "kind",
            lambda: f"there is no kind {shown(kind)} of collective; only the waiting counts",
        )
        return None
    name = NAMES.get((group, kind))
    return None if name is None else Slot(OP_INDEX[name], GROUP_INDEX[group])


class Waiting:
    """A `with` block that is a blocking collective.

    Within another one it is a part of that. One that raises stays open in the ring: it says where
    the rank was lost.
    """

    __slots__ = ("_inner", "_recorder", "_since", "_size", "_slot")

    def __init__(self, recorder: StepRecorder, slot: Slot | None, size: int) -> None:
        self._recorder, self._slot = recorder, slot
        self._size = count(size, "bytes", ring.MOST_BYTES)
        self._since = 0
        self._inner = False

    def __enter__(self) -> Self:
        slot = self._slot
        self._inner = self._recorder.marking > 0
        self._recorder.marking += 1
        if self._inner:
            return self
        writer = self._recorder.writer
        self._since = monotonic_ns() if slot is None else writer.begin(slot.op, slot.group)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        slot, since = self._slot, self._since
        self._recorder.marking -= 1
        if self._inner:
            return
        self._recorder.marked += 1
        if slot is None:
            self._recorder.waited(monotonic_ns() - since)
        elif error is None:
            end = self._recorder.writer.end
            self._recorder.waited(end(slot.op, slot.group, since, self._size, NO_TAG))
