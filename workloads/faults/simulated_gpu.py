"""The simulated GPU that belongs to an emulated device: it tells what a real one would tell.

One file a subject, and each advances from step to step; nothing here slows the rank, which the
injector does by as much as these files say.

Heat, power and clocks of the simulated GPU.

First-order physics, enough to be consistent in sign, order and size: temperature follows power
with one time constant, a thermal limit or a power cap lowers the SM clock by the factor by which
the emulated device really slows, and the matching clock-event counter runs for as long as that
lasts.

Memory errors of the simulated GPU, and the rows that are replaced for them.

As NVIDIA's "GPU Memory Error Management" has it of A100 and later: single-bit errors are corrected
and counted; an uncorrectable one is contained, its row is put down for replacement, which XID 63
tells, and stays pending until the GPU is reset. Volatile counts begin with the driver, aggregate
ones are the part's life; a simulated part begins its life with the run.
"""

import json
import math
import os
import random
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

from lockstep.collector.contract.device import (
    ECC_COUNTS,
    MOST_LINKS,
    NVLINK_ERRORS,
    REMAP_CAUSES,
    DeviceState,
)
from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.contract.words import CLOCK_EVENT_REASONS, FaultKind
from lockstep.workloads.measure.process import wall_minus_monotonic_ns


@dataclass(frozen=True, slots=True)
class Trouble:
    """The faults that a step was lived through with.

    Attributes:
        kinds: Those in force that a GPU can tell of.
        factor: By how much the device is slower now, >= 1.
        heating: Cooling has failed, whether or not the clock has fallen yet.
        xids: Errors that the driver logs now.
    """

    kinds: frozenset[FaultKind] = frozenset()
    factor: float = 1.0
    heating: bool = False
    xids: tuple[int, ...] = ()


NONE = Trouble()


# Nominal values of the simulated GPU: those of an H100 SXM data sheet, where it has them.

MODEL = "Lockstep simulated GPU"
CLOCK_MAX_HERTZ = 1.980e9
POWER_LIMIT_WATTS = 700.0
POWER_IDLE_WATTS = 110.0
POWER_CAPPED_WATTS = 400.0
SLOWDOWN_CELSIUS = 90.0
SHUTDOWN_CELSIUS = 95.0
HEALTHY_CELSIUS = 64.0
OVERHEATED_CELSIUS = 93.0
MEMORY_BYTES = 80 * 2**30
THERMAL_SECONDS = 0.8
"""Time constant of the temperature; short, because the runs are."""
HEATING_LEAD_SECONDS = 1.8
"""Cooling fails this long before the clock falls: temperature first, then the clock."""
PCIE_WIDTH = 16.0
PCIE_GENERATION = 5.0


class SimulatedGpu:
    """State of one simulated GPU, advanced once a step by the rank that drives the device."""

    def __init__(self, gpu: int, uuid: str, seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311 - natural spread between parts, not a secret
        self.gpu = gpu
        self.uuid = uuid
        self._clocks = Clocks(ambient=dice.gauss(0.0, 1.0))
        self._memory = Memory(dice)
        self._links = Links()
        self._xids: dict[str, float] = {}
        self._xid_last: dict[str, float] = {}

    def advance(self, seconds: float, busy: float, trouble: Trouble = NONE) -> None:
        """Live through one step.

        Args:
            seconds: Wall time of the step.
            busy: Share of it in which the device computed, 0 to 1.
            trouble: What slows the device now, or soon will.
        """
        self._clocks.advance(seconds, busy, trouble)
        self._links.advance(seconds, trouble)
        for xid in (*self._memory.advance(seconds, trouble), *trouble.xids):
            now = monotonic_ns() + wall_minus_monotonic_ns()[0]
            # The time first: who reads in between finds no count without one.
            self._xid_last = {**self._xid_last, str(xid): round(now / 1e9, 3)}
            self._xids = {**self._xids, str(xid): self._xids.get(str(xid), 0.0) + 1.0}

    def state(self) -> DeviceState:
        """What it tells now."""
        clocks, memory, links, xids = self._clocks, self._memory, self._links, self._xids
        return DeviceState(
            gpu=self.gpu,
            uuid=self.uuid,
            model=MODEL,
            driver="simulated",
            time_ns=monotonic_ns(),
            pid=os.getpid(),
            utilization_ratio=round(clocks.utilization, 4),
            memory_used_bytes=0.62 * MEMORY_BYTES,
            memory_total_bytes=float(MEMORY_BYTES),
            temperature_celsius=round(clocks.temperature, 2),
            slowdown_limit_celsius=SLOWDOWN_CELSIUS,
            shutdown_limit_celsius=SHUTDOWN_CELSIUS,
            power_watts=round(clocks.power, 2),
            power_limit_watts=clocks.power_limit,
            power_limit_default_watts=POWER_LIMIT_WATTS,
            energy_joules=round(clocks.energy, 3),
            sm_clock_hertz=round(clocks.clock),
            sm_clock_max_hertz=CLOCK_MAX_HERTZ,
            clock_event_seconds={k: round(v, 6) for k, v in clocks.throttled.items()},
            clock_event_active=list(clocks.reasons),
            ecc_errors=dict(memory.errors),
            remapped_rows=dict(memory.rows),
            row_remap_pending=memory.pending,
            row_remap_failed=0.0,
            pcie_width=links.width,
            pcie_width_max=PCIE_WIDTH,
            pcie_generation=links.generation,
            pcie_generation_max=PCIE_GENERATION,
            pcie_replay=links.replays,
            nvlink_up=dict(links.up),
            nvlink_errors=links.errors,
            xid_errors=xids,
            xid_last={xid: self._xid_last[xid] for xid in xids},
        )

    def write(self, path: Path) -> None:
        """Replace the state file atomically."""
        write_whole(path, json.dumps(self.state()), mode=None)


_REASONS: dict[FaultKind, str] = {
    FaultKind.THERMAL: "hw_thermal",
    FaultKind.POWER: "sw_power_cap",
}
_UTILIZATION_SECONDS = 0.5


class Clocks:
    """What the GPU draws, how hot it is, and how fast it runs.

    Args:
        ambient: By how much this part is warmer than another.
    """

    def __init__(self, ambient: float) -> None:
        self._healthy = HEALTHY_CELSIUS + ambient
        self.temperature = self._healthy
        self.clock = CLOCK_MAX_HERTZ
        self.power = POWER_IDLE_WATTS
        self.power_limit = POWER_LIMIT_WATTS
        self.energy = 0.0
        self.utilization = 0.0
        self.throttled = dict.fromkeys(CLOCK_EVENT_REASONS, 0.0)
        self.reasons: list[str] = []

    def advance(self, seconds: float, busy: float, trouble: Trouble) -> None:
        """Live through one step, of which the device computed a share."""
        self.reasons = [reason for kind, reason in _REASONS.items() if kind in trouble.kinds]
        capped = FaultKind.POWER in trouble.kinds
        self.power_limit = POWER_CAPPED_WATTS if capped else POWER_LIMIT_WATTS
        self.clock = CLOCK_MAX_HERTZ / (trouble.factor if self.reasons else 1.0)
        self.utilization = _follow(self.utilization, busy, seconds, _UTILIZATION_SECONDS)
        full = POWER_LIMIT_WATTS * 0.93 * (self.clock / CLOCK_MAX_HERTZ)
        drawn = min(POWER_IDLE_WATTS + busy * (full - POWER_IDLE_WATTS), self.power_limit)
        # A capped part stays at its cap: that is what makes it slow.
        self.power = self.power_limit * 0.995 if capped else drawn
        target = OVERHEATED_CELSIUS if trouble.heating else self._healthy
        self.temperature = _follow(self.temperature, target, seconds, THERMAL_SECONDS)
        if FaultKind.THERMAL in trouble.kinds:
            self.temperature = max(self.temperature, SLOWDOWN_CELSIUS)
        self.energy += self.power * seconds
        for reason in self.reasons:
            self.throttled[reason] += seconds * busy


def _follow(value: float, target: float, seconds: float, constant: float) -> float:
    """First-order lag."""
    return target + (value - target) * math.exp(-seconds / constant)


DEGRADED_WIDTH = 4.0
DEGRADED_GENERATION = 4.0
REPLAYS_PER_SECOND = 25.0
DOWN_LINKS = (16, 17)
"""What the other links cannot carry for them comes late."""
NVLINK_ERRORS_PER_SECOND = {
    "all/crc_flit": 200.0, "all/crc_data": 80.0, "all/replay": 120.0, "all/recovery": 1.5,
}  # fmt: skip
"""A flit with a wrong checksum is replayed; where that does not help, the link is recovered."""


class Links:
    """State of the links, and what they have counted."""

    def __init__(self) -> None:
        self.width = PCIE_WIDTH
        self.generation = PCIE_GENERATION
        self._replays = 0.0
        self.up = {str(link): 1.0 for link in range(MOST_LINKS)}
        self._errors = dict.fromkeys(NVLINK_ERRORS, 0.0)

    @property
    def replays(self) -> float:
        """PCIe packets sent again."""
        return float(int(self._replays))

    @property
    def errors(self) -> dict[str, float]:
        """Errors of all NVLinks, by kind."""
        return {kind: float(int(count)) for kind, count in self._errors.items()}

    def advance(self, seconds: float, trouble: Trouble) -> None:
        """Live through one step."""
        slow = FaultKind.PCIE in trouble.kinds
        self.width = DEGRADED_WIDTH if slow else PCIE_WIDTH
        self.generation = DEGRADED_GENERATION if slow else PCIE_GENERATION
        if slow:
            self._replays += REPLAYS_PER_SECOND * seconds
        broken = FaultKind.NVLINK in trouble.kinds
        for link in DOWN_LINKS:
            self.up[str(link)] = float(not broken)
        if broken:
            for kind, rate in NVLINK_ERRORS_PER_SECOND.items():
                self._errors[kind] += rate * seconds


CORRECTED_PER_SECOND = 40.0
FIRST_UNCORRECTED_SECONDS = 1.0
"""Corrected errors come first."""
UNCORRECTED_SECONDS = 4.0
"""Between two uncorrectable ones."""
ROW_REMAPPED_XID = 63
_BURST = 8
"""Most corrected errors in one go: a bad row is read again and again."""


class Memory:
    """Counts of a memory that goes bad while an ecc fault is in force."""

    def __init__(self, dice: random.Random) -> None:
        self.errors = dict.fromkeys(ECC_COUNTS, 0.0)
        self.rows = dict.fromkeys(REMAP_CAUSES, 0.0)
        self.pending = 0.0
        self._dice = dice
        self._due = 0.0
        self._bad_seconds = 0.0
        self._next_uncorrected = FIRST_UNCORRECTED_SECONDS

    def advance(self, seconds: float, trouble: Trouble) -> tuple[int, ...]:
        """Live through one step; the XIDs that the driver logs."""
        if FaultKind.ECC not in trouble.kinds:
            return ()
        self._bad_seconds += seconds
        self._due += CORRECTED_PER_SECOND * seconds
        while self._due >= 1.0:
            burst = float(self._dice.randint(1, _BURST))
            self._due -= burst
            self._count("corrected", burst)
        if self._bad_seconds < self._next_uncorrected:
            return ()
        self._next_uncorrected += UNCORRECTED_SECONDS
        self._count("uncorrected", 1.0)
        self.rows["uncorrectable"] += 1.0
        self.pending = 1.0
        return (ROW_REMAPPED_XID,)

    def _count(self, kind: str, errors: float) -> None:
        for counter in ("volatile", "aggregate"):
            self.errors[f"{kind}/{counter}"] += errors
