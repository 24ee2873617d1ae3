"""What DCGM watches: its GPUs and how they are, and the MIG instances they are divided into."""

from collections.abc import Iterator
from typing import Any, NamedTuple

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
    told = {
        number: discovery.GetGpuStatus(number) for number in discovery.GetAllGpuIds()[:MAX_GPUS]
    }
    # A c_uint, or what it holds.
    return {number: int(getattr(status, "value", status)) for number, status in told.items()}


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
    found: list[Instance] = []
    for row in rows:
        if row.entity.kind == GPU_INSTANCE:
            inside = divided.get((row.parent, row.gpu_instance), [])
            alone = inside[0].compute_instance if len(inside) == 1 else None
            found.append(row._replace(compute_instance=alone))
            found += inside if len(inside) > 1 else []
    return tuple(found)


def _rows(hierarchy: Any) -> Iterator[Instance]:
    for place in range(min(hierarchy.count, MAX_INSTANCES)):
        row = hierarchy.entityList[place]
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
