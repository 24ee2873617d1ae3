"""What makes real fleets harder to judge than tidy ones: each can be switched on alone.

Each is something that verdicts failed on with recorded machines, public traces or somebody else's
simulator, told in general terms; none is the case of one rule.
"""

from collections.abc import Mapping
from enum import StrEnum

from lockstep.collector.contract.words import Cause


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
