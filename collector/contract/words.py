"""The closed vocabularies: phases, groups, operations, fault kinds, exit states."""

import re
import signal
from enum import StrEnum

from lockstep.collector.contract.kubernetes import Family

# Why a rank is slow or gone, one row a cause; `analyzer.causes.specs` has what is known of each.


class Cause(StrEnum):
    """The closed vocabulary of causes, in the order in which evidence is weighed.

    A row is the word, and the condition that it makes bad at its node; without one it is the run's
    own doing. To each but the last belongs a file in `analyzer/causes/specs`.
    """

    _value_: str
    family: Family | None

    def __new__(cls, word: str, family: Family | None = None) -> "Cause":
        """A word with the condition of its row."""
        cause = str.__new__(cls, word)
        cause._value_ = word
        cause.family = family
        return cause

    THERMAL = "thermal", Family.GPU
    POWER = "power", Family.GPU
    ECC = "ecc", Family.GPU
    XID = "xid", Family.GPU
    PCIE = "pcie", Family.GPU
    NVLINK = "nvlink", Family.NVLINK
    SLOW_GPU = "slow-gpu", Family.GPU
    HOST_CPU = "host-cpu", Family.STRAGGLER
    DATA = "data", Family.STRAGGLER
    GC = "gc"
    CHECKPOINT = "checkpoint"
    LINK = "link", Family.RDMA
    CONGESTION = "congestion", Family.RDMA
    FREEZE = "freeze", Family.STRAGGLER
    CRASH = "crash", Family.STRAGGLER
    SOFTWARE = "software"
    UNKNOWN = "unknown", Family.STRAGGLER


FAMILY: dict[str, Family] = {cause: cause.family for cause in Cause if cause.family is not None}
"""Cause -> condition of its node."""


class Phase(StrEnum):
    """A part of one step on one rank; `other` is the explicit remainder."""

    DATA = "data"
    FORWARD = "forward"
    BACKWARD = "backward"
    GRAD_SYNC = "grad_sync"
    OPTIMIZER = "optimizer"
    CHECKPOINT = "checkpoint"
    EVAL = "eval"
    OTHER = "other"


class StartPart(StrEnum):
    """A part of what a rank does before its first ordinary step."""

    LAUNCH = "launch"
    IMAGE = "image"
    PROGRAM = "program"
    RENDEZVOUS = "rendezvous"
    LOAD = "load"
    COMPILE = "compile"
    WARMUP = "warm-up"
    UNKNOWN = "unknown"


PHASES: tuple[Phase, ...] = tuple(Phase)
"""Phases in ring order; append only."""

EXTERNAL_PROGRAM = "exec"
"""The workload, as run.json tells it, that is somebody else's program."""


class Means(StrEnum):
    """How steps of somebody else's program come to be known, the best first: a ring's first tag."""

    SDK = "by the program"
    OPTIMIZER = "by torch's optimizer"
    LOG = "by the log"


GROUPS: tuple[str, ...] = ("world", "dp", "pp", "tp", "ep", "cp")
"""Process groups in ring order; append only."""

STEP_TAGS: tuple[str, ...] = ("gc", "eval", "checkpoint", "warmup")
"""Why a step is slow by design; bit i of the ring's tag word is entry i. Append only."""

OPS: tuple[str, ...] = (
    "none",
    # Public op-trace names (ByteDance-Seed/StragglerAnalysis; most are Megatron-LM timer names).
    "forward-compute",
    "backward-compute",
    "forward-send",
    "forward-recv",
    "backward-send",
    "backward-recv",
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "optimizer-clip-main-grad",
    "optimizer",
    "gc",
    # Operations without a public name.
    "dp-all-reduce",
    "tp-all-reduce",
    "tp-all-gather",
    "tp-reduce-scatter",
    "data-load",
    "world-all-reduce",
    "world-broadcast",
    "world-barrier",
)
"""Operation names in ring order (the ring stores the index); append only."""

COLLECTIVE_OPS: frozenset[str] = frozenset(
    op
    for op in OPS
    if op.endswith(("-send", "-recv", "-all-gather", "-all-reduce", "-reduce-scatter"))
    or op.startswith("world-")
)
"""Operations in which a rank waits for its peers."""


class FaultKind(StrEnum):
    """What can be injected (docs/reference/command-line.md)."""

    COMPUTE = "compute"
    CPU_QUOTA = "cpu-quota"
    DATA = "data"
    GC = "gc"
    FREEZE = "freeze"
    CRASH = "crash"
    LINK_BANDWIDTH = "link-bandwidth"
    LINK_DELAY = "link-delay"
    THERMAL = "thermal"
    POWER = "power"
    ECC = "ecc"
    XID = "xid"
    PCIE = "pcie"
    NVLINK = "nvlink"


FAULT_CAUSES: dict[FaultKind, Cause] = {
    FaultKind.COMPUTE: Cause.SLOW_GPU,
    FaultKind.CPU_QUOTA: Cause.HOST_CPU,
    FaultKind.DATA: Cause.DATA,
    FaultKind.GC: Cause.GC,
    FaultKind.FREEZE: Cause.FREEZE,
    FaultKind.CRASH: Cause.CRASH,
    FaultKind.LINK_BANDWIDTH: Cause.LINK,
    FaultKind.LINK_DELAY: Cause.LINK,
    FaultKind.THERMAL: Cause.THERMAL,
    FaultKind.POWER: Cause.POWER,
    FaultKind.ECC: Cause.ECC,
    FaultKind.XID: Cause.XID,
    FaultKind.PCIE: Cause.PCIE,
    FaultKind.NVLINK: Cause.NVLINK,
}
"""The cause a verdict should name for each injected fault."""

CLOCK_EVENT_REASONS: tuple[str, ...] = (
    "sw_power_cap",
    "hw_slowdown",
    "sw_thermal",
    "hw_thermal",
    "hw_power_brake",
)
"""Clock-event (throttle) reasons that slow a GPU (NVML nvmlClocksEventReasons)."""

CLOCK_EVENT_BITS: dict[str, int] = {
    "idle": 0x1,
    "app_clocks": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
    "display": 0x100,
}
"""Every clock-event reason and its bit."""


class RankState(StrEnum):
    """What the ring's header says about its rank; the index is stored."""

    STARTING = "starting"
    RUNNING = "running"
    FINISHED = "finished"
    PEER_LOST = "peer_lost"
    FAILED = "failed"
    STOPPED = "stopped"


LIVING_STATES = frozenset({RankState.STARTING, RankState.RUNNING})
"""What a rank says that has not ended; of one that is gone: that it could say nothing more."""


OTHER = "other"
"""What counters that have counted nothing yet are called together."""
PORT_ERRORS: tuple[str, ...] = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
    "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_discards",
    "port_xmit_constraint_errors", "port_rcv_constraint_errors", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "VL15_dropped",
)  # fmt: skip
"""Error registers of an InfiniBand port under `counters/` (InfiniBand architecture 16.1.3.5,
PortCounters): kinds of `lockstep_ib_port_errors_total`."""
XMIT_WAIT = "port_xmit_wait"
"""The register behind `lockstep_ib_port_xmit_wait_total`."""

RANK_STATES: tuple[RankState, ...] = tuple(RankState)


_NUMBER = re.compile(r"\b0x[0-9a-f]+|\d[\d.,]*(?:\s*(?:[KMGT]i?B|bytes)\b)?", re.IGNORECASE)
"""With the unit of a size: it differs between ranks as the number does."""


def without_numbers(error: str) -> str:
    """An exception as other ranks raise it too: GPUs, sizes, addresses and pids left out."""
    return _NUMBER.sub("#", error)


OWN_SIGNALS = (signal.SIGABRT, signal.SIGPIPE)
"""A program that fails because of another one ends itself by these; the others come from outside,
or from a fault of its own."""


class ExitCode:
    """Exit codes (docs/reference/command-line.md); 64 and above follow BSD sysexits."""

    OK = 0
    WARNING = 1
    CULPRIT = 2
    UNKNOWN = 3
    USAGE = 64
    BAD_INPUT = 65
    UNREACHABLE = 69
    INTERNAL = 70
    INTERRUPTED = 130
