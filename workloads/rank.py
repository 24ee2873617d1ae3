"""What one rank process is told, and who it is."""

from dataclasses import dataclass
from pathlib import Path

from workloads.accelerator import Accelerator
from workloads.clocksync import wall_minus_monotonic_ns
from workloads.ring_file import Identity
from workloads.simulated_gpu import SimulatedGpu
from workloads.spec import RunSpec


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


def identity(job: RankJob, where: Accelerator) -> Identity:
    """What the rank's ring says of it, with its clocks as they are now."""
    spec, layout, rank = job.spec, job.spec.layout, job.rank
    dp, pp, tp = layout.coordinates(rank)
    offset, _ = wall_minus_monotonic_ns()
    has_gpu = spec.pace or where.is_cuda
    return Identity(
        run=spec.run,
        node=job.node or layout.node(rank),
        uuid=spec.gpu_uuid(rank) or where.uuid,
        rank=rank,
        world=layout.world,
        local_rank=layout.local_rank(rank),
        attempt=0,
        dp=dp,
        pp=pp,
        tp=tp,
        gpu=layout.local_rank(rank) if has_gpu else -1,
        start_wall_ns=job.start_wall_ns,
        wall_minus_monotonic_ns=offset,
    )


def simulated_gpu(job: RankJob) -> SimulatedGpu:
    """The GPU behind a rank of emulated devices."""
    uuid = job.spec.gpu_uuid(job.rank)
    assert uuid is not None
    seed = dice_seed(job.spec.seed, job.rank)
    return SimulatedGpu(job.spec.layout.local_rank(job.rank), uuid, seed)


def dice_seed(seed: int, rank: int) -> int:
    """The seed of a rank's noise."""
    return seed * 1_000_003 + rank
