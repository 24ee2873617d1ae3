"""What a metric can be: outside its range a value says that its source erred, and is left out.

A metric's range is its unit's, by the end of its name, unless its row has a narrower or wider one.
Ranges are physical and wide: they keep garbage off the page (a driver's -1 as 4294967295, another
sensor's value, a unit mixed up), and judge nothing. DCGM has told utilisation of 4294967295 %
(issue 199) and dcgm-exporter temperatures of 644245923 °C (issue 312).
"""

import math
from typing import NamedTuple


class Range(NamedTuple):
    """From the lowest to the highest value, both included, and why there."""

    low: float
    high: float
    reason: str

    def holds(self, value: float) -> bool:
        """Whether the value can be; NaN, an absent value, can."""
        return self.low <= value <= self.high or value != value


_LIFETIME = 1e9
"""Seconds, 32 years: no machine is up for longer."""
_PROCESSORS = 1e4

ANY = Range(-math.inf, math.inf, "a program's own number, infinity included")
FLAG = Range(0, 1, "no or yes")
COUNT = Range(0, 2.0**64, "a register has 64 bits at most, and counts from 0")
THINGS = Range(0, 2.0**31 - 1, "things of one node or run; 4294967295 is a driver's -1")
SHARE = Range(0, 1.05, "a share; its two parts may be of slightly different moments")
BIT_ERRORS = Range(0, 1, "a share of the bits")
RELATION = Range(0, 1e9, "one time or rate over another")
SECONDS_COUNTED = Range(
    0, _PROCESSORS * _LIFETIME, "32 years, summed over 10,000 processors or ranks"
)
SECONDS = Range(0, 10 * _LIFETIME, "a duration, by one clock")
AGE = Range(-3600, 10 * _LIFETIME, "clocks of two machines may differ by an hour")
TIME = Range(0, 1e11, "Unix time until the year 5138")
CLOCK = Range(
    0, 4_102_444_800, "a machine's clock: 1970, where it begins without a battery, to 2100"
)
CORRECTION = Range(-1e6, 1e6, "what is left to correct of a clock, in either direction")
BYTES = Range(0, 2.0**57, "memory: no processor has more than 57 bits of addresses")
BYTES_COUNTED = Range(0, 1.6e13 * _LIFETIME, "all NVLinks of 8 GPUs, 1.8 TB/s each, for 32 years")
BYTES_PER_SECOND = Range(0, 1e14, "beyond all NVLinks of 8 GPUs, 1.8 TB/s each")
JOULES = Range(0, 1e4 * _LIFETIME, "10 kW for 32 years")
WATTS = Range(0, 1e4, "a board of one GPU takes 1.4 kW today, a superchip 2.7 kW")
HERTZ = Range(0, 3e10, "GDDR7 is reported as 14 GHz, processors run at up to 6 GHz")
CELSIUS = Range(-60, 150, "silicon shuts down below 130 °C; machines stand in deserts and ice")
CELSIUS_MARGIN = Range(
    -200, 200, "between two temperatures; T.Limit of a shutdown lies below 0 (H100: -8)"
)
FLOPS = Range(0, 1e30, "1e16 a second and GPU, of 100,000 GPUs, for 32 years")
GPU_BYTES = Range(0, 2.0**44, "16 TiB, 50 times a GPU's memory")
PCIE_LANES = Range(0, 32, "PCIe has 32 lanes at most")
PCIE_GENERATION = Range(0, 10, "PCIe 7.0 is of 2025")
PERFORMANCE_STATE = Range(0, 15, "P0 to P15 (nvmlPstates_t); 32 means unknown")
RECOVERY_ACTION = Range(0, 31, "nvmlDeviceGpuRecoveryAction_t has 8, and grows")
GPUS_MISSING = Range(-256, 256, "of one node; the largest has 72 behind one switch")
NVLINKS = Range(0, 64, "of one GPU; NVLink 5 has 18")
XID = Range(0, 9999, "NVIDIA's catalogue ends below 200")
IB_STATE = Range(0, 5, "enum ib_port_state of rdma/ib_verbs.h")
IB_ACTIVE = 4.0
"""Of these the state in which the port carries data (IB_PORT_ACTIVE)."""
IB_PHYSICAL_STATE = Range(0, 7, "enum ib_port_phys_state of rdma/ib_verbs.h")

OF_UNITS: tuple[tuple[str, Range], ...] = (
    ("_info", FLAG),
    ("_bytes_per_second", BYTES_PER_SECOND),
    ("_timestamp_seconds", TIME),
    ("_age_seconds", AGE),
    ("_seconds_total", SECONDS_COUNTED),
    ("_seconds_sum", SECONDS_COUNTED),
    ("_seconds", SECONDS),
    ("_bytes_total", BYTES_COUNTED),
    ("_bytes", BYTES),
    ("_joules_total", JOULES),
    ("_watts", WATTS),
    ("_hertz", HERTZ),
    ("_celsius", CELSIUS),
    ("_ratio", SHARE),
    ("_total", COUNT),
    ("_bucket", COUNT),
    ("_count", COUNT),
    ("_sequence", COUNT),
    ("_collective", COUNT),
    ("_collectives_launched", COUNT),
    ("_lag", COUNT),
)
"""By the end of a metric's name, which is its unit; the first that fits."""


def of_unit(name: str) -> Range:
    """The range of a metric whose row has none of its own; without a unit it numbers things."""
    return next((within for end, within in OF_UNITS if name.endswith(end)), THINGS)
