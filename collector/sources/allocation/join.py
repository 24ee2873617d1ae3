"""Containers and processes on the same device, put together: who holds which GPU; pure.

Which GPU or MIG device is meant by a name: the kubelet's ids in all their forms, a rank's uuid.

Forms: `GPU-uuid`, `MIG-uuid`, either with `::N` (a replica by time-slicing or MPS); GKE's
`nvidiaX`, `nvidiaX/giY` and with `/vgpuZ` (X = minor number, Y = GPU instance); DRA's `gpu-X`
(X = minor number), and whatever has a uuid in it, as CDI names do.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lockstep.collector.gpu_holding import Holder, PodDevice, RankDevice
from lockstep.collector.gpu_reading import PROCESSES, Gpu
from lockstep.collector.reading import Rejected
from lockstep.collector.sources.allocation.process import ProcessWords

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


class GpuProcess(NamedTuple):
    """A process that the driver lists on a device."""

    device: Device
    pid: int


class _Process(NamedTuple):
    """A process as a holder without a container, and its host name: in a pod, that of the pod."""

    holder: Holder
    hostname: str


def listed(gpus: Sequence[Gpu]) -> list[GpuProcess]:
    """The processes that the driver lists; of a MIG device's only those whose device is known."""
    found: list[GpuProcess] = []
    for gpu in gpus:
        for key in gpu.values.get(PROCESSES, {}):
            pid, _, instance = key.partition("/")
            device = part_of(gpu, instance, gpus) if instance else Device(str(gpu.index), gpu.uuid)
            if device is not None:
                found.append(GpuProcess(device, int(pid)))
    return found


def joined(
    pods: Sequence[PodDevice],
    ranks: Sequence[RankDevice],
    processes: Sequence[GpuProcess],
    words: Mapping[int, ProcessWords],
    gpus: Sequence[Gpu],
) -> tuple[list[Holder], list[Rejected]]:
    """One holder for each pair of device and container or process, and names of no device.

    A rank's own ring is believed before its environment; the driver's process on the same device
    with the same rank is that rank. A process belongs to the one container
    that has its device; where several share the device, to the one whose pod is its host name.

    Args:
        pods: What the kubelet gave away.
        ranks: Living ranks with a ring.
        processes: Those that the driver lists.
        words: What the processes say, by pid.
        gpus: What the names of devices refer to.
    """
    owners, rejected = _owners(pods, gpus)
    holders: list[Holder] = []
    unused = {owner: None for each in owners.values() for owner in each}
    on_devices = [*_ranks(ranks, processes, words, gpus), *_others(processes, ranks, words)]
    for process in on_devices:
        holder = process.holder
        owner = _owner(process, owners.get(holder.uuid, []))
        if owner is not None:
            unused.pop(owner, None)
            holder = replace(
                holder, namespace=owner.namespace, pod=owner.pod, container=owner.container,
                claim=owner.claim,
            )  # fmt: skip
        holders.append(holder)
    return list(dict.fromkeys([*holders, *unused])), rejected


def _owners(
    pods: Sequence[PodDevice], gpus: Sequence[Gpu]
) -> tuple[dict[str, list[Holder]], list[Rejected]]:
    """Containers by uuid of the device; replicas of one device in one container are one."""
    owners: dict[str, dict[Holder, None]] = {}
    rejected: list[Rejected] = []
    for given in pods:
        device = device_named(given.device, gpus)
        if device is None:
            what = f"{given.resource} {given.device} of {given.namespace}/{given.pod}"
            rejected.append(Rejected("unknown_device", f"{what} is no GPU that is known here"))
            continue
        owner = Holder(
            *device, namespace=given.namespace, pod=given.pod, container=given.container,
            claim=given.claim,
        )  # fmt: skip
        owners.setdefault(device.uuid, {})[owner] = None
    return {uuid: list(each) for uuid, each in owners.items()}, rejected


def _owner(process: _Process, owners: Sequence[Holder]) -> Holder | None:
    """The container that the process is in, if only one can be."""
    if len(owners) > 1:
        owners = [owner for owner in owners if owner.pod == process.hostname]
    return owners[0] if len(owners) == 1 else None


def _ranks(
    ranks: Sequence[RankDevice],
    processes: Sequence[GpuProcess],
    words: Mapping[int, ProcessWords],
    gpus: Sequence[Gpu],
) -> Iterator[_Process]:
    # A rank whose own process is not visible may be the only one of its number on its device.
    unseen = {(rank.uuid, str(rank.rank)) for rank in ranks if rank.pid is None}
    pids = {rank.pid for rank in ranks}
    listed_as: dict[tuple[str, str], list[ProcessWords]] = {}
    for device, pid in processes:
        if pid in words and pid not in pids and (device.uuid, words[pid].rank) in unseen:
            listed_as.setdefault((device.uuid, words[pid].rank), []).append(words[pid])
    for rank in ranks:
        device = device_of_uuid(rank.uuid, gpus)
        said = ProcessWords()
        if rank.pid is not None:
            said = words.get(rank.pid, said)
        elif len(named := listed_as.get((rank.uuid, str(rank.rank)), [])) == 1:
            said = named[0]
        # In a container a rank counts GPUs from 0: its number is only taken where nobody knows.
        gpu = device.gpu or ("" if rank.gpu is None else str(rank.gpu))
        holder = Holder(
            gpu, rank.uuid, pod_uid=said.pod_uid, run=rank.run, rank=str(rank.rank),
            local_rank=str(rank.local_rank), world_size=str(rank.world_size),
            slurm_job=said.slurm_job,
        )  # fmt: skip
        yield _Process(holder, said.hostname)


def _others(
    processes: Sequence[GpuProcess], ranks: Sequence[RankDevice], words: Mapping[int, ProcessWords]
) -> Iterator[_Process]:
    """Processes that have no ring."""
    pids = {rank.pid for rank in ranks}
    told = {(rank.uuid, str(rank.rank)) for rank in ranks if rank.pid is None}
    for device, pid in processes:
        said = words.get(pid)
        if said is not None and pid not in pids and (device.uuid, said.rank) not in told:
            holder = Holder(
                *device, pod_uid=said.pod_uid, rank=said.rank, local_rank=said.local_rank,
                world_size=said.world_size, slurm_job=said.slurm_job,
            )  # fmt: skip
            yield _Process(holder, said.hostname)
