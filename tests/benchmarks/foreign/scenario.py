"""A run before it begins: who and where its ranks are, what it does, what surrounds it.

Ranks are numbered with the width of tensor parallelism innermost. (ranks,), (nodes,) and the like
are shapes; times are seconds.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tests.benchmarks.foreign.faults import Fault
from tests.benchmarks.foreign.kinds import parts
from tests.benchmarks.foreign.streams import stream
from tests.benchmarks.simulated.arrays import Bools, Floats, Generator, Ints

FASTEST = 1980e6
"""Hertz of an SM that nothing holds back (H100 SXM)."""


@dataclass(frozen=True)
class Layout:
    """Sizes; `stages_inner` is whether replicas are numbered outside of stages."""

    ranks: int
    per_node: int
    dp: int
    pp: int
    tp: int
    stages_inner: bool

    @property
    def nodes(self) -> int:
        return self.ranks // self.per_node

    @cached_property
    def node(self) -> Ints:
        """(ranks,) number of the node."""
        return np.arange(self.ranks) // self.per_node

    @cached_property
    def local(self) -> Ints:
        """(ranks,) place on the node."""
        return np.arange(self.ranks) % self.per_node

    @cached_property
    def tp_of(self) -> Ints:
        """(ranks,) coordinate; dp_of and pp_of likewise."""
        return np.arange(self.ranks) % self.tp

    @cached_property
    def dp_of(self) -> Ints:
        rank = np.arange(self.ranks)
        if self.stages_inner:
            return rank // (self.tp * self.pp)
        return rank // self.tp % self.dp

    @cached_property
    def pp_of(self) -> Ints:
        rank = np.arange(self.ranks)
        if self.stages_inner:
            return rank // self.tp % self.pp
        return rank // (self.tp * self.dp)

    @cached_property
    def tp_group(self) -> Ints:
        """(ranks,) number of the tensor-parallel group: replica by replica, stages in each."""
        return self.dp_of * self.pp + self.pp_of


@dataclass
class Length:
    """How long a run is and how it is watched.

    Attributes:
        step_seconds: About how long a step takes.
        scrape: Seconds between scrapes.
        rows: Whether steps are recorded one by one.
    """

    step_seconds: float
    steps: int
    scrape: float
    rows: bool


@dataclass
class Compute:
    """Work of GPUs.

    Attributes:
        microbatches: Of a step.
        clock_share: Share of a kernel's time that goes with the clock; memory has the rest.
        stage_weight: (stages,) times the work of an even share.
        noise, memory: Deviation of the logarithm of kernel time, and its correlation to the next.
        tail: Share of steps with a stall; node_noise is common to a node.
        level: (ranks,) factors of kernel time that parts differ by.
        silicon: (ranks,) factors of power at the same clock; cooling of thermal resistance.
    """

    microbatches: int
    clock_share: float
    stage_weight: Floats
    noise: float
    memory: float
    tail: float
    node_noise: float
    level: Floats
    silicon: Floats
    cooling: Floats


@dataclass
class Communication:
    """What ranks exchange, and over what.

    Attributes:
        overlap: Whether gradients go bucket by bucket while backward goes on.
        sharded: Whether the optimizer's parameters are gathered after each step.
        clip: Whether all ranks agree on a norm in each step.
        spin: Whether a waiting thread keeps its processor.
        waits_in_other: Whether waits of stages are in the phase other, and not where they occur.
        share: Of a step that gradients take alone.
        rails: Adapters of a node; leaf_size nodes under a leaf switch, uplinks of each.
        topology: Whether the archive tells of leaf switches.
    """

    overlap: bool
    buckets: int
    sharded: bool
    clip: bool
    spin: bool
    waits_in_other: bool
    share: float
    rails: int
    fabric: str
    leaf_size: int
    uplinks: int
    topology: bool


@dataclass
class Habits:
    """What a training program does beside its steps; 0 steps between something is never.

    Attributes:
        loader_use: Share of a step that a loader works for one batch; depth of its queue.
        to_device: Share of a step that copying a batch takes.
        collects_alone: Whether ranks collect garbage each at its own time; together: all at once.
        all_write: Whether all ranks write checkpoints, and not the first replica alone.
        length_spread: Deviation of the logarithm of sequence lengths.
        skew: Replica, share of the run and factor of longer sequences of that replica.
        work: (steps,) factors that all ranks have.
        attempts: Steps before which the run begins anew.
    """

    loader_use: float
    depth: int
    to_device: float
    offload: bool
    collects_alone: bool
    collects_together: bool
    checkpoint_every: int
    checkpoint_async: bool
    all_write: bool
    checkpoint_seconds: float
    eval_every: int
    eval_seconds: float
    length_spread: float
    tokens_told: bool
    warm_steps: int
    warm_factor: float
    epochs: bool
    attempts: list[int]
    skew: tuple[int, float, float] | None
    work: Floats


@dataclass
class Surroundings:
    """The room, other programs on the nodes, and how well telemetry comes.

    Attributes:
        clocks: (nodes,) seconds by which clocks are off.
        lost: Share of scrapes that fail.
        inlet: (nodes,) degrees Celsius; it goes up and down by `swing` in `swing_seconds`.
        cron_every: Seconds between jobs that take cron_seconds, and leave a share of the host.
        silent: Node, and shares of the run from which and until which its scrapes fail.
        missing: Families of telemetry that there are none of.
        begin: Unix time of the first step.
    """

    clocks: Floats
    lost: float
    swing: float
    swing_seconds: float
    inlet: Floats
    cron_every: float
    cron_share: float
    cron_seconds: float
    silent: list[tuple[int, float, float]]
    missing: set[str]
    other_traffic: bool
    decoys: bool
    power_budget: bool
    begin: float


@dataclass
class Scenario:
    """All of it, with what is injected."""

    kind: str
    seed: int
    layout: Layout
    length: Length
    compute: Compute
    communication: Communication
    habits: Habits
    surroundings: Surroundings
    faults: list[Fault] = field(default_factory=list)

    def has(self, kind: str) -> bool:
        """Whether its kind is that, or has it as a part."""
        return kind in parts(self.kind)

    def stream(self, purpose: str) -> Generator:
        """Random numbers of this run for a purpose."""
        return stream(purpose, self.kind, self.seed)

    @property
    def writers(self) -> Bools:
        """(ranks,) of those that write checkpoints."""
        layout = self.layout
        writing: Bools = layout.dp_of == 0
        if self.has("rank0ckpt"):
            writing = np.arange(layout.ranks) == 0
        elif self.habits.all_write:
            writing = np.ones(layout.ranks, bool)
        return writing

    def warms_up(self, step: int) -> bool:
        """Whether the step is slow because caches, allocators and autotuning begin."""
        return step < self.habits.warm_steps or self.warms_up_again(step)

    def warms_up_again(self, step: int) -> bool:
        """Likewise, after a restart."""
        steps = self.habits.warm_steps
        return any(begin <= step < begin + steps for begin in self.habits.attempts)
