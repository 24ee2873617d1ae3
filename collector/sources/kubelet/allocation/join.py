"""Containers and processes on the same device, put together: who holds which GPU; pure.

Which GPU or MIG device is meant by a name: the kubelet's ids in all their forms, a rank's uuid.

Forms: `GPU-uuid`, `MIG-uuid`, either with `::N` (a replica by time-slicing or MPS); GKE's
`nvidiaX`, `nvidiaX/giY` and with `/vgpuZ` (X = minor number, Y = GPU instance); DRA's `gpu-X`
(X = minor number), and whatever has a uuid in it, as CDI names do.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.files.opening import read_bytes, read_lines
from lockstep.collector.readings.gpu import (
    PROCESSES,
    Gpu,
    Holder,
    PodDevice,
    RankDevice,
)
from lockstep.collector.readings.source import Rejected, SourceError

ENVIRON_BYTES = 256 * 1024
"""Of an environment; the kernel allows megabytes, batch systems use some ten kilobytes."""
LIMIT = 64 * 1024
MAX_WORD = 253
"""Longest name of Kubernetes (RFC 1123 subdomain)."""
LAUNCHERS: tuple[tuple[str, str, str], ...] = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),  # torchrun, and what starts torch without it
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),  # MPICH's Hydra, Intel MPI
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
)
"""Rank, local rank and world size, the innermost launcher first: srun may start torchrun."""
_KNOWN = frozenset(name for launcher in LAUNCHERS for name in launcher) | {
    "SLURM_JOB_ID", "HOSTNAME",
}  # fmt: skip
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
# Slurm: /slurm/uid_1000/job_1234/step_0 (v1), /system.slice/slurmstepd.scope/job_1234/... (v2).
_SLURM_JOB = re.compile(r"/[^/]*slurm[^/]*/(?:[^/]+/)*?job_([0-9]{1,10})(?:/|$)", re.ASCII)
# Kubernetes: .../pod<uid>/... (cgroupfs), ...-pod<uid with _>.slice/... (systemd).
_POD_UID = re.compile(
    r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?(?:/|$)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ProcessWords:
    """What one process says; what it does not say is empty."""

    rank: str = ""
    local_rank: str = ""
    world_size: str = ""
    slurm_job: str = ""
    pod_uid: str = ""
    hostname: str = ""


def started(proc: Path, pid: int) -> float | None:
    """When the process started, in seconds since boot; None if there is no such process.

    Field 22 of proc(5)'s stat. With the pid it names a process: pids are reused.

    Raises:
        SourceError: The process table cannot be read, or not understood.
    """
    path = proc / str(pid) / "stat"
    try:
        text = read_bytes(path, LIMIT)
    except SourceError as error:
        if error.reason == "missing":
            return None
        raise
    # The command name may hold anything; field 3 follows its last parenthesis.
    fields = text.rpartition(b")")[2].split()
    if len(fields) < 20 or not fields[19].isdigit():
        raise SourceError("malformed", f"{path} has no start time")
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def process_words(proc: Path, pid: int) -> tuple[ProcessWords, list[Rejected]]:
    """What the process says, and which of its two files could not be read.

    The environment of another user's process is for who may trace it, which no pod of ours may: it
    is not readable, and that is no failure. Its cgroup, which names the pod, is for everybody.
    """
    rejected: list[Rejected] = []
    environment: Mapping[str, str] = {}
    cgroups: list[str] = []
    try:
        environment = environment_of(read_bytes(proc / str(pid) / "environ", ENVIRON_BYTES))
    except SourceError as error:
        if error.reason != "permission":
            rejected.append(Rejected.of(error))
    try:
        cgroups = read_lines(proc / str(pid) / "cgroup", LIMIT)
    except SourceError as error:
        rejected.append(Rejected.of(error))
    # A process that has just ended is no failure.
    return words_of(environment, cgroups), [one for one in rejected if one.reason != "missing"]


def environment_of(raw: bytes) -> dict[str, str]:
    """The variables that words_of knows; a value that is not printable text is left out."""
    words: dict[str, str] = {}
    for entry in raw.split(b"\0"):
        name, _, value = entry.decode("utf-8", "replace").partition("=")
        if name in _KNOWN and value.isprintable() and "\ufffd" not in value:
            words[name] = value[:MAX_WORD]
    return words


def words_of(environment: Mapping[str, str], cgroups: list[str]) -> ProcessWords:
    """The words of one process.

    The cgroup's Slurm job wins: the environment of a process can be anything.
    """
    numbers = {
        name: str(int(value)) for name, value in environment.items() if _NUMBER.fullmatch(value)
    }
    launcher = next((names for names in LAUNCHERS if names[0] in numbers), LAUNCHERS[0])
    rank, local_rank, world_size = (numbers.get(name, "") for name in launcher)
    jobs = [match[1] for line in cgroups if (match := _SLURM_JOB.search(line))]
    pods = [match[1].replace("_", "-") for line in cgroups if (match := _POD_UID.search(line))]
    return ProcessWords(
        rank=rank,
        local_rank=local_rank if rank else "",
        world_size=world_size if rank else "",
        slurm_job=jobs[0] if jobs else numbers.get("SLURM_JOB_ID", ""),
        pod_uid=pods[0] if pods else "",
        hostname=environment.get("HOSTNAME", ""),
    )


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
    gpu_processes: list[GpuProcess] = []
    for gpu in gpus:
        for key in gpu.values.get(PROCESSES, {}):
            pid, _, instance = key.partition("/")
            device = part_of(gpu, instance, gpus) if instance else Device(str(gpu.index), gpu.uuid)
            if device is not None:
                gpu_processes.append(GpuProcess(device, int(pid)))
    return gpu_processes


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
    return {uuid: list(holders) for uuid, holders in owners.items()}, rejected


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
    unseen = {(rank.uuid, str(rank.rank)) for rank in ranks if rank.pid is None}
    for device, pid in processes:
        said = words.get(pid)
        if said is not None and pid not in pids and (device.uuid, said.rank) not in unseen:
            holder = Holder(
                *device, pod_uid=said.pod_uid, rank=said.rank, local_rank=said.local_rank,
                world_size=said.world_size, slurm_job=said.slurm_job,
            )  # fmt: skip
            yield _Process(holder, said.hostname)
