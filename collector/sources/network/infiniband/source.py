"""What RDMA ports carry and how congested they are, from /sys/class/infiniband, each second.

Most of these files are questions to the adapter's firmware (up to milliseconds each), so that only
what changes within a step is asked here; errors and names are `errors.InfinibandErrors`, read every
half minute. The driver answers all of a port's `hw_counters/` from one question (10 ms of cache).
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.files.persistent_fds import PersistentFds
from lockstep.collector.readings.source import Rejected, SourceError
from lockstep.collector.sources.network.infiniband import kinds, tree
from lockstep.collector.sources.network.infiniband.adapter_files import Files, Patience
from lockstep.collector.sources.network.infiniband.kinds import Saturation, is_saturated

PLAN_READINGS = 60
"""Readings between two looks at which counters a port has: a driver adds them after the port, and
optional ones when asked to (`rdma statistic set`)."""

_STATE = re.compile(r"([0-9]{1,2}): [A-Za-z0-9_ /-]+", re.ASCII)
_NOT_TOLD = "0: <unknown>"
"""Physical state of a port whose driver does not tell it (drivers/infiniband/core/sysfs.c)."""
_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) Gb/sec(?: .*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Port:
    """A port now; None or a kind left out = it did not answer.

    Attributes:
        state: 1 down to 4 active.
        physical_state: 5 is link up.
        rate: Bytes a second.
        data: Bytes by direction.
        packets: By direction.
        xmit_wait: Ticks without credit.
        hardware: Counts by kind, of FAST.
        saturated: Names of registers that stand at their maximum; they are not among the counts.
    """

    device: str
    port: str
    state: int | None
    physical_state: int | None
    rate: float | None
    data: Mapping[str, int]
    packets: Mapping[str, int]
    xmit_wait: int | None
    hardware: Mapping[str, int]
    saturated: frozenset[str]


@dataclass(frozen=True, slots=True)
class Ports:
    """Every port that is there."""

    ports: tuple[Port, ...]
    rejected: tuple[Rejected, ...]


class _Plan(NamedTuple):
    """Files of a port that exist, and how much one count of each is."""

    data: kinds.Counts
    packets: kinds.Counts
    xmit_wait: kinds.Counts
    hardware: kinds.Counts


class Infiniband:
    """Source of Ports.

    Args:
        sys: Where sysfs is mounted.
        monotonic: Seconds of a clock that never goes back.
    """

    name = "infiniband"

    def __init__(self, sys: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = sys / "class" / "infiniband"
        self._files = PersistentFds()
        self._patient = Patience(str(self._root), monotonic).over(self._files)
        self._saturation = Saturation()
        self._plans: dict[tree.Place, _Plan] = {}
        self._before: set[tree.Place] = set()
        self._readings = 0

    def available(self) -> bool:
        """Whether there is an RDMA device."""
        return self._root.is_dir()

    def why_not(self) -> str:
        """What is missing."""
        return f"no RDMA device under {self._root}"

    def read(self) -> Ports:
        """Read every port; one that vanishes meanwhile is left out and counted."""
        trying = tree.Trying()
        places = tree.places(self._root, trying)
        if self._readings % PLAN_READINGS == 0:
            self._plans.clear()
        self._readings += 1
        for gone in self._before - set(places):
            self._plans.pop(gone, None)
            self._files.close_below(gone.folder)
        self._before = set(places)
        self._saturation.keep(places)
        ports = [trying(self._port, place, trying) for place in places]
        return Ports(tuple(port for port in ports if port is not None), tuple(trying.rejected))

    def close(self) -> None:
        """Close what is kept open."""
        self._files.close()

    def _port(self, place: tree.Place, trying: tree.Trying) -> Port:
        folder, files = place.folder, self._patient
        state = trying.unless_missing(_state, files, f"{folder}/state")
        plan = self._plans.get(place)
        if plan is None:
            layer = trying(tree.word, files, f"{folder}/link_layer")
            plan = self._plans[place] = _plan(tree.present(folder), layer)

        standing: set[str] = set()

        def counts(wanted: kinds.Counts) -> dict[str, int]:
            told: dict[str, int] = {}
            for name, (file, factor) in wanted.items():
                count = trying(tree.count, files, f"{folder}/{file}")
                if count is None:
                    continue
                if is_saturated(file, count):
                    standing.add(file.rpartition("/")[2])
                else:
                    told[name] = count * factor
            return told

        port = Port(
            place.device,
            place.port,
            state,
            trying(_physical_state, files, f"{folder}/phys_state"),
            trying(_rate, files, f"{folder}/rate"),
            counts(plan.data),
            counts(plan.packets),
            counts(plan.xmit_wait).get(""),
            counts(plan.hardware),
            frozenset(standing),
        )
        self._saturation.note(place, port.saturated, trying)
        return port


def _plan(present: frozenset[str], layer: str | None) -> _Plan:
    def first(wanted: Mapping[str, kinds.Places]) -> kinds.Counts:
        found = {name: [one for one in places if one[0] in present]
                 for name, places in wanted.items()}  # fmt: skip
        return {name: places[0] for name, places in found.items() if places}

    wanted = kinds.FAST if layer != tree.INFINIBAND else kinds.FAST - kinds.CONGESTION
    hardware = {kind: ((f"hw_counters/{kind}", 1),) for kind in sorted(wanted)}
    return _Plan(
        first(kinds.DATA), first(kinds.PACKETS), first({"": kinds.XMIT_WAIT}), first(hardware)
    )


def _state(files: Files, path: str) -> int:
    text = tree.word(files, path)
    match = _STATE.fullmatch(text)
    if match is None:
        raise SourceError("content", f"{path} is {text[:24]!r}, no state, as 4: ACTIVE")
    return int(match[1])


def _physical_state(files: Files, path: str) -> int | None:
    return None if tree.word(files, path) == _NOT_TOLD else _state(files, path)


def _rate(files: Files, path: str) -> float:
    text = tree.word(files, path)
    match = _RATE.fullmatch(text)
    if match is None:
        raise SourceError("content", f"{path} is {text[:24]!r}, no rate, as 400 Gb/sec (4X NDR)")
    return float(match[1]) * 1e9 / 8
