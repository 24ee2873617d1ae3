"""The series of every GPU's state: temperature, power, clocks, throttling, utilisation."""

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.block import About, Block
from lockstep.evaluation.synth.clocks import Clocks
from lockstep.evaluation.synth.fleet import GPUS_PER_NODE, SyntheticFleet
from lockstep.evaluation.synth.scrapes import Scrapes
from lockstep.evaluation.synth.strong import active
from lockstep.evaluation.synth.times import Times
from lockstep.evaluation.synth.variant import Variant

DRIVER, NEWER_DRIVER = "570.86.10", "580.65.06"
IDLES: tuple[Cause, ...] = (Cause.HOST_CPU, Cause.DATA, Cause.GC, Cause.CHECKPOINT)
"""In their excess the GPU has nothing to do."""
BUSY = (0.96, 1.0)
"""Utilisation counts any kernel, and a collective that waits is one."""
LIMITS = {"slowdown": 0.0, "shutdown": 5.0}
"""Celsius above the slowdown limit."""


def gpu_blocks(
    fleet: SyntheticFleet, variant: Variant, times: Times, seen: Scrapes, state: Clocks,
    dice: np.random.Generator,
) -> list[Block]:  # fmt: skip
    """What NVML would tell."""
    shape = seen.rank_time.shape
    busy = dice.uniform(*BUSY, shape)
    for fault, place, strong in active(fleet, times, seen, *IDLES):
        if fault in fleet.decoys:
            continue  # its GPU has as much to do as ever
        excess = (fault.factor - 1.0) * strong
        busy[:, place] *= 1.0 - excess / (1.0 + excess)
    since = seen.since(seen.rank_time)
    events = {r: np.cumsum(rate * since, axis=0) for r, rate in state.throttled.items()}
    told: list[tuple[str, str, FloatGrid]] = [
        (metrics.GPU_UP.name, "", _one(1.0)),
        (metrics.GPU_UTILIZATION.name, "", busy),
        (metrics.GPU_SM_ACTIVE.name, "", np.clip(state.activity, 0.0, 1.0)),
        (metrics.GPU_TEMPERATURE.name, 'sensor="gpu"', np.round(state.temperature)),
        *((metrics.GPU_TEMPERATURE_LIMIT.name, f'limit="{limit}"',
           _one(variant.slowdown_celsius + above)) for limit, above in LIMITS.items()),
        (metrics.GPU_POWER.name, "", state.power),
        (metrics.GPU_POWER_LIMIT.name, 'kind="enforced"', state.limit),
        (metrics.GPU_POWER_LIMIT.name, 'kind="default"', _one(variant.power_limit)),
        (metrics.GPU_ENERGY.name, "", np.cumsum(state.power * since, axis=0)),
        (metrics.GPU_CLOCK.name, 'domain="sm"', state.clock),
        (metrics.GPU_CLOCK_MAX.name, 'domain="sm"', _one(variant.clock_max)),
        *((metrics.GPU_CLOCK_EVENT_SECONDS.name, f'reason="{r}"', v) for r, v in events.items()),
        *_info(fleet),
    ]  # fmt: skip
    return [Block(metric, labels, About.GPU, values) for metric, labels, values in told]


def _one(value: float) -> FloatGrid:
    return np.array([[value]])


def _info(fleet: SyntheticFleet) -> list[tuple[str, str, FloatGrid]]:
    """One series a driver; a node that was updated has the newer one."""
    newer = np.zeros(fleet.world, dtype=bool)
    for fault in (*fleet.faults, *fleet.decoys):
        if fault.cause is Cause.SOFTWARE:
            first = fault.place // GPUS_PER_NODE * GPUS_PER_NODE
            newer[first : first + GPUS_PER_NODE] = True
    rows = []
    for driver, mine in ((DRIVER, ~newer), (NEWER_DRIVER, newer)):
        if mine.any():
            labels = (
                f'cuda="",driver="{driver}",firmware="",mig_mode="",minor="",'
                'model="Lockstep synthetic GPU",numa="",pci_bus_id="",serial="",'
                'simulated="true",vbios=""'
            )
            rows.append((metrics.GPU_INFO.name, labels, np.where(mine, 1.0, np.nan)[None, :]))
    return rows
