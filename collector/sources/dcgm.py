"""GPUs through DCGM's own Python bindings, which come with DCGM and not from an index."""

import importlib
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from collector.contract import metrics as m
from collector.contract.dcgm import CLOCK_EVENTS_FIELD, DCGM_FIELDS
from collector.gpu_reading import CLOCK_EVENTS, Gpu, GpuReading, Telling
from collector.reading import Rejected, SourceError

INSTALLED = (
    Path("/usr/share/datacenter-gpu-manager-4/bindings/python3"),  # DCGM 4
    Path("/usr/local/dcgm/bindings/python3"),  # DCGM 3
)
HOST_ENGINE = "127.0.0.1"
IDENTITY = {50: "model", 53: "serial", 57: "pci_bus_id", 85: "vbios", 1: "driver"}
"""Fields that hold words, by label of GPU_INFO."""
UUID = 54
UPDATE_MICROSECONDS, KEEP_SECONDS, KEEP_SAMPLES = 1_000_000, 0.0, 1


class Bindings(NamedTuple):
    """DCGM's modules."""

    pydcgm: Any
    fields: Any
    structs: Any


class Dcgm:
    """Source of GpuReading; connects to the host engine that runs on this node.

    The bindings are looked for at every reading until they are there; a lost connection is made
    anew at the next.
    """

    name = "dcgm"

    def __init__(self, folders: Sequence[Path] = INSTALLED) -> None:
        self._folders = folders
        self._session: _Session | None = None

    def available(self) -> bool:
        """Whether the bindings are installed."""
        return "pydcgm" in sys.modules or any((one / "pydcgm.py").exists() for one in self._folders)

    def why_not(self) -> str:
        """What is missing."""
        return f"pydcgm is in none of {', '.join(str(one) for one in self._folders)}"

    def read(self) -> GpuReading:
        """The latest value of every field of every GPU.

        Raises:
            SourceError: The bindings cannot be imported, or the host engine does not answer.
        """
        try:
            if self._session is None:
                self._session = _Session(load(self._folders))
            return self._session.read()
        except SourceError:
            raise
        except Exception as error:
            self._session = None
            raise SourceError("host_engine", f"DCGM: {error!r}") from error


class _Session:
    """A connection with a watch on all fields of all GPUs."""

    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings
        self._handle = bindings.pydcgm.DcgmHandle(ipAddress=HOST_ENGINE)
        self._ids = self._handle.GetSystem().discovery.GetAllSupportedGpuIds()
        group = bindings.pydcgm.DcgmGroup(
            self._handle, groupName="lockstep", groupType=bindings.structs.DCGM_GROUP_EMPTY
        )
        for gpu in self._ids:
            group.AddGpu(gpu)
        numbers = [one.id for one in DCGM_FIELDS] + [CLOCK_EVENTS_FIELD[0], UUID, *IDENTITY]
        fields = bindings.pydcgm.DcgmFieldGroup(self._handle, "lockstep", numbers)
        group.samples.WatchFields(fields, UPDATE_MICROSECONDS, KEEP_SECONDS, KEEP_SAMPLES)
        self._group, self._fields = group, fields
        self._handle.GetSystem().UpdateAllFields(1)

    def read(self) -> GpuReading:
        known = self._handle.GetSystem().discovery.GetAllSupportedGpuIds()
        if list(known) != list(self._ids):
            raise RuntimeError("the GPUs have changed")
        latest = self._group.samples.GetLatest(self._fields).values
        gpus, rejected = [], []
        for index in self._ids:
            told = {number: series.values[-1] for number, series in latest.get(index, {}).items()}
            if not told:
                rejected.append(Rejected("no_data", f"DCGM has nothing of GPU {index}"))
                continue
            gpus.append(gpu(index, told))
        return GpuReading(tuple(gpus), tuple(rejected), present=len(self._ids))


def gpu(index: int, told: Mapping[int, Any]) -> Gpu:
    """A GPU from DCGM's values by field id; blank ones are left out."""
    values = {number: one.value for number, one in told.items() if not one.isBlank}
    said = Telling()
    for one in DCGM_FIELDS:
        number = values.get(one.id)
        if isinstance(number, (int, float)) and math.isfinite(number):
            said.tell(one.metric, number / one.per, "/".join(one.labels))
    events = values.get(CLOCK_EVENTS_FIELD[0])
    said.tell(CLOCK_EVENTS, events if isinstance(events, int) else None)
    if m.GPU_POWER.name not in said.values and m.GPU_POWER_AVERAGE.name in said.values:
        said.tell(m.GPU_POWER, said.values[m.GPU_POWER_AVERAGE.name][""])
    info = {label: str(values[number]) for number, label in IDENTITY.items() if number in values}
    return Gpu(index, str(values.get(UUID, "")), info=info, values=said.values)


def load(folders: Sequence[Path]) -> Bindings:
    """Import DCGM's modules from where they are installed.

    Raises:
        SourceError: They are not there, or do not load (libdcgm is missing, say).
    """
    folder = next((one for one in folders if (one / "pydcgm.py").exists()), None)
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        modules: list[ModuleType] = [
            importlib.import_module(name) for name in ("pydcgm", "dcgm_fields", "dcgm_structs")
        ]
    except (ImportError, OSError) as error:
        raise SourceError("bindings", f"DCGM's Python bindings do not load: {error}") from error
    return Bindings(*modules)
