"""GPUs through DCGM's host engine on this node, whose MIG instances stand beside them."""

import importlib
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from lockstep.collector.clock import Clock
from lockstep.collector.readings.gpu import Gpu, GpuReading
from lockstep.collector.readings.source import IMPLAUSIBLE, Rejected, SourceError
from lockstep.collector.sources.dcgm_fields import DCGM_FIELDS, RAW_FIELDS
from lockstep.collector.sources.dcgm_values import ImplausibleError, checked, values

# Where DCGM's own Python bindings lie: they come with DCGM and not from an index.

INSTALLED = (
    Path("/usr/share/datacenter-gpu-manager-4/bindings/python3"),  # DCGM 4
    Path("/usr/local/dcgm/bindings/python3"),  # DCGM 3
)
MODULES = ("pydcgm", "dcgm_structs", "dcgm_agent")


class Bindings(NamedTuple):
    """DCGM's modules."""

    pydcgm: Any
    structs: Any
    agent: Any


def installed(folders: Sequence[Path]) -> bool:
    """Whether the bindings are in one of the folders, or loaded already."""
    return "pydcgm" in sys.modules or any((folder / "pydcgm.py").exists() for folder in folders)


def load(folders: Sequence[Path]) -> Bindings:
    """Import DCGM's modules from where they are installed.

    Raises:
        SourceError: They are not there, or do not load (libdcgm is missing, say).
    """
    folder = next((candidate for candidate in folders if (candidate / "pydcgm.py").exists()), None)
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        modules: list[ModuleType] = [importlib.import_module(name) for name in MODULES]
    except (ImportError, OSError) as error:
        raise SourceError("bindings", f"DCGM's Python bindings do not load: {error}") from error
    return Bindings(*modules)


MAX_GPUS = 64
MAX_INSTANCES = 448
"""Of 32 GPUs with 7 GPU and 7 compute instances each (DCGM_MAX_HIERARCHY_INFO)."""

GPU, GPU_INSTANCE, COMPUTE_INSTANCE = 1, 4, 5
"""Kinds of entities (dcgm_field_entity_group_t of dcgm_fields.h)."""
OK, FAKE = 1, 5
INACCESSIBLE, LOST, DETACHED = 3, 4, 7
"""How an entity is (DcgmEntityStatus_t of dcgm_structs_internal.h); the others: not yet known,
not supported, and told not to be read, of which nothing is said."""


class Entity(NamedTuple):
    """What has values of its own in DCGM, and DCGM's number of it."""

    kind: int
    number: int


class Instance(NamedTuple):
    """A MIG device.

    Attributes:
        gpu: NVML's index of the GPU that it is a part of.
        slices: Of the GPU's seven.
    """

    entity: Entity
    gpu: int
    parent: str
    gpu_instance: int
    compute_instance: int | None
    slices: int

    @property
    def uuid(self) -> str:
        """A name of our own, as of the page of a dcgm-exporter: DCGM tells no uuid of it."""
        own = f"{self.parent}/gi{self.gpu_instance}"
        shared = self.entity.kind == COMPUTE_INSTANCE
        return f"{own}/ci{self.compute_instance}" if shared else own


def states(discovery: Any) -> dict[int, int]:
    """How every GPU is that DCGM has seen, by DCGM's number."""
    fresh = {
        number: discovery.GetGpuStatus(number) for number in discovery.GetAllGpuIds()[:MAX_GPUS]
    }
    # A c_uint, or what it holds.
    return {number: int(getattr(status, "value", status)) for number, status in fresh.items()}


def instances(hierarchy: Any) -> tuple[Instance, ...]:
    """The MIG devices, from dcgmGetGpuInstanceHierarchy (dcgmMigHierarchy_v2).

    A GPU instance with one compute instance, or none, is one device; of one that is divided
    further, its compute instances are devices too.
    """
    rows = list(_rows(hierarchy))
    divided: dict[tuple[str, int], list[Instance]] = {}
    for row in rows:
        if row.entity.kind == COMPUTE_INSTANCE:
            divided.setdefault((row.parent, row.gpu_instance), []).append(row)
    instances: list[Instance] = []
    for row in rows:
        if row.entity.kind == GPU_INSTANCE:
            inside = divided.get((row.parent, row.gpu_instance), [])
            alone = inside[0].compute_instance if len(inside) == 1 else None
            instances.append(row._replace(compute_instance=alone))
            instances += inside if len(inside) > 1 else []
    return tuple(instances)


def _rows(hierarchy: Any) -> Iterator[Instance]:
    for index in range(min(hierarchy.count, MAX_INSTANCES)):
        row = hierarchy.entityList[index]
        kind, info = row.entity.entityGroupId, row.info
        if kind in (GPU_INSTANCE, COMPUTE_INSTANCE):
            uuid = info.gpuUuid
            yield Instance(
                Entity(kind, row.entity.entityId),
                info.nvmlGpuIndex,
                uuid.decode("ascii", "replace") if isinstance(uuid, bytes) else str(uuid),
                info.nvmlInstanceId,
                info.nvmlComputeInstanceId if kind == COMPUTE_INSTANCE else None,
                info.nvmlProfileSlices,
            )


HOST_ENGINE = "127.0.0.1"
NAME, UUID, INDEX = 50, 54, 52
IDENTITY = {NAME: "model", 53: "serial", 57: "pci_bus_id", 85: "vbios", 1: "driver"}
"""Fields that hold words, by label of GPU_INFO."""
XID = 230
"""Of an event, and stamped with its time (DcgmCacheManager.cpp of DCGM, ManageDeviceEvents): it
stands until there is another."""
UPDATE_SECONDS = 1.0
STALE_SECONDS = 2 * UPDATE_SECONDS
"""A value that DCGM has not renewed for so long is not told: it is of another time."""
KEEP_SECONDS, KEEP_SAMPLES = 0.0, 1
LOOK_SECONDS = 4.0
"""How often DCGM is asked for its MIG devices."""
PROFILING = range(1001, 1013)
"""Fields that DCGM refuses all at once where it may not, or cannot, profile."""
FB = (250, 251, 252, 253)
READABLE, GONE = (OK, FAKE), (INACCESSIBLE, LOST, DETACHED)

Latest = dict[Entity, dict[int, Any]]


class Session:
    """Watches what was there when it was made; `outdated` once something else is.

    Args:
        bindings: DCGM's modules.
        clock: DCGM stamps values with the same wall clock.
        name: Of this session's groups: no two of a host engine have the same.
        known: GPUs without their values by DCGM's number, which outlive sessions: one that is lost
            does not tell who it is any more.
    """

    def __init__(self, bindings: Bindings, clock: Clock, name: str, known: dict[int, Gpu]) -> None:
        self._bindings, self._clock, self._known = bindings, clock, known
        # What the bindings raise is DCGM's, or of bindings that lack a call.
        self._errors = (bindings.structs.DCGMError, AttributeError)
        self._handle = bindings.pydcgm.DcgmHandle(ipAddress=HOST_ENGINE)
        self._system = self._handle.GetSystem()
        self._refused: list[Rejected] = []
        self._states = states(self._system.discovery)
        self._instances = self._look()
        self._watched = [number for number, state in self._states.items() if state in READABLE]
        gpus = [Entity(GPU, number) for number in self._watched]
        parts = [instance.entity for instance in self._instances]
        ours = [
            number
            for field in DCGM_FIELDS
            for number in (field.id, *(also.id for also in field.also))
        ]
        ours += [number for number, _ in RAW_FIELDS]
        plain = [number for number in ours if number not in PROFILING]
        profiling = [number for number in ours if number in PROFILING]
        self._watches = [self._watch(name, gpus, [*plain, UUID, INDEX, *IDENTITY])]
        for word, entities, numbers in (
            ("profiling", gpus, profiling),
            ("mig", parts, [NAME, *FB]),
            ("mig_profiling", parts, profiling),
        ):
            try:
                if entities:
                    self._watches.append(self._watch(f"{name}-{word}", entities, numbers))
            except self._errors as error:
                self._refused.append(Rejected(word, f"DCGM refuses to watch it: {error!r}"))
        self._system.UpdateAllFields(1)

    def outdated(self) -> bool:
        """Whether a GPU has come (back), or the MIG devices are others."""
        self._states = states(self._system.discovery)
        readable = {number for number, state in self._states.items() if state in READABLE}
        due = self._clock.monotonic() - self._looked_at >= LOOK_SECONDS
        return not readable <= set(self._watched) or (due and self._look() != self._instances)

    def read(self) -> GpuReading:
        """The latest value of every field; of a GPU that is gone, only that.

        Values that are blank are absent; those that are stale or cannot be are counted.
        """
        latest: Latest = {}
        for group, fields in self._watches:
            for kind, numbers in group.samples.GetLatest_v2(fields).values.items():
                for number, series in numbers.items():
                    latest.setdefault(Entity(kind, number), {}).update(series)
        rejected, self._refused = self._refused, []
        gpus: list[Gpu] = []
        for number, state in self._states.items():
            if state in GONE:
                gpus.append(self._lost(number, latest.get(Entity(GPU, number), {}), rejected))
            elif number in self._watched:
                gpus += self._gpu(number, latest.get(Entity(GPU, number), {}), rejected)
        for instance in self._instances:
            gpus.append(self._part(instance, latest.get(instance.entity, {}), rejected))
        present = sum(state not in GONE for state in self._states.values())
        return GpuReading(tuple(gpus), tuple(rejected), present=present)

    def _watch(self, name: str, entities: Iterable[Entity], numbers: Iterable[int]) -> Any:
        """A group and its fields, without those that this DCGM does not know yet."""
        pydcgm, structs = self._bindings.pydcgm, self._bindings.structs
        known = [
            number for number in numbers if self._system.fields.GetFieldById(number) is not None
        ]
        group = pydcgm.DcgmGroup(self._handle, groupName=name, groupType=structs.DCGM_GROUP_EMPTY)
        for entity in entities:
            group.AddEntity(*entity)
        fields = pydcgm.DcgmFieldGroup(self._handle, name, known)
        group.samples.WatchFields(fields, round(UPDATE_SECONDS * 1e6), KEEP_SECONDS, KEEP_SAMPLES)
        return group, fields

    def _look(self) -> tuple[Instance, ...]:
        self._looked_at = self._clock.monotonic()
        try:
            hierarchy = self._bindings.agent.dcgmGetGpuInstanceHierarchy(self._handle.handle)
        except self._errors as error:
            self._refused.append(
                Rejected("mig", f"DCGM does not report its MIG devices: {error!r}")
            )
            return ()
        return instances(hierarchy)

    def _gpu(self, number: int, fields: Mapping[int, Any], rejected: list[Rejected]) -> list[Gpu]:
        words, numbers = self._split(f"GPU {number}", fields, rejected)
        if not numbers.keys() - {XID}:
            rejected.append(Rejected("no_data", f"DCGM has nothing of GPU {number}"))
            return []
        index = words.pop(INDEX, "")
        uuid = words.pop(UUID, "")
        info = {IDENTITY[field]: text for field, text in words.items()}
        known = Gpu(int(index) if index.isdecimal() else number, uuid, info=info)
        self._known[number] = known
        return [replace(known, values=values(numbers))]

    def _lost(self, number: int, fields: Mapping[int, Any], rejected: list[Rejected]) -> Gpu:
        """Who it was, and its last XID: most often why it is lost."""
        last = {field: series for field, series in fields.items() if field == XID}
        _, numbers = self._split(f"GPU {number}", last, rejected)
        known = self._known.get(number, Gpu(number, ""))
        return replace(known, up=False, values=values(numbers))

    def _part(self, instance: Instance, fields: Mapping[int, Any], rejected: list[Rejected]) -> Gpu:
        words, numbers = self._split(instance.uuid, fields, rejected)
        compute = "" if instance.compute_instance is None else str(instance.compute_instance)
        info = {
            "parent": instance.parent,
            "profile": words.get(NAME, "").removeprefix("MIG ") or f"{instance.slices}g",
            "gpu_instance": str(instance.gpu_instance),
            "compute_instance": compute,
        }
        return Gpu(instance.gpu, instance.uuid, info=info, values=values(numbers))

    def _split(
        self, who: str, fields: Mapping[int, Any], rejected: list[Rejected]
    ) -> tuple[dict[int, str], dict[int, float]]:
        """Words and numbers by field, without what is blank, stale or cannot be."""
        words: dict[int, str] = {}
        numbers: dict[int, float] = {}
        stale = 0
        now = self._clock.wall() * 1e6
        for field, series in fields.items():
            value = series.values[-1] if series.values else None
            if value is None or value.isBlank:
                continue
            if field in IDENTITY or field in (UUID, INDEX):  # they do not age
                words[field] = str(value.value)
            elif field != XID and abs(now - value.ts) > STALE_SECONDS * 1e6:
                stale += 1
            else:
                try:
                    number = checked(field, value.value)
                except ImplausibleError as error:
                    rejected.append(Rejected(IMPLAUSIBLE, f"{who}: {error}"))
                    continue
                except (ValueError, TypeError) as error:
                    rejected.append(Rejected("content", f"{who}: field {field}: {error}"))
                    continue
                if number is not None:
                    numbers[field] = number
        if stale:
            limit = f"{STALE_SECONDS:g} s"
            rejected.append(Rejected("stale", f"{who}: {stale} values are older than {limit}"))
        return words, numbers


class Dcgm:
    """Source of GpuReading; connects to the host engine that runs on this node.

    The bindings are looked for at every reading until they are there; a lost connection is made
    anew at the next. Of a MIG device DCGM tells its identity, memory and activity, but no uuid of
    NVIDIA's: it is named by its parent's, as `GPU-…/gi7`.
    """

    name = "dcgm"

    def __init__(self, clock: Clock, folders: Sequence[Path] = INSTALLED) -> None:
        self._clock = clock
        self._folders = folders
        self._session: Session | None = None
        self._number = itertools.count()
        self._known: dict[int, Gpu] = {}

    def available(self) -> bool:
        """Whether the bindings are installed."""
        return installed(self._folders)

    def why_not(self) -> str:
        """What is missing."""
        return f"pydcgm is in none of {', '.join(str(folder) for folder in self._folders)}"

    def read(self) -> GpuReading:
        """The latest value of every field of every GPU.

        Raises:
            SourceError: The bindings cannot be imported, or the host engine does not answer.
        """
        try:
            if self._session is not None and self._session.outdated():
                self._session = None  # its groups go with it
            if self._session is None:
                name = f"lockstep-{os.getpid()}-{next(self._number)}"
                self._session = Session(load(self._folders), self._clock, name, self._known)
            return self._session.read()
        except SourceError:
            raise
        except Exception as error:
            self._session = None
            raise SourceError("host_engine", f"DCGM: {error!r}") from error

    def close(self) -> None:
        """Let go of the connection."""
        self._session = None
