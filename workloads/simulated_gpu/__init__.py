"""The simulated GPU that belongs to an emulated device: it tells what a real one would tell.

One file a subject, and each advances from step to step; nothing here slows the rank, which the
injector does by as much as these files say.
"""

import json
import os
import random
from pathlib import Path
from time import monotonic_ns

from collector.contract.device import DeviceState
from workloads.clocksync import wall_minus_monotonic_ns
from workloads.simulated_gpu.clocks import Clocks
from workloads.simulated_gpu.links import Links
from workloads.simulated_gpu.memory import Memory
from workloads.simulated_gpu.nominal import (
    CLOCK_MAX_HERTZ,
    HEATING_LEAD_SECONDS,
    MEMORY_BYTES,
    MODEL,
    PCIE_GENERATION,
    PCIE_WIDTH,
    POWER_LIMIT_WATTS,
    SHUTDOWN_CELSIUS,
    SLOWDOWN_CELSIUS,
)
from workloads.simulated_gpu.trouble import NONE, Trouble

__all__ = [
    "CLOCK_MAX_HERTZ", "HEATING_LEAD_SECONDS", "SLOWDOWN_CELSIUS", "SimulatedGpu", "Trouble",
]  # fmt: skip


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
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(self.state()))
        temporary.replace(path)
