"""The simulated GPU's state file: written by the rank that drives the emulated device.

`gpu-<index>.json` beside the rank rings, replaced atomically several times a second. The
collector's `simulated` source exports it as it stands and exports nothing when it is older than
`MAX_AGE_SECONDS`. Everything made from it says simulated.
"""

from typing import TypedDict

MAX_AGE_SECONDS = 3.0
ECC_COUNTS: tuple[str, ...] = (
    "corrected/volatile", "uncorrected/volatile", "corrected/aggregate", "uncorrected/aggregate",
)  # fmt: skip
"""Type and counter of memory errors, as labels of GPU_ECC_ERRORS."""
REMAP_CAUSES: tuple[str, ...] = ("correctable", "uncorrectable")
NVLINK_ERRORS: tuple[str, ...] = ("all/crc_flit", "all/crc_data", "all/replay", "all/recovery")
"""Link and kind, as labels of GPU_NVLINK_ERRORS; `all` = their sum over the links."""
MOST_LINKS = 18
"""NVLinks of a GPU (H100 SXM data sheet)."""


class DeviceState(TypedDict):
    """What the simulated GPU tells; base units."""

    gpu: int
    uuid: str
    model: str
    driver: str
    time_ns: int
    """CLOCK_MONOTONIC at writing."""
    pid: int
    utilization_ratio: float
    memory_used_bytes: float
    memory_total_bytes: float
    temperature_celsius: float
    slowdown_limit_celsius: float
    shutdown_limit_celsius: float
    power_watts: float
    power_limit_watts: float
    power_limit_default_watts: float
    energy_joules: float
    sm_clock_hertz: float
    sm_clock_max_hertz: float
    clock_event_seconds: dict[str, float]
    """Cumulative throttle time by reason (words.CLOCK_EVENT_REASONS)."""
    clock_event_active: list[str]
    ecc_errors: dict[str, float]
    """By ECC_COUNTS."""
    remapped_rows: dict[str, float]
    """By REMAP_CAUSES."""
    row_remap_pending: float
    """1 if rows wait for a reset."""
    row_remap_failed: float
    """1 if a row could not be replaced."""
    pcie_width: float
    """Lanes in use."""
    pcie_width_max: float
    pcie_generation: float
    pcie_generation_max: float
    pcie_replay: float
    """Packets sent again."""
    nvlink_up: dict[str, float]
    """1 if the link is up, by its number."""
    nvlink_errors: dict[str, float]
    """By NVLINK_ERRORS."""
    xid_errors: dict[str, float]
    """XID events by number; unlike the rest they are kept when the rank is gone: the driver's
    log outlives the process."""
    xid_last: dict[str, float]
    """Unix time of the last such event."""


def file_name(gpu: int) -> str:
    """The state file of a simulated GPU inside its LOCKSTEP_DIR."""
    return f"gpu-{gpu}.json"
