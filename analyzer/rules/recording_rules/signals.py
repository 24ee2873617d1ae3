"""The signals that recording rules compare between peers: one value a rank, in PromQL.

A value is computed a rank and joined with `lockstep:rank:place`, which has at most one series a
rank: an info series per attempt, or a rank that two collectors report, is no second match.
"""

from dataclasses import dataclass

from lockstep.analyzer.read.prometheus.questions import own_per_step
from lockstep.collector.contract import metrics

WINDOW = "1m"
"""Four scrapes at 15 s. A range must hold two scrapes or `rate` is silent: scrape every 30 s or
less."""
PLACE = "lockstep:rank:place"
PLACE_LABELS = ("world_size", "dp", "pp", "tp", "node", "gpu", "uuid")
STRATUM = ("run", "pp", "tp")
"""Ranks that must behave alike (lockstep.analyzer.stats.peer_groups)."""
ABSOLUTE_ZERO = -273.15
"""In Celsius. A comparison is never true of NaN: it keeps every reading and drops none-readings."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A value of a rank that its stratum has in common.

    Attributes:
        name: In the recorded names, `lockstep:<name>:z`.
        steps: (recorded suffix, expression) in the order of evaluation; the last is `avg1m`.
        floor: Smallest deviation that counts, in the signal's unit; it is added to the robust
            spread, so that peers who are exactly alike do not make noise an outlier.
        share: The same as a share of the stratum's median.
        high: Whether a suspect lies above its peers (True), below (False) or either (None).
    """

    name: str
    steps: tuple[tuple[str, str], ...]
    floor: float
    share: float
    high: bool | None

    def recorded(self, suffix: str) -> str:
        """The name of a recorded series."""
        return f"lockstep:{self.name}:{suffix}"


def _rate(metric: metrics.Metric, selector: str = "") -> str:
    return f"rate({metric.name}{selector}[{WINDOW}])"


def _of_rank(value: str) -> str:
    """A value by (run, rank) with the labels of the rank's place."""
    return f"{value}\n* on (run, rank) group_left ({', '.join(PLACE_LABELS)})\n{PLACE}"


def _of_gpu(metric: metrics.Metric, selector: str, above: str) -> str:
    """A GPU's gauge for each rank on it; `above` holds for every reading and not for NaN."""
    return (
        f'{PLACE}{{uuid!=""}}\n'
        "* on (uuid) group_left ()\n"
        f'max by (uuid) (avg_over_time({metric.name}{{{selector}uuid!=""}}[{WINDOW}]) {above})'
    )


def _own() -> str:
    return _of_rank(f"(\n{own_per_step(WINDOW)}\n)")


def _collective() -> str:
    group = '{group="dp"}'
    return _of_rank(
        f"sum by (run, rank) ({_rate(metrics.TRAIN_COLLECTIVE, group)} >= 0)\n"
        f"/ on (run, rank)\n(sum by (run, rank) ({_rate(metrics.TRAIN_COLLECTIVES, group)}) > 0)"
    )


def _wait() -> str:
    by = ", ".join(STRATUM)
    each = "lockstep:train_wait_seconds:collective1m"
    return f"{each}\n- on ({by}) group_left ()\nmin by ({by}) ({each})"


OWN = Signal("train_own_seconds", (("avg1m", _own()),), floor=1e-4, share=0.01, high=True)
"""Own seconds a step. docs/method/peers.md records from 1 to 2 % of own time; 0.1 ms is a
scheduler's slice."""
WAIT = Signal(
    "train_wait_seconds",
    (("collective1m", _collective()), ("avg1m", _wait())),
    floor=1e-3, share=0.02, high=False,
)  # fmt: skip
"""Seconds a collective of the data-parallel group, less the least of the group: the late rank waits
least (docs/method/waits.md). With tp and pp alike, the group's members are the stratum."""
TEMPERATURE = Signal(
    "gpu_temperature_celsius",
    (("avg1m", _of_gpu(metrics.GPU_TEMPERATURE, 'sensor="gpu",', f"> {ABSOLUTE_ZERO}")),),
    floor=2.0, share=0.0, high=True,
)  # fmt: skip
"""The sensor reports whole degrees."""
CLOCK = Signal(
    "gpu_sm_clock_hertz",
    (("avg1m", _of_gpu(metrics.GPU_CLOCK, 'domain="sm",', ">= 0")),),
    floor=15e6, share=0.0, high=False,
)  # fmt: skip
"""The SM clock moves in steps of 15 MHz (`nvidia-smi -q -d SUPPORTED_CLOCKS`)."""
POWER = Signal(
    "gpu_power_watts",
    (("avg1m", _of_gpu(metrics.GPU_POWER, "", ">= 0")),),
    floor=0.0, share=0.05, high=None,
)  # fmt: skip
"""NVML reports power to within 5 % (nvmlDeviceGetPowerUsage)."""

SIGNALS: tuple[Signal, ...] = (OWN, WAIT, TEMPERATURE, CLOCK, POWER)
