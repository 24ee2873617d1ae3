"""What a synthetic run is asked to be: its size, what ails it, and what its telemetry lacks."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lockstep.collector.contract.words import Cause

GPUS_PER_NODE = 8
STOPS: tuple[Cause, ...] = (Cause.FREEZE, Cause.CRASH)
"""After these no step completes."""
NETWORK: tuple[Cause, ...] = (Cause.LINK, Cause.CONGESTION)
"""Not in the own time of any rank."""


class Difficulty(StrEnum):
    """One way in which a run is not as tidy as the easy ones."""

    LATE = "late-symptoms"
    """Counters rise minutes after the rank became slow, or minutes before it."""
    RAMPING = "ramping-symptoms"
    """Counters rise slowly: half of their height is what an onset shows."""
    FAINT = "faint-symptoms"
    """A tenth to a half of the usual rates; pressure tells more than the run queue."""
    DECOYS = "decoys"
    """Innocent parts with corrected errors, replays, retransmissions, a busy host: no rank slow."""
    BURSTS = "bursts"
    """The slowdown comes and goes at random; what would stop for good goes on after a while."""
    PERIODIC = "periodic"
    """It comes round, as with a job on the same host or switch."""
    WHOLE_NODE = "whole-node"
    """All GPUs of a node at once: its air, its power, its processors, its disk."""
    TENSOR_GROUP = "tensor-group"
    """NVLink carries tensor-parallel collectives: all of the group wait, no own time is longer."""
    WRITER = "checkpoint-writer"
    """One rank writes its checkpoint slowly; every other step is as always."""
    SMALL_DP = "small-dp"
    """One to three replicas: hardly anybody does the same work."""
    WHOLE_STAGE = "whole-stage"
    """Each node is one pipeline stage, of one replica."""
    PIPELINE_WAITS = "pipeline-waits"
    """Who waits for another stage waits in the pipeline, not in the gradients' exchange."""
    UNEVEN = "uneven-sequences"
    """Replicas with longer sequences, now and always; compute grows faster than tokens."""
    HEAVY_TAILS = "heavy-tails"
    """Noise of three degrees of freedom and Pareto stalls."""
    DRIFT = "drift"
    """Every rank's level wanders, and the whole run's with the time of the day."""
    CORRELATED = "correlated-nodes"
    """The ranks of a node are noisy together, over many steps."""
    CLOCKS = "clocks-apart"
    """Nodes whose clocks are up to a minute and a half wrong."""
    GPU_NUMBERS = "gpu-numbers"
    """The driver's index of a GPU is not the rank's: only the uuid tells which one it is."""
    SCRAPES = "scrape-loss"
    """Scrapes late by seconds; one in ten fails, and minutes of a node at a time."""
    SOURCES = "missing-sources"
    """Some nodes lack kinds of telemetry; it may be the one that would tell."""


class SynthError(ValueError):
    """A fleet makes no sense; the message names what is wrong and what would be right."""


class Benign(StrEnum):
    """What slows steps and is nobody's fault."""

    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    GARBAGE = "garbage"
    UNIFORM = "uniform"
    LENGTHS = "lengths"
    STAGE = "stage"


class Defect(StrEnum):
    """What telemetry can lack."""

    GAP = "gap"
    RESET = "reset"
    LATE = "late"
    SOURCE = "source"
    SILENT = "silent"
    UNTIMED = "untimed"
    """Nobody timed how long any rank waits: no own time is known."""
    PARTLY_UNTIMED = "partly-untimed"
    """The same of one rank in four, and never of a faulty one."""


class Resolution(StrEnum):
    """What the windows are: steps of an archive, or what lies between two scrapes."""

    STEP = "step"
    SCRAPE = "scrape"


class Shape(StrEnum):
    """How strong a fault is over its steps."""

    CONSTANT = "constant"
    RAMP = "ramp"
    TRANSIENT = "transient"
    BURSTS = "bursts"
    PERIODIC = "periodic"


class Source(StrEnum):
    """Kinds of telemetry that a node may lack."""

    GPU_STATE = "gpu-state"
    GPU_ERRORS = "gpu-errors"
    XID = "xid"
    PCIE = "pcie"
    NVLINK = "nvlink"
    HOST = "host"
    NETWORK = "network"


TOLD_BY = {
    Cause.THERMAL: Source.GPU_STATE, Cause.POWER: Source.GPU_STATE,
    Cause.SLOW_GPU: Source.GPU_STATE, Cause.ECC: Source.GPU_ERRORS, Cause.XID: Source.XID,
    Cause.PCIE: Source.PCIE, Cause.NVLINK: Source.NVLINK, Cause.HOST_CPU: Source.HOST,
    Cause.LINK: Source.NETWORK, Cause.CONGESTION: Source.NETWORK,
}  # fmt: skip
"""Without which a cause is nobody's to know; the others are told by the ranks themselves."""


class Telling(StrEnum):
    """What the hardware's telemetry says of a fault."""

    TRUE = "true"
    MISSING = "missing"
    """Nothing of the culprit's node: only the ranks tell."""
    CONTRADICTED = "contradicted"
    """One series shouts, and the others that must agree do not."""
    PARTLY = "partly"
    """The culprit's node lacks the one source that would tell."""


PAUSE, SLOW_WRITE = "pause", "slow-write"
"""Forms: of a freeze that ends, and of a checkpoint that is slow while it is written."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, at a rank or at all ranks of a node.

    Attributes:
        cause: What it physically is; where telemetry is not true the label is `unknown`.
        form: Which of the forms that the cause has (synth.draw FORMS).
        place: The rank; for faults of a node (network, software) any rank of it.
        factor: Own time of the culprit over before; of network faults the run's step time. NaN
            where it stops the rank.
        from_step: First step.
        to_step: The one after the last, None = to the end.
        shape: Its strength over these steps.
        telling: What the telemetry says.
        whole_node: Whether all GPUs of the node have it.
        lag_seconds: By which counters rise after the ranks are slow; negative = before.
        ramp_seconds: Until they rise as fast as they will.
        faint: Factor of their rates.
    """

    cause: Cause
    form: str
    place: int
    factor: float
    from_step: int
    to_step: int | None = None
    shape: Shape = Shape.CONSTANT
    telling: Telling = Telling.TRUE
    whole_node: bool = False
    lag_seconds: float = 0.0
    ramp_seconds: float = 0.0
    faint: float = 1.0

    @property
    def stops(self) -> bool:
        """Whether no step completes after it."""
        return self.cause in STOPS and self.form != PAUSE

    @property
    def stops_for_a_while(self) -> bool:
        """Whether its rank stands still and goes on."""
        return self.form == PAUSE

    @property
    def label(self) -> Cause:
        """The cause that a verdict should name."""
        return self.cause if self.telling is Telling.TRUE else Cause.UNKNOWN

    @property
    def of_node(self) -> bool:
        """Whether it is a node's."""
        return self.whole_node or self.cause in (*NETWORK, Cause.SOFTWARE)


@dataclass(frozen=True, slots=True)
class SyntheticFleet:
    """A run to make up: one rank a GPU, 8 GPUs a node.

    Attributes:
        dp: Replicas.
        pp: Stages.
        tp: Tensor-parallel ranks.
        steps: How many.
        step_seconds: Of a step in which nothing is wrong.
        resolution: Of the windows.
        scrape_seconds: Between two scrapes of a node.
        faults: What is injected; none = healthy.
        benign: What is normal and slows steps.
        defects: What telemetry lacks.
        variant: Name in synth.variant VARIANTS.
        seed: Of all that is drawn.
        difficulties: What is not tidy; none = the easy level.
        decoys: Faults of telemetry alone: no rank is slow by them, and they are no truth.
        lacking: (node, source) that tells nothing.
    """

    dp: int
    pp: int = 1
    tp: int = 1
    steps: int = 600
    step_seconds: float = 2.0
    resolution: Resolution = Resolution.SCRAPE
    scrape_seconds: float = 15.0
    faults: tuple[Fault, ...] = ()
    benign: tuple[Benign, ...] = ()
    defects: tuple[Defect, ...] = ()
    variant: str = "usual"
    seed: int = 0
    difficulties: tuple[Difficulty, ...] = ()
    decoys: tuple[Fault, ...] = ()
    lacking: tuple[tuple[int, Source], ...] = ()

    def __post_init__(self) -> None:
        if self.world % GPUS_PER_NODE:
            raise SynthError(
                f"dp {self.dp} x pp {self.pp} x tp {self.tp} is {self.world} ranks;"
                f" it must be a multiple of {GPUS_PER_NODE}"
            )
        for fault in (*self.faults, *self.decoys):
            if not 0 <= fault.place < self.world:
                raise SynthError(
                    f"a {fault.cause} fault is at rank {fault.place}; ranks are 0 to"
                    f" {self.world - 1}"
                )

    @property
    def world(self) -> int:
        """Ranks."""
        return self.dp * self.pp * self.tp

    def has(self, difficulty: Difficulty) -> bool:
        """Whether it is not tidy in this way."""
        return difficulty in self.difficulties

    @property
    def nodes(self) -> int:
        """Nodes."""
        return self.world // GPUS_PER_NODE

    @property
    def untimed(self) -> tuple[int, ...]:
        """Ranks whose waits nobody timed."""
        if Defect.UNTIMED in self.defects:
            return tuple(range(self.world))
        if Defect.PARTLY_UNTIMED not in self.defects:
            return ()
        faulty = {fault.place for fault in self.faults}
        return tuple(rank for rank in range(self.world) if rank % 4 == 3 and rank not in faulty)


# Difficulties of real fleets; each can be switched on alone.
#
# Each is something that verdicts failed on with recorded machines, public traces or somebody else's
# simulator, told in general terms; none is the case of one rule.


SHARE = 0.22
"""Of hard runs that have each: about four of them in a run, all pairs met in two thousand."""
OF_NETWORK = (Cause.LINK, Cause.CONGESTION)
COUNTED = (Cause.ECC, Cause.XID, Cause.PCIE, Cause.NVLINK, *OF_NETWORK)
"""What is told by counters beside the slowness, not by what makes it slow."""
GRADUAL = tuple(cause for cause in COUNTED if cause is not Cause.XID)
"""Of these, what is more than one event."""
SUITS: Mapping[Difficulty, tuple[Cause, ...]] = {
    Difficulty.LATE: COUNTED,
    Difficulty.RAMPING: GRADUAL,
    Difficulty.FAINT: (*GRADUAL, Cause.HOST_CPU, Cause.THERMAL, Cause.POWER),
    Difficulty.BURSTS: (
        Cause.FREEZE, Cause.DATA, Cause.HOST_CPU, Cause.PCIE, Cause.ECC, *OF_NETWORK, Cause.THERMAL,
    ),
    Difficulty.PERIODIC: (Cause.DATA, Cause.HOST_CPU, *OF_NETWORK, Cause.POWER),
    Difficulty.WHOLE_NODE: (Cause.HOST_CPU, Cause.THERMAL, Cause.POWER, Cause.DATA),
    Difficulty.TENSOR_GROUP: (Cause.NVLINK,),
    Difficulty.WRITER: (Cause.CHECKPOINT,),
}  # fmt: skip
"""The causes that it is about; the others can go with any."""
LAYOUTS = frozenset({Difficulty.SMALL_DP, Difficulty.WHOLE_STAGE})
"""Of these a run has one at most."""
TEMPORAL = frozenset({Difficulty.BURSTS, Difficulty.PERIODIC})
