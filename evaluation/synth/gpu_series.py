"""Series of every GPU: temperature, power, clocks, throttling, utilisation, error counters."""

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Cause
from lockstep.collector.contract.xid import describe
from lockstep.evaluation.synth.clocks import Clocks
from lockstep.evaluation.synth.fleet import GPUS_PER_NODE, Fault, SyntheticFleet
from lockstep.evaluation.synth.scrapes import About, Block, Scrapes, active, counted, onset
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


# Error counters of GPUs: memory, driver, PCIe and NVLink.

OLD_ERRORS = 0.02
"""Share of healthy parts with corrected errors in their past."""
UNCORRECTED_EVERY = 60.0
"""Seconds between two uncorrectable errors of a part that has them."""
ROW_XID = 63
WIDTH, GENERATION = 16.0, 5.0
NARROW = {"narrow": (4.0, 5.0), "old": (16.0, 2.0), "replays": (16.0, 5.0)}
"""Form -> lanes and generation of a bad slot."""
LINK_XID = 74
SHARES = {"crc_flit": 0.50, "crc_data": 0.15, "replay": 0.34, "recovery": 0.01}
LATE_SECONDS = 3.0


def error_blocks(
    fleet: SyntheticFleet, variant: Variant, times: Times, seen: Scrapes, dice: np.random.Generator
) -> list[Block]:
    """What NVML and the kernel log would tell."""
    events: list[tuple[int, int, float]] = []
    blocks = [
        *_memory(fleet, variant, times, seen, dice, events),
        *_pcie(fleet, variant, times, seen, dice),
        *_nvlink(fleet, variant, times, seen, dice, events),
    ]
    for fault, place, _ in active(fleet, times, seen, Cause.XID):
        events.append((place, int(fault.form), _soon(fault, seen, dice)))
    return [*blocks, *_xids(fleet, seen, events)]


def _soon(fault: Fault, seen: Scrapes, dice: np.random.Generator) -> float:
    return onset(fault, seen) + fault.lag_seconds + float(dice.uniform(0.0, LATE_SECONDS))


def _counted(rate: FloatGrid, since: FloatGrid, dice: np.random.Generator) -> FloatGrid:
    """(T,) a counter that rises by chance at this rate a second."""
    return np.cumsum(dice.poisson(rate * since)).astype(float)


def _memory(
    fleet: SyntheticFleet, variant: Variant, times: Times, seen: Scrapes, dice: np.random.Generator,
    events: list[tuple[int, int, float]],
) -> list[Block]:  # fmt: skip
    shape = seen.rank_time.shape
    counts = {kind: np.zeros(shape) for kind in ("corrected", "uncorrected")}
    rows = np.zeros(shape)
    past = np.where(dice.random(fleet.world) < OLD_ERRORS, dice.integers(1, 9, fleet.world), 0)
    since = seen.since(seen.rank_time)
    of_memory = fleet, times, seen, Cause.ECC
    for (fault, place, _), strong in zip(active(*of_memory), counted(*of_memory), strict=True):
        rate = dice.uniform(*variant.corrected)
        counts["corrected"][:, place] += _counted(rate * strong, since[:, place], dice)
        if fault.form == "uncorrected":
            bad = _counted((strong > 0) / UNCORRECTED_EVERY, since[:, place], dice)
            counts["uncorrected"][:, place] += bad
            rows[:, place] += bad
            hits = np.flatnonzero(np.diff(bad, prepend=0.0) > 0)
            if hits.size:
                events.append((place, ROW_XID, float(seen.rank_time[hits[0], place] - 1.0)))
    name = metrics.GPU_ECC_ERRORS.name
    series = [
        (name, f'counter="{counter}",type="{kind}"',
         values + (past if (counter, kind) == ("aggregate", "corrected") else 0.0))
        for kind, values in counts.items() for counter in ("volatile", "aggregate")
    ]  # fmt: skip
    series += [
        (metrics.GPU_REMAPPED_ROWS.name, 'cause="correctable"', np.zeros(shape)),
        (metrics.GPU_REMAPPED_ROWS.name, 'cause="uncorrectable"', rows),
        (metrics.GPU_ROW_REMAP_PENDING.name, "", (rows > 0).astype(float)),
        (metrics.GPU_ROW_REMAP_FAILED.name, "", np.zeros(shape)),
    ]
    return [Block(metric, labels, About.GPU, values) for metric, labels, values in series]


def _pcie(
    fleet: SyntheticFleet, variant: Variant, times: Times, seen: Scrapes, dice: np.random.Generator
) -> list[Block]:
    shape = seen.rank_time.shape
    width, generation = np.full(shape, WIDTH), np.full(shape, GENERATION)
    replays = np.zeros(shape)
    since = seen.since(seen.rank_time)
    of_slot = fleet, times, seen, Cause.PCIE
    for (fault, place, strong), rising in zip(active(*of_slot), counted(*of_slot), strict=True):
        lanes, age = NARROW[fault.form]
        width[strong > 0, place], generation[strong > 0, place] = lanes, age
        rate = dice.uniform(*variant.replays) * rising
        replays[:, place] += _counted(rate, since[:, place], dice)
    series = (
        (metrics.GPU_PCIE_WIDTH.name, width), (metrics.GPU_PCIE_GENERATION.name, generation),
        (metrics.GPU_PCIE_WIDTH_MAX.name, np.array([[WIDTH]])),
        (metrics.GPU_PCIE_GENERATION_MAX.name, np.array([[GENERATION]])),
        (metrics.GPU_PCIE_REPLAY.name, replays),
    )  # fmt: skip
    return [Block(metric, "", About.GPU, values) for metric, values in series]


def _nvlink(
    fleet: SyntheticFleet, variant: Variant, times: Times, seen: Scrapes, dice: np.random.Generator,
    events: list[tuple[int, int, float]],
) -> list[Block]:  # fmt: skip
    shape = seen.rank_time.shape
    up = {link: np.ones(shape) for link in range(variant.nvlinks)}
    errors = {kind: np.zeros(shape) for kind in SHARES}
    since = seen.since(seen.rank_time)
    of_link = fleet, times, seen, Cause.NVLINK
    for (fault, place, strong), rising in zip(active(*of_link), counted(*of_link), strict=True):
        if fault.form == "down":
            for link in dice.choice(variant.nvlinks, int(dice.integers(1, 5)), replace=False):
                up[int(link)][strong > 0, place] = 0.0
            events.append((place, LINK_XID, _soon(fault, seen, dice)))
        rate = dice.uniform(*variant.nvlink_errors) * rising
        for kind, share in SHARES.items():
            errors[kind][:, place] += _counted(rate * share, since[:, place], dice)
    blocks = [
        Block(metrics.GPU_NVLINK_UP.name, f'link="{link}"', About.GPU, values)
        for link, values in up.items()
    ]
    return blocks + [
        Block(metrics.GPU_NVLINK_ERRORS.name, f'kind="{kind}",link="all"', About.GPU, values)
        for kind, values in errors.items()
    ]


def _xids(
    fleet: SyntheticFleet, seen: Scrapes, events: list[tuple[int, int, float]]
) -> list[Block]:
    """Series that do not exist until the first event."""
    blocks = []
    for place, xid, moment in events:
        there = seen.rank_time[:, place] >= moment
        count = np.full(seen.rank_time.shape, np.nan)
        last = count.copy()
        count[there, place], last[there, place] = 1.0, moment
        bus = f'pci_bus_id="0000:{place % 8:02x}:00.0"'
        rated = f'severity="{describe(xid).severity}"'
        blocks += [
            Block(metrics.GPU_XID_ERRORS.name, f'{bus},{rated},source="kmsg",xid="{xid}"',
                  About.GPU, count),
            Block(metrics.GPU_XID_LAST.name, f'{bus},{rated},xid="{xid}"', About.GPU, last),
        ]  # fmt: skip
    return blocks
