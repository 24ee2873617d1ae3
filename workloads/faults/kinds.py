"""Which kinds of fault there are, and where in a step each of them acts."""

from lockstep.collector.contract.words import FaultKind

DEVICE_KINDS = (
    FaultKind.COMPUTE, FaultKind.THERMAL, FaultKind.POWER, FaultKind.ECC, FaultKind.XID,
)  # fmt: skip
"""Lengthen the device's time: lower clocks, retries, restarted kernels."""
DATA_KINDS = (FaultKind.DATA, FaultKind.PCIE)
"""Lengthen the data phase: the loader is late, or the copy from host to device is slow."""
COPY_KINDS = (FaultKind.NVLINK,)
"""Lengthen the way of gradients out of the device."""
STOP_KINDS = (FaultKind.FREEZE, FaultKind.CRASH)
"""Stop the rank for good. A fatal XID does as well (Fault.stops)."""
GPU_KINDS = (
    FaultKind.THERMAL, FaultKind.POWER, FaultKind.ECC, FaultKind.XID, FaultKind.PCIE,
    FaultKind.NVLINK,
)  # fmt: skip
"""The simulated GPU tells of them."""

BUILT: tuple[FaultKind, ...] = (
    FaultKind.COMPUTE,
    FaultKind.DATA,
    FaultKind.CPU_QUOTA,
    FaultKind.FREEZE,
    FaultKind.CRASH,
    FaultKind.THERMAL,
    FaultKind.POWER,
    FaultKind.GC,
    FaultKind.ECC,
    FaultKind.XID,
    FaultKind.PCIE,
    FaultKind.NVLINK,
    FaultKind.LINK_BANDWIDTH,
    FaultKind.LINK_DELAY,
)
"""Kinds that this version can inject; append only, because draws pick by place."""
