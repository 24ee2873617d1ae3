"""The shapes of who holds a GPU: what the kubelet gave away, and which processes use it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodDevice:
    """One device that the kubelet gave to a container.

    Attributes:
        resource: The extended resource, or the driver of a claim.
        device: As the kubelet names it.
        claim: `namespace/name` of the DRA claim that it came by; empty = by device plugin.
    """

    namespace: str
    pod: str
    container: str
    resource: str
    device: str
    claim: str = ""


@dataclass(frozen=True, slots=True)
class PodDevices:
    """The kubelet's last answer, and its age in seconds; None = it never answered."""

    devices: tuple[PodDevice, ...] = ()
    age: float | None = None


@dataclass(frozen=True, slots=True)
class RankDevice:
    """What a living rank's ring says of its device; `gpu` is None and `uuid` empty on CPU.

    Attributes:
        pid: Its process as this node's process table has it; None = not visible here.
    """

    run: str
    rank: int
    local_rank: int
    world_size: int
    pid: int | None
    gpu: int | None
    uuid: str


@dataclass(frozen=True, slots=True)
class Holder:
    """A container or a process that holds a GPU or MIG device; what is not known is empty."""

    gpu: str
    uuid: str
    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    container: str = ""
    claim: str = ""
    run: str = ""
    rank: str = ""
    local_rank: str = ""
    world_size: str = ""
    slurm_job: str = ""
