"""What one rank process is told, and who it is."""

from dataclasses import dataclass
from pathlib import Path

from lockstep.workloads.simulated_gpu import SimulatedGpu
from lockstep.workloads.spec import RunSpec


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
    def place(self) -> int:
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
