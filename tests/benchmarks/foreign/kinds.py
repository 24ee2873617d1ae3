"""Kinds of runs: what is injected, or what is benign about them, and which causes are right."""

from collections.abc import Mapping, Sequence

from lockstep.collector.contract.words import Cause

GPU_FAULTS = ("thermal", "power", "powernode", "slowgpu", "ecc", "xid", "pcie", "nvlink")
HOST_FAULTS = ("hostnode", "hostrank", "datanode", "datarank", "gc", "swap")
NETWORK_FAULTS = ("portrate", "portloss", "portflap", "leaf")
CHECKPOINT_FAULTS = ("ckptrank", "ckptnode")
PAUSES = "freezetemp"
"""A process that stands still now and then, and goes on."""
STOPS = ("hang", "freeze", PAUSES, "crash", "xid79", "nodelost")
"""All but `PAUSES` end the run."""
BENIGN = (
    "plain", "batchwarm", "seqwarm", "evals", "ckpts", "heavystage", "longseq", "uniform",
    "codechange", "cron", "bgtraffic", "decoys", "silent", "epoch", "restart", "powerbudget",
    "gcsync", "noisy", "asyncckpt", "missing", "skewreplica", "hotroom", "wander", "mixedfleet",
    "badscrape", "rank0eval", "rank0log", "rank0ckpt",
)  # fmt: skip
"""Healthy runs, most of them with something that is nobody's fault."""
LASTING_FAULTS = GPU_FAULTS + HOST_FAULTS + NETWORK_FAULTS + CHECKPOINT_FAULTS
INJECTED = LASTING_FAULTS + STOPS
OF_NODES = ("powernode", "hostnode", "datanode", "swap", "ckptnode", "nodelost")
"""All ranks of a node have these."""
ENDINGS = tuple(kind for kind in STOPS if kind != PAUSES)

CAUSES: Mapping[str, Sequence[Cause]] = {
    "thermal": [Cause.THERMAL],
    "power": [Cause.POWER],
    "powernode": [Cause.POWER],
    "slowgpu": [Cause.SLOW_GPU, Cause.UNKNOWN],
    "ecc": [Cause.ECC],
    "xid": [Cause.XID],
    "pcie": [Cause.PCIE],
    "nvlink": [Cause.NVLINK],
    "hostnode": [Cause.HOST_CPU],
    "hostrank": [Cause.HOST_CPU],
    "datanode": [Cause.DATA],
    "datarank": [Cause.DATA],
    "gc": [Cause.GC],
    "swap": [Cause.HOST_CPU, Cause.UNKNOWN],
    "portrate": [Cause.LINK],
    "portloss": [Cause.LINK],
    "portflap": [Cause.LINK],
    "leaf": [Cause.LINK, Cause.CONGESTION],
    "ckptrank": [Cause.CHECKPOINT],
    "ckptnode": [Cause.CHECKPOINT],
    "hang": [Cause.FREEZE, Cause.UNKNOWN, Cause.CRASH],
    "freeze": [Cause.FREEZE],
    "freezetemp": [Cause.FREEZE],
    "crash": [Cause.CRASH],
    "xid79": [Cause.XID, Cause.CRASH],
    "nodelost": [Cause.CRASH, Cause.FREEZE, Cause.UNKNOWN],
}
"""What a verdict may say of each kind."""
GPU, NVLINK, ECC, PORT_ERRORS = "gpu", "nvlink", "ecc", "ib_errors"
RUN_QUEUE, PRESSURE, DISK = "schedstat", "pressure", "disk"
MISSING_ODDS = (
    (GPU, 0.06), (PORT_ERRORS, 0.06), (RUN_QUEUE, 0.1), (PRESSURE, 0.1), (DISK, 0.15),
    (NVLINK, 0.1), (ECC, 0.08),
)  # fmt: skip
"""Families of telemetry that a cluster may not have, and how often it does not."""
CAUSE_TOLD_BY: Mapping[str, Sequence[str]] = {
    "thermal": [GPU], "power": [GPU], "powernode": [GPU], "ecc": [GPU, ECC], "xid": [GPU],
    "pcie": [GPU], "nvlink": [GPU, NVLINK], "xid79": [GPU], "portloss": [PORT_ERRORS],
    "portflap": [PORT_ERRORS], "hostnode": [RUN_QUEUE],
}  # fmt: skip
"""Families without any of which the cause cannot be known."""


def parts(kind: str) -> list[str]:
    """`a+b` is both at once."""
    return kind.split("+")
