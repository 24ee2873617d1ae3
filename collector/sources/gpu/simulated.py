"""The simulated GPUs of emulated devices, from the state files their ranks write."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from lockstep.collector.clock import Clock
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.device import (
    ECC_COUNTS,
    MAX_AGE_SECONDS,
    MOST_LINKS,
    NVLINK_ERRORS,
    REMAP_CAUSES,
    DeviceState,
    file_name,
)
from lockstep.collector.contract.words import CLOCK_EVENT_REASONS
from lockstep.collector.contract.xid import XIDS
from lockstep.collector.files.finder import find
from lockstep.collector.files.opening import process_lives, read_bytes
from lockstep.collector.readings.source import Rejected, SourceError

LIMIT = 64 * 1024
MAX_GPUS = 64
_KNOWN: Mapping[str, frozenset[str]] = {
    "clock_event_seconds": frozenset(CLOCK_EVENT_REASONS),
    "clock_event_active": frozenset(CLOCK_EVENT_REASONS),
    "ecc_errors": frozenset(ECC_COUNTS),
    "remapped_rows": frozenset(REMAP_CAUSES),
    "nvlink_up": frozenset(str(link) for link in range(MOST_LINKS)),
    "nvlink_errors": frozenset(NVLINK_ERRORS),
    "xid_errors": frozenset(str(number) for number in XIDS),
    "xid_last": frozenset(str(number) for number in XIDS),
}
"""Words that may stand in a field: they become labels."""


@dataclass(frozen=True, slots=True)
class SimulatedReading:
    """What the simulated GPUs of this node tell, by index and uuid.

    Attributes:
        gpus: Fresh states of those whose rank lives.
        rejected: Files that are no states.
        logged: States of this boot that hold XIDs, also of ranks that are gone.
    """

    gpus: tuple[DeviceState, ...]
    rejected: tuple[Rejected, ...]
    logged: tuple[DeviceState, ...] = ()


class SimulatedGpus:
    """Source of SimulatedReading."""

    name = "simulated"

    def __init__(self, lockstep_dir: Path, proc: Path, clock: Clock) -> None:
        self._dir = lockstep_dir
        self._proc = proc
        self._clock = clock

    def available(self) -> bool:
        """Whether there is, or lately was, a simulated GPU on this node."""
        return bool(find(self._dir, "gpu-", ".json")[0])

    def why_not(self) -> str:
        """What is missing."""
        return f"no rank with an emulated device has written to {self._dir}"

    def read(self) -> SimulatedReading:
        """Read every state file; one that is old or whose process is gone is left out."""
        paths, rejected = find(self._dir, "gpu-", ".json")
        if len(paths) > MAX_GPUS:
            rejected.append(
                Rejected("too_many", f"{len(paths)} simulated GPUs; {MAX_GPUS} are read")
            )
        gpus: dict[tuple[int, str], DeviceState] = {}
        logged: dict[tuple[int, str], DeviceState] = {}
        for path in paths[:MAX_GPUS]:
            try:
                state = parse(read_bytes(path, LIMIT))
                if path.name != file_name(state["gpu"]):
                    raise SourceError("content", f"it says that it is GPU {state['gpu']}")
                age = self._clock.monotonic() - state["time_ns"] / 1e9
                who = state["gpu"], state["uuid"]
                # A time ahead of the clock is of another boot.
                if age > -1.0 and state["xid_errors"]:
                    logged[who] = state
                if -1.0 < age <= MAX_AGE_SECONDS and process_lives(self._proc, state["pid"]):
                    gpus[who] = state
            except SourceError as error:
                if error.reason != "missing":  # removed between listing and opening
                    rejected.append(Rejected(error.reason, f"{path}: {error}"))
        fresh, told = (tuple(each[key] for key in sorted(each)) for each in (gpus, logged))
        return SimulatedReading(fresh, tuple(rejected), told)


def parse(raw: bytes) -> DeviceState:
    """A state file's content, checked field by field.

    Raises:
        SourceError: It is not JSON, or a field is missing, of another type or not finite.
    """
    try:
        data = bounded_json.loads(raw)
    except ValueError as error:
        raise SourceError("content", f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise SourceError("content", "not a JSON object")
    for name, kind in get_type_hints(DeviceState).items():
        if name not in data or not _is(kind, data[name]):
            raise SourceError("content", f"field {name} is missing or is not {kind}")
    if min(data["gpu"], data["pid"], data["time_ns"]) < 0:
        raise SourceError("content", "gpu, pid or time_ns is below zero")
    for name, known in _KNOWN.items():
        if not known.issuperset(data[name]):
            raise SourceError("content", f"field {name} holds a word that is none of its own")
    if data["xid_errors"].keys() != data["xid_last"].keys():
        raise SourceError("content", "an XID has a count or a time, not both")
    state: DeviceState = data  # type: ignore[assignment]
    return state


def _is(kind: Any, value: Any) -> bool:
    if kind is int:
        return type(value) is int and abs(value) < 1 << 63
    if kind is str:
        return isinstance(value, str) and len(value) <= 64 and value.isprintable()
    if kind is float:
        return _is(int, value) or (type(value) is float and math.isfinite(value))
    if kind == dict[str, float]:
        return isinstance(value, Mapping) and all(_is(float, number) for number in value.values())
    return isinstance(value, list) and all(_is(str, text) for text in value)
