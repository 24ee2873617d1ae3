"""What to run: the layout of ranks and the settings of one run."""

import shlex
from collections.abc import Container
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from lockstep.collector.contract.visible import masked_words
from lockstep.collector.contract.words import EXTERNAL_PROGRAM
from lockstep.workloads.faults.disturbances import Disturbance
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.models.configs import CONFIGS, GptConfig, resized

WORKLOADS: tuple[str, ...] = ("gpt", "resnet", "logreg", "allreduce")
"""Names of the reference runs; one file each in workloads/tasks."""
PROGRAM = EXTERNAL_PROGRAM
"""The workload of a run of somebody else's program."""
NETWORKS: tuple[str, ...] = ("auto", "namespaces")
LAUNCHERS: tuple[str, ...] = ("local", "mpirun", "kubernetes", "argo")
CLUSTER_LAUNCHERS: tuple[str, ...] = ("kubernetes", "argo")
"""Of these, nothing runs on this machine."""
MAX_LOCAL_RANKS = 8
DEVICE_SECONDS = 0.040
SYNTHETIC_DATA: tuple[str, ...] = ("markov", "copy", "synthetic", "none")
"""What `data` can be besides a path."""


class SpecError(ValueError):
    """A setting of the run is wrong; the message names it and what would be right."""


class DataError(ValueError):
    """Data cannot be used; the message names the file or place, what is wrong, what is right."""


def one_of(what: str, word: str, known: tuple[str, ...]) -> None:
    """Refuse a word that is not known.

    Raises:
        SpecError: With the words that are, and the nearest of them.
    """
    if word not in known:
        near = get_close_matches(word, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise SpecError(f"unknown {what} {word!r}; one of {', '.join(known)}{hint}")


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
    """What is trained, and in which pieces; each task says which of these it takes.

    Attributes:
        model: A name that the task knows.
        vocabulary: Another vocabulary than the model's own, as one padded for tensor parallel.
        sequence: Another sequence length than the model's own.
        data: A synthetic source that the task knows, or a path.
        micro_batch: Samples in a micro-batch.
        micro_batches: Micro-batches of a replica in a step.
        virtual_stages: Stages of the model on each pipeline rank; more than 1 interleaves.
        sequence_parallel: Norms and residuals split along the sequence inside a tensor group.
        recompute: Activations of a layer are made again for the backward pass.
        sharded_optimizer: AdamW's moments and updates are divided over the replicas.
        eval_every: Steps between evaluations; 0 = none.
        goal: `full`, `light`, or METRIC>=VALUE (goals.py); None = none.
        stop_at_goal: The run ends once the goal is reached.
        time_budget: Seconds of training after which the run ends with an evaluation.
        sizes: Of all-reduces, MIN:MAX:COUNT in bytes (sweep.py).
        repetitions: Timed all-reduces of a size in one step.
        dtype: Of their elements.
        probe: Whether a slow link or node is looked for.
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
    eval_every: int = 0
    goal: str | None = None
    stop_at_goal: bool = False
    time_budget: float | None = None
    sizes: str = "1K:1M:11"
    repetitions: int = 5
    dtype: str = "float32"
    probe: bool = False
    checkpoint_every: int = 0
    resume: str | None = None

    def options(self, taken: Container[str]) -> str:
        """The options of `lockstep run`, of those taken, that differ from their defaults."""
        words: list[str] = []
        for field in fields(self):
            if field.name not in taken:
                continue
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
    def is_synthetic(self) -> bool:
        """Whether its data are."""
        return self.data in SYNTHETIC_DATA

    @property
    def samples(self) -> int:
        """Sequences of a replica in a step."""
        return self.micro_batch * self.micro_batches


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Everything that decides a run.

    Attributes:
        run: Run id, `<workload>-<UTC yyyymmddThhmmss>-<4 hex>`, at most 63 characters.
        disturbances: What slows the run by design.
        program: Somebody else's command, one process a rank; then `steps` is 0, unknown.
        step_pattern: Finds steps in its log; None = the forms that are known.
        hostfile: File of the hosts, for mpirun; None = this machine alone, with emulated nodes.
        hosts: Their names, in the order of nodes; empty without a host file.
        network: `namespaces` gives every emulated node its own; `auto` where a link fault needs it.
        device: `cpu` or `cuda`; on cuda every rank has a GPU, and no device is emulated.
        pace: Emulated devices (docs/method/emulation.md); False runs at the speed of this machine.
        device_noise: Standard deviation of the emulated device's time per step, as a ratio.
        device_seconds: Emulated device time per step at least.
        hang_timeout: Seconds without a completed step on any rank after which the run is ended.
        record: In which formats of others its collectives are written (measure/formats.py).
        team: Who pays for it; empty = nobody says.
        name: That its user gave it, as it stands in the run id; empty = none.
    """

    run: str
    workload: str
    layout: Layout
    steps: int
    seed: int
    training: Training = Training()
    faults: tuple[Fault, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    network: str = "auto"
    launcher: str = "local"
    program: tuple[str, ...] = ()
    step_pattern: str | None = None
    hostfile: str | None = None
    hosts: tuple[str, ...] = ()
    device: str = "cpu"
    pace: bool = True
    device_noise: float = 0.02
    device_seconds: float = DEVICE_SECONDS
    hang_timeout: float = 10.0
    record: tuple[str, ...] = ()
    team: str = ""
    name: str = ""

    def node(self, rank: int) -> str:
        """Name of a rank's node: a host's, or of an emulated node."""
        return (
            self.hosts[rank // self.layout.ranks_per_node]
            if self.hosts
            else (self.layout.node(rank))
        )

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes."""
        return self.hosts or tuple(f"node-{index}" for index in range(self.layout.nodes))

    @property
    def batch(self) -> int:
        """Sequences of all replicas in a step."""
        return self.training.samples * self.layout.dp

    def gpu_uuid(self, rank: int) -> str | None:
        """Identity of the simulated GPU behind a rank; None without emulated devices."""
        if not self.pace:
            return None
        node, gpu = self.node(rank), self.layout.local_rank(rank)
        return f"SIM-{uuid5(NAMESPACE_URL, f'{self.run}/{node}/{gpu}')}"

    def command(self, *, faults: bool, taken: Container[str]) -> str:
        """The command line that repeats this run, with or without its faults; secrets are masked.

        Args:
            faults: Whether what is injected is told, too.
            taken: Fields of Training that the task takes.
        """
        layout = self.layout
        if self.program:
            pattern = (
                ""
                if self.step_pattern is None
                else (f" --step-pattern {shlex.quote(self.step_pattern)}")
            )
            team = f" --team {shlex.quote(self.team)}" if self.team else ""
            name = f" --name {self.name}" if self.name else ""
            return (
                f"lockstep run --exec --nodes {layout.nodes} --ranks-per-node"
                f" {layout.ranks_per_node}{pattern}{team}{name} --hang-timeout"
                f" {self.hang_timeout:g} -- {shlex.join(masked_words(self.program))}"
            )
        injected = self.faults if faults else ()
        disturbed = self.disturbances if faults else ()
        words = [
            f"lockstep run {self.workload} --nodes {layout.nodes}",
            f"--ranks-per-node {layout.ranks_per_node} --dp {layout.dp} --tp {layout.tp}",
            f"--pp {layout.pp} {self.training.options(taken)}",
            f"--steps {self.steps} --seed {self.seed}",
            f"--device {self.device}",
            *(f"--fault {shlex.quote(fault.spec)}" for fault in injected),
            *(f"--disturb {shlex.quote(disturbance.spec)}" for disturbance in disturbed),
            *(() if self.launcher == "local" else (f"--launcher {self.launcher}",)),
            *(() if self.hostfile is None else (f"--hostfile {shlex.quote(self.hostfile)}",)),
            *(() if self.network == "auto" else (f"--network {self.network}",)),
            *(f"--record {format_}" for format_ in self.record),
            *((f"--team {shlex.quote(self.team)}",) if self.team else ()),
            *((f"--name {self.name}",) if self.name else ()),
            f"--device-noise {self.device_noise:g}" if self.pace else "--pace off",
            *(
                ()
                if self.device_seconds == DEVICE_SECONDS
                else (f"--device-seconds {self.device_seconds:g}",)
            ),
            f"--hang-timeout {self.hang_timeout:g}",
        ]
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON types, without what is for truth.json alone."""
        hidden = ("faults", "disturbances")
        return {name: value for name, value in asdict(self).items() if name not in hidden}
