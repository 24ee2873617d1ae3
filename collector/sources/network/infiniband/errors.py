"""What went wrong on RDMA ports, and which adapters they are: read rarely, it asks the firmware."""

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.contract.words import OTHER, PORT_ERRORS
from lockstep.collector.files.persistent_fds import PersistentFds
from lockstep.collector.readings.source import Rejected, SourceError
from lockstep.collector.sources.network.infiniband import kinds, tree
from lockstep.collector.sources.network.infiniband.adapter_files import Files, Patience
from lockstep.collector.sources.network.infiniband.kinds import Saturation, is_saturated
from lockstep.collector.sources.zero_series_folding import ZeroSeriesFolding

_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)


@dataclass(frozen=True, slots=True)
class PortErrors:
    """A port's identity and errors; an empty word = not told, a kind left out = not kept.

    Attributes:
        words: By label of IB_INFO, without device and port.
        errors: Counts by kind, of PORT_ERRORS; those that never counted are 0 as OTHER.
        hardware: Counts by kind, of what is not read each second; OTHER likewise.
        saturated: Kinds whose registers stand at their maximum; they are in neither, nor in OTHER.
    """

    device: str
    port: str
    words: Mapping[str, str]
    errors: Mapping[str, int]
    hardware: Mapping[str, int]
    saturated: frozenset[str]


@dataclass(frozen=True, slots=True)
class ErrorsOfPorts:
    """Every port that is there."""

    ports: tuple[PortErrors, ...]
    rejected: tuple[Rejected, ...]


class InfinibandErrors:
    """Source of ErrorsOfPorts.

    Args:
        sys: Where sysfs is mounted.
        monotonic: Seconds of a clock that never goes back.
    """

    name = "infiniband_errors"

    def __init__(self, sys: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = sys / "class" / "infiniband"
        self._patience = Patience(str(self._root), monotonic)
        self._saturation = Saturation()
        self._folding = ZeroSeriesFolding()

    def available(self) -> bool:
        """Whether there is an RDMA device."""
        return self._root.is_dir()

    def why_not(self) -> str:
        """What is missing."""
        return f"no RDMA device under {self._root}"

    def read(self) -> ErrorsOfPorts:
        """Read every port; one that vanishes meanwhile is left out and counted."""
        trying, files = tree.Trying(), PersistentFds()
        places = tree.places(self._root, trying)
        self._saturation.keep(places)
        patient = self._patience.over(files)
        try:
            ports = [trying(self._port, place, patient, trying) for place in places]
        finally:
            files.close()  # half a minute is too long to hold a descriptor for each
        read = tuple(port for port in ports if port is not None)
        return ErrorsOfPorts(read, tuple(trying.rejected))

    def _port(self, place: tree.Place, files: Files, trying: tree.Trying) -> PortErrors:
        present = tree.present(place.folder)
        standing: set[str] = set()

        def counts(group: str, wanted: list[str]) -> dict[str, int]:
            names = [name for name in wanted if f"{group}/{name}" in present]
            told = {
                name: trying(tree.count, files, f"{place.folder}/{group}/{name}") for name in names
            }
            kept: dict[str, int] = {}
            for name, value in told.items():
                if value is not None and is_saturated(f"{group}/{name}", value):
                    standing.add(name)
                elif value is not None:
                    kept[name] = value
            return self._folding.fold(place, kept, kinds.ALONE.__contains__, lambda _: OTHER)

        layer = trying.unless_missing(tree.word, files, f"{place.folder}/link_layer")
        ethernet = layer == tree.ETHERNET
        errors = [
            kind for kind in PORT_ERRORS
            if not ethernet or kind in kinds.PORT_ERRORS_OF_ETHERNET
        ]  # fmt: skip
        hardware = kinds.TRANSPORT if layer == tree.INFINIBAND else kinds.HARDWARE
        port = PortErrors(
            place.device,
            place.port,
            {"link_layer": layer or ""} | self._words(place, files, trying),
            counts("counters", errors),
            counts("hw_counters", sorted(hardware - kinds.FAST)),
            frozenset(standing),
        )
        self._saturation.note(place, port.saturated, trying)
        return port

    def _words(self, place: tree.Place, files: Files, trying: tree.Trying) -> dict[str, str]:
        device = self._root / place.device
        words = {
            label: trying(optional, files, f"{device}/{name}") or ""
            for label, name in (
                ("board_id", "board_id"),
                ("firmware", "fw_ver"),
                ("hca_type", "hca_type"),
                ("numa", "device/numa_node"),
            )
        }
        if words["numa"] == "-1":  # the kernel's word for no place
            words["numa"] = ""
        address = os.path.basename(os.path.realpath(device / "device"))
        words["pci_bus_id"] = address if _PCI.fullmatch(address) else ""
        words["netdev"] = trying(netdev, files, device, place) or ""
        return words


def optional(files: Files, path: str) -> str:
    """A line of text; empty where the driver has no such file.

    Raises:
        SourceError: The file is there and does not hold a line of text.
    """
    try:
        return tree.word(files, path)
    except SourceError as error:
        if error.reason == "missing":
            return ""
        raise


def netdev(files: Files, device: Path, port: tree.Place) -> str:
    """The network device of a port: that of its adapter with the port's number, counted from 0.

    Empty where there is none, or several and none tells its number (`dev_port`, Linux 3.15).

    Raises:
        SourceError: What is there cannot be read.
    """
    try:
        names = tree.listed(device / "device" / "net")
    except SourceError as error:
        if error.reason == "missing":
            return ""
        raise
    number = str(int(port.port) - 1)
    own = [
        name for name in names
        if optional(files, f"{device}/device/net/{name}/dev_port") == number
    ]  # fmt: skip
    return (own or names)[0] if len(own or names) == 1 else ""
