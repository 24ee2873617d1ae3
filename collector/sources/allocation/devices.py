"""Which GPU or MIG device is meant by a name: the kubelet's ids in all their forms, a rank's uuid.

Forms: `GPU-uuid`, `MIG-uuid`, either with `::N` (a replica by time-slicing or MPS); GKE's
`nvidiaX`, `nvidiaX/giY` and with `/vgpuZ` (X = minor number, Y = GPU instance); DRA's `gpu-X`
(X = minor number), and whatever has a uuid in it, as CDI names do.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from collector.gpu_reading import Gpu

_UUID = re.compile(
    r"(?<![0-9A-Za-z-])((?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9A-Za-z-])",
    re.ASCII,
)
# A uuid that is a plain word, before ::N; MIG-GPU-uuid/gi/ci is how drivers before R470 said it.
_PLAIN = re.compile(r"((?:GPU|MIG)-[0-9A-Za-z/-]{1,80})(?:::[0-9]{1,6})?", re.ASCII)
_GKE = re.compile(
    r"nvidia([0-9]{1,3})(?:/gi([0-9]{1,3}))?(?:/vgpu[0-9]{1,6})?(?:::[0-9]{1,6})?", re.ASCII
)
_DRA = re.compile(r"gpu-([0-9]{1,3})(?: .*)?", re.ASCII)


class Device(NamedTuple):
    """The labels of a GPU or MIG device; `gpu` is empty while its index is not known."""

    gpu: str
    uuid: str


def device_named(name: str, gpus: Sequence[Gpu]) -> Device | None:
    """The device that a name means, or None when it names none of this node's.

    A uuid is a device even if nobody reads GPUs here; a number needs the GPU that has it.
    """
    if match := _PLAIN.fullmatch(name) or _UUID.search(name):
        return device_of_uuid(match[1], gpus)
    if match := _GKE.fullmatch(name):
        return _numbered(match[1], match[2], gpus)
    if match := _DRA.fullmatch(name):
        return _numbered(match[1], None, gpus)
    return None


def device_of_uuid(uuid: str, gpus: Sequence[Gpu]) -> Device:
    """The device with that uuid."""
    index = next((str(gpu.index) for gpu in gpus if gpu.uuid == uuid), "")
    return Device(index, uuid)


def part_of(whole: Gpu, instance: str, gpus: Sequence[Gpu]) -> Device | None:
    """The MIG device of a GPU by its GPU instance, unless several share that instance."""
    parts = [
        Device(str(part.index), part.uuid)
        for part in gpus
        if part.info.get("parent") == whole.uuid and part.info.get("gpu_instance") == instance
    ]
    return parts[0] if len(parts) == 1 else None


def _numbered(minor: str, instance: str | None, gpus: Sequence[Gpu]) -> Device | None:
    whole = next((gpu for gpu in gpus if not gpu.is_mig and _minor(gpu) == minor), None)
    if whole is None or not whole.uuid:
        return None
    if instance is not None:
        return part_of(whole, instance, gpus)
    return Device(str(whole.index), whole.uuid)


def _minor(gpu: Gpu) -> str:
    """The number in /dev/nvidiaN; not every source tells it, and then the index stands for it."""
    return gpu.info.get("minor", "") or str(gpu.index)
