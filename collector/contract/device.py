"""The simulated GPU's state file: written by the rank that drives the emulated device.

`gpu-<index>.json` beside the rank rings, replaced atomically several times a second. The
collector's `simulated` source exports it as it stands and exports nothing when it is older than
`MAX_AGE_SECONDS`. Everything made from it says simulated.
"""

from typing import TypedDict

MAX_AGE_SECONDS = 3.0


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


def file_name(gpu: int) -> str:
    """The state file of a simulated GPU inside its LOCKSTEP_DIR."""
    return f"gpu-{gpu}.json"
