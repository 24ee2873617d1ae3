"""What to run: the layout of ranks and the settings of one run."""

import shlex
from dataclasses import asdict, dataclass, fields
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from workloads.faults.plan import Fault
from workloads.models.configs import CONFIGS, GptConfig, resized

WORKLOADS: tuple[str, ...] = ("gpt",)
LAUNCHERS: tuple[str, ...] = ("local",)
MAX_LOCAL_RANKS = 8


class SpecError(ValueError):
    """A setting of the run is wrong; the message names it and what would be right."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The grid of ranks: rank = (pp * DP + dp) * TP + tp; node = rank // ranks_per_node."""

    nodes: int
    ranks_per_node: int
    dp: int
    tp: int = 1
    pp: int = 1

    def __post_init__(self) -> None:
        for name in ("nodes", "ranks_per_node", "dp", "tp", "pp"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.world != self.dp * self.tp * self.pp:
            raise SpecError(
                f"dp {self.dp} x tp {self.tp} x pp {self.pp} = {self.dp * self.tp * self.pp} does"
                f" not match {self.nodes} nodes x {self.ranks_per_node} ranks = {self.world} ranks"
            )

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.nodes * self.ranks_per_node

    def node(self, rank: int) -> str:
        """Name of the emulated node of a rank."""
        return f"node-{rank // self.ranks_per_node}"

    def local_rank(self, rank: int) -> int:
        """Rank inside its node; also the index of its GPU."""
        return rank % self.ranks_per_node

    def coordinates(self, rank: int) -> tuple[int, int, int]:
        """(dp, pp, tp) of a rank."""
        tp = rank % self.tp
        dp = rank // self.tp % self.dp
        pp = rank // (self.tp * self.dp)
        return dp, pp, tp


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained, and in which pieces.

    Attributes:
        model: A name of models.configs.CONFIGS.
        vocabulary: Another vocabulary than the model's own, as one padded for tensor parallel.
        sequence: Another sequence length than the model's own.
        data: `markov`, `copy`, or the path of an indexed dataset without `.bin` and `.idx`.
        micro_batch: Sequences in a micro-batch.
        micro_batches: Micro-batches of a replica in a step.
        virtual_stages: Stages of the model on each pipeline rank; more than 1 interleaves.
        sequence_parallel: Norms and residuals split along the sequence inside a tensor group.
        recompute: Activations of a layer are made again for the backward pass.
        sharded_optimizer: AdamW's moments and updates are divided over the replicas.
        checkpoint_every: Steps between checkpoints; 0 = none.
        resume: Folder of the checkpoint to go on from.
    """

    model: str = "tiny"
    vocabulary: int | None = None
    sequence: int | None = None
    data: str = "markov"
    micro_batch: int = 2
    micro_batches: int = 1
    virtual_stages: int = 1
    sequence_parallel: bool = False
    recompute: bool = False
    sharded_optimizer: bool = False
    learning_rate: float = 6e-3
    checkpoint_every: int = 0
    resume: str | None = None

    def options(self) -> str:
        """The options of `lockstep run` that differ from their defaults."""
        words: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default or field.name == "model":
                option = f"--{field.name.replace('_', '-')}"
                words.append(option if value is True else f"{option} {shlex.quote(str(value))}")
        return " ".join(words)

    @property
    def config(self) -> GptConfig:
        """The model's sizes."""
        return resized(CONFIGS[self.model], self.vocabulary, self.sequence)

    @property
    def samples(self) -> int:
        """Sequences of a replica in a step."""
        return self.micro_batch * self.micro_batches


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Everything that decides a run.

    Attributes:
        run: Run id, `<workload>-<UTC yyyymmddThhmmss>-<4 hex>`, at most 63 characters.
        device: `cpu` or `cuda`; on cuda every rank has a GPU, and no device is emulated.
        pace: Emulated devices (DESIGN 3.2); False runs at the speed of this machine.
        device_noise: Standard deviation of the emulated device's time per step, as a ratio.
        device_seconds: Emulated device time per step at least.
        hang_timeout: Seconds without a completed step on any rank after which the run is ended.
    """

    run: str
    workload: str
    layout: Layout
    steps: int
    seed: int
    training: Training = Training()
    faults: tuple[Fault, ...] = ()
    launcher: str = "local"
    device: str = "cpu"
    pace: bool = True
    device_noise: float = 0.02
    device_seconds: float = 0.040
    hang_timeout: float = 10.0

    @property
    def batch(self) -> int:
        """Sequences of all replicas in a step."""
        return self.training.samples * self.layout.dp

    def gpu_uuid(self, rank: int) -> str | None:
        """Identity of the simulated GPU behind a rank; None without emulated devices."""
        if not self.pace:
            return None
        node, gpu = self.layout.node(rank), self.layout.local_rank(rank)
        return f"SIM-{uuid5(NAMESPACE_URL, f'{self.run}/{node}/{gpu}')}"

    def command(self, *, faults: bool) -> str:
        """The command line that repeats this run, with or without its faults."""
        layout = self.layout
        injected = self.faults if faults else ()
        words = [
            f"lockstep run {self.workload} --nodes {layout.nodes}",
            f"--ranks-per-node {layout.ranks_per_node} --dp {layout.dp} --tp {layout.tp}",
            f"--pp {layout.pp} {self.training.options()}",
            f"--steps {self.steps} --seed {self.seed}",
            f"--device {self.device}",
            *(f"--fault {shlex.quote(fault.spec)}" for fault in injected),
            f"--device-noise {self.device_noise:g}" if self.pace else "--pace off",
            f"--hang-timeout {self.hang_timeout:g}",
        ]
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON types, without its faults: those are for truth.json alone."""
        return {name: value for name, value in asdict(self).items() if name != "faults"}
