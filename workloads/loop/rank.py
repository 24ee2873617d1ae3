"""One rank: its job, its identity, and the device that it computes on."""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns
from typing import Any

import numpy as np
import torch

from lockstep.collector.contract.archive import RESULTS_FILE
from lockstep.workloads.faults.simulated_gpu import SimulatedGpu
from lockstep.workloads.launch.joining.job_file import Job
from lockstep.workloads.launch.joining.meeting import Meeting
from lockstep.workloads.measure.process import wall_minus_monotonic_ns
from lockstep.workloads.spec import RunSpec


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Where the tensors of a rank are."""

    device: torch.device

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.device.type == "cuda"

    @property
    def backend(self) -> str:
        """Of the process groups; the host's own tensors, as of clocks, go over gloo everywhere."""
        return "cpu:gloo,cuda:nccl" if self.is_cuda else "gloo"

    @property
    def process_device(self) -> torch.device | None:
        """What `init_process_group` is told: NCCL must know its GPU before it connects."""
        return self.device if self.is_cuda else None

    @property
    def name(self) -> str:
        """The GPU's model, as its driver names it; empty on CPU."""
        return torch.cuda.get_device_name(self.device) if self.is_cuda else ""

    @property
    def uuid(self) -> str:
        """The GPU's identity in NVML's words; empty on CPU."""
        return f"GPU-{torch.cuda.get_device_properties(self.device).uuid}" if self.is_cuda else ""

    def use(self) -> None:
        """Make it the current device of this process."""
        if self.is_cuda:
            torch.cuda.set_device(self.device)

    def precision(self) -> AbstractContextManager[object]:
        """Around a forward pass: bf16 products over fp32 weights and gradients on a GPU."""
        return torch.autocast("cuda", torch.bfloat16) if self.is_cuda else nullcontext()

    def batch(self, made: Any) -> Any:
        """An array, a tensor, or a tuple of them on the device; the copy waits for nothing.

        Raises:
            TypeError: It is anything else, which only a GPU would miss.
        """
        if isinstance(made, tuple):
            return tuple(self.batch(item) for item in made)
        host = torch.from_numpy(made) if isinstance(made, np.ndarray) else made
        if not isinstance(host, torch.Tensor):
            raise TypeError(f"a batch of arrays or tensors is asked for, not {type(made).__name__}")
        return host.pin_memory().to(self.device, non_blocking=True) if self.is_cuda else host

    def fetched(self, value: torch.Tensor) -> torch.Tensor:
        """A scalar on the host, which has it once the device has come here (StepRecorder.after)."""
        if not self.is_cuda:
            return value.detach()
        host = torch.empty((), dtype=value.dtype, pin_memory=True)
        return host.copy_(value.detach(), non_blocking=True)


def accelerator(spec: RunSpec, index: int) -> Accelerator:
    """A rank's device: its own GPU of this machine, or the cores.

    Args:
        index: Among the ranks of this machine: its rank where nodes are emulated.
    """
    if spec.device == "cuda":
        return Accelerator(torch.device("cuda", index))
    return Accelerator(torch.device("cpu"))


@dataclass(frozen=True, slots=True)
class RankJob:
    """What one rank process needs to know.

    Attributes:
        rendezvous: Where the ranks meet, as torch.distributed's `init_method`.
        dataset: What the task prepared: see tasks.Task.prepare.
        checkpoints: Folder of the run's checkpoints.
        events: Folder of the run's TensorBoard files; None = none are written.
        peak_flops: FLOP/s of one core in matrix products; None = not measured.
        results: Where the telling rank writes what the run found out; None = nowhere.
        node: Name of the rank's node; None = the emulated one of the layout.
        interface: Network interface that gloo listens on.
        begun_ns: When the first process of the rank was started, monotonic; None = this one is it.
        met: Between which monotonic nanoseconds it met the others to learn the rendezvous; None =
            it was told.
    """

    spec: RunSpec
    rank: int
    node_dir: Path
    rendezvous: str
    dataset: Path
    checkpoints: Path
    cores: int
    start_wall_ns: int
    events: Path | None = None
    peak_flops: float | None = None
    results: Path | None = None
    node: str | None = None
    interface: str = "lo"
    begun_ns: int | None = None
    met: tuple[int, int] | None = None

    @property
    def archive(self) -> Path:
        """Folder of the run's archive, on this host."""
        return self.checkpoints.parent

    @property
    def local_index(self) -> int:
        """Among the ranks of this machine, which has all of them where nodes are emulated."""
        return self.rank if self.node is None else self.spec.layout.local_rank(self.rank)


def simulated_gpu(job: RankJob) -> SimulatedGpu:
    """The GPU behind a rank of emulated devices."""
    uuid = job.spec.gpu_uuid(job.rank)
    assert uuid is not None
    seed = dice_seed(job.spec.seed, job.rank)
    return SimulatedGpu(job.spec.layout.local_rank(job.rank), uuid, seed)


def dice_seed(seed: int, rank: int) -> int:
    """The seed of a rank's noise."""
    return seed * 1_000_003 + rank


def rank_job(
    job: Job, meeting: Meeting, node_dir: Path, data: Path, begun_ns: int | None = None
) -> RankJob:
    """The job of one rank; its folders are made.

    Args:
        begun_ns: When the first process of the rank was started, monotonic; None = this one is it.

    Raises:
        OSError: A folder cannot be made.
    """
    node = None
    if len(meeting.distinct) > 1:
        index = meeting.rank // job.spec.layout.ranks_per_node
        node = (job.nodes or meeting.distinct)[index]
    for folder in (node_dir, job.output):
        folder.mkdir(parents=True, exist_ok=True)
    offset, _ = wall_minus_monotonic_ns()
    return RankJob(
        spec=job.spec,
        rank=meeting.rank,
        node_dir=node_dir,
        rendezvous=meeting.rendezvous,
        dataset=data,
        checkpoints=job.output / "checkpoints",
        # Of all hosts: the emulated device's time is for all ranks on all cores.
        cores=len(os.sched_getaffinity(0)) * len(meeting.distinct),
        start_wall_ns=monotonic_ns() + offset,
        events=job.output / "tensorboard",
        peak_flops=job.peak_flops,
        results=job.output / RESULTS_FILE,
        node=node,
        interface=meeting.interface,
        begun_ns=begun_ns,
        met=meeting.span,
    )
