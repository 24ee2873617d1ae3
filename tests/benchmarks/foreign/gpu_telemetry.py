"""What a GPU tells of itself, as series."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tests.benchmarks.foreign import kinds
from tests.benchmarks.foreign.effects import (
    DYNAMIC_WATTS,
    IDLE_WATTS,
    POWER_EXPONENT,
    POWER_LIMIT,
    narrowed,
)
from tests.benchmarks.foreign.faults import Fault
from tests.benchmarks.foreign.scenario import FASTEST
from tests.benchmarks.foreign.scene import Node, summed
from tests.benchmarks.simulated.arrays import Bools, Floats, Ints
from tests.benchmarks.simulated.samples import labels

XIDS = {
    48: "fatal", 64: "fatal", 74: "fatal", 79: "fatal", 95: "fatal", 119: "fatal", 120: "fatal",
    140: "fatal", 63: "info", 13: "warning", 31: "warning", 94: "warning",
}  # fmt: skip
NVLINKS = 18
HELD = 0.3
"""Share of a step from which on a scrape finds the clock held."""


@dataclass
class Gpu:
    """A GPU as it is scraped.

    Attributes:
        alive: (all scrapes of the node,) before it fell off the bus.
        times: (scrapes,) of those; step, done and works (the run goes on) likewise.
    """

    node: Node
    rank: int
    alive: Bools
    times: Floats
    step: Ints
    done: Ints
    works: Bools

    def add(self, metric: str, name: str, values: npt.ArrayLike, at: Floats | None = None) -> None:
        """A series; the metric is named without `gpu_`."""
        scene = self.node.scene
        local = int(scene.scenario.layout.local[self.rank])
        times = self.times if at is None else at
        scene.samples.add(self.node.name, local, -1, f"gpu_{metric}", name, times, values)

    def now(self, each: Floats) -> Floats:
        """(scrapes,) of (steps, ranks)."""
        seen: Floats = each[self.step, self.rank]
        return seen

    def total(self, each: Floats) -> Floats:
        """(scrapes,) sums of (steps, ranks) over the steps that are done."""
        return summed(each[:, self.rank])[self.done]


@dataclass
class Errors:
    """(scrapes,) counts so far; xids by number.

    Attributes:
        width: Lanes of PCIe; links_up (links, scrapes) of NVLink.
    """

    corrected: npt.ArrayLike
    replays: npt.ArrayLike
    rows: Floats
    width: Floats
    links_up: Floats
    link_errors: dict[str, Ints] = field(default_factory=dict)
    xids: dict[int, Floats] = field(default_factory=dict)


def tell(node: Node, rank: int) -> None:
    """All series of the GPU of a rank."""
    scene, timeline = node.scene, node.scene.timeline
    local = int(scene.scenario.layout.local[rank])
    bus = f"0000:{0x1B + 16 * (local % 8):02x}:00"
    stop = timeline.stop
    lost = stop is not None and stop.kind == "xid79" and stop.rank == rank
    alive = node.times < (timeline.finish if lost else np.inf)
    times = node.times[alive]
    works = (times < timeline.finish + 1) & (times > scene.begin)
    gpu = Gpu(node, rank, alive, times, node.now[alive], node.done[alive], works)
    gpu.add(
        "info",
        labels(
            model="NVIDIA H100 80GB HBM3", driver="550.90.07", simulated="false", serial="",
            pci_bus_id=bus, vbios="96.00.89", firmware="550.90.07", cuda="12.4", mig_mode="0",
            numa="0", minor=local,
        ),
        1,
        node.times,
    )  # fmt: skip
    gpu.add("up", "", alive.astype(float), node.times)
    _tell_state(gpu)
    _tell_held_clocks(gpu)
    errors = _errors(gpu)
    _tell_errors(gpu, errors)
    _tell_xids(gpu, errors, bus, lost)


def _tell_state(gpu: Gpu) -> None:
    scene, timeline, rng = gpu.node.scene, gpu.node.scene.timeline, gpu.node.scene.rng
    count = len(gpu.times)
    cooled = 42 + 30 * np.exp(-np.maximum(0, gpu.times - timeline.finish) / 40)
    celsius = np.where(gpu.works, gpu.now(timeline.celsius), cooled)
    at_work = gpu.now(timeline.watts) * (1 + rng.normal(0, 0.03, count))
    watts = np.where(gpu.works, at_work, 120 + rng.normal(0, 2, count))
    if scene.decoys.get("hot") == gpu.rank:
        celsius = celsius + 7
    clock = np.where(gpu.works, gpu.now(timeline.clock), FASTEST)
    gpu.add("clock_hertz", labels(domain="sm"), clock)
    gpu.add("clock_hertz", labels(domain="mem"), 2619e6)
    gpu.add("clock_max_hertz", labels(domain="sm"), FASTEST)
    gpu.add("temperature_celsius", labels(sensor="gpu"), np.round(celsius))
    gpu.add("temperature_celsius", labels(sensor="memory"), np.round(celsius + 9))
    gpu.add("temperature_limit_celsius", labels(limit="slowdown"), 87)
    gpu.add("temperature_limit_celsius", labels(limit="shutdown"), 92)
    gpu.add("power_watts", "", watts)
    gpu.add("power_limit_watts", labels(kind="enforced"), np.round(_power_limit(gpu)))
    gpu.add("power_limit_watts", labels(kind="default"), POWER_LIMIT)
    gpu.add("energy_joules_total", "", 5e8 + gpu.total(timeline.watts * scene.wall))
    # Spinning kernels of a collective that nobody joins keep a GPU busy.
    after = 1.0 if timeline.stop is not None else 0
    used = np.clip(gpu.now(timeline.busy) + 0.15 + rng.normal(0, 0.03, count), 0, 1)
    gpu.add("utilization_ratio", "", np.where(gpu.works, used, after))
    gpu.add("memory_used_bytes", "", 71e9)
    gpu.add("memory_total_bytes", "", 80e9)


def _power_limit(gpu: Gpu) -> Floats:
    """(scrapes,) watts in force."""
    scenario, limit = gpu.node.scene.scenario, np.full(len(gpu.times), POWER_LIMIT)
    for fault in scenario.faults:
        if fault.kind == "power" and fault.rank == gpu.rank:
            level = gpu.node.scene.timeline.level(fault)[gpu.step]
            share = scenario.compute.clock_share
            target = share / (1 + (fault.factor - 1) * level - 1 + share)
            dynamic = DYNAMIC_WATTS * scenario.compute.silicon[gpu.rank]
            watts = IDLE_WATTS + dynamic * target**POWER_EXPONENT
            limit = np.where(level > 0, np.minimum(POWER_LIMIT, watts), POWER_LIMIT)
    return limit


def _tell_held_clocks(gpu: Gpu) -> None:
    scene, timeline = gpu.node.scene, gpu.node.scene.timeline
    long = HELD * gpu.now(scene.wall)

    def seen(seconds: Floats | None) -> npt.ArrayLike:
        return 0 if seconds is None else (gpu.now(seconds) > long) & gpu.works

    def total(seconds: Floats | None) -> npt.ArrayLike:
        return 0 if seconds is None else gpu.total(seconds)

    for reason, seconds, before in (
        ("sw_power_cap", timeline.power_capped, 10),
        ("sw_thermal", timeline.hot, 0),
        ("hw_power_brake", timeline.braked, 0),
        ("hw_slowdown", timeline.braked, 0),
        ("hw_thermal", None, 0),
    ):
        name = labels(reason=reason)
        gpu.add("clock_event_seconds_total", name, before + np.asarray(total(seconds)))
        gpu.add("clock_event_active", name, seen(seconds))


def _errors(gpu: Gpu) -> Errors:
    """What faults and decoys make of its counters."""
    scene, times, rng = gpu.node.scene, gpu.times, gpu.node.scene.rng
    count = len(times)
    errors = Errors(
        corrected=np.zeros(count), replays=np.zeros(count), rows=np.zeros(count),
        width=np.full(count, 16.0), links_up=np.ones((NVLINKS, count)),
    )  # fmt: skip
    if scene.decoys.get("ecc") == gpu.rank:
        errors.corrected = np.cumsum(rng.poisson(0.05, count))
    if scene.decoys.get("replay") == gpu.rank:
        errors.replays = np.cumsum(rng.poisson(0.2, count))
    for fault in scene.scenario.faults:
        if fault.rank == gpu.rank:
            _add_fault(gpu, fault, errors)
    return errors


def _add_fault(gpu: Gpu, fault: Fault, errors: Errors) -> None:
    scene, times, rng = gpu.node.scene, gpu.times, gpu.node.scene.rng
    level, first = scene.timeline.level(fault)[gpu.step], scene.first(fault)
    if fault.kind == "ecc":
        a_scrape = 4 * level * scene.scenario.length.scrape / 10
        errors.corrected = np.cumsum(rng.poisson(a_scrape))
        contained = (times > first).astype(float)
        remapped = (times > first + 60).astype(float)
        errors.rows = contained + remapped
        errors.xids |= {94: contained, 63: remapped}
    elif fault.kind == "xid":
        since = np.maximum(0, times - first)
        errors.xids[119] = np.where(times > first, 1 + np.floor(since / 300), 0)
    elif fault.kind == "pcie":
        errors.width = np.where(level > 0, 16.0 / narrowed(fault), 16.0)
        errors.replays = np.cumsum(rng.poisson(3 * level))
    elif fault.kind == "nvlink":
        down = 2 if fault.factor < 1.3 else 6
        errors.links_up[:down] = level <= 0
        errors.link_errors = {
            "replay": np.cumsum(rng.poisson(20 * level)),
            "crc_flit": np.cumsum(rng.poisson(60 * level)),
        }
        errors.xids[74] = (times > first).astype(float)


def _tell_errors(gpu: Gpu, errors: Errors) -> None:
    scene = gpu.node.scene
    local = int(scene.scenario.layout.local[gpu.rank])
    if not scene.lacks(kinds.ECC):
        for kind, count in (("corrected", errors.corrected), ("uncorrected", 0)):
            for counter in ("volatile", "aggregate"):
                old = 3 if counter == "aggregate" and kind == "corrected" and local == 2 else 0
                name = labels(type=kind, counter=counter)
                gpu.add("ecc_errors_total", name, np.asarray(count) + old)
        gpu.add("remapped_rows", labels(cause="correctable"), 0)
        gpu.add("remapped_rows", labels(cause="uncorrectable"), errors.rows)
        gpu.add("row_remap_pending", "", errors.rows > 0)
        gpu.add("row_remap_failed", "", 0)
    gpu.add("pcie_link_width", "", errors.width)
    gpu.add("pcie_link_width_max", "", 16)
    gpu.add("pcie_link_generation", "", 5)
    gpu.add("pcie_link_generation_max", "", 5)
    gpu.add("pcie_replay_total", "", errors.replays)
    if not scene.lacks(kinds.NVLINK) and scene.scenario.layout.per_node > 1:
        for link, up in enumerate(errors.links_up):
            gpu.add("nvlink_up", labels(link=link), up)
        for kind in ("crc_flit", "crc_data", "replay", "recovery"):
            name = labels(link="all", kind=kind)
            gpu.add("nvlink_errors_total", name, errors.link_errors.get(kind, 0))


def _tell_xids(gpu: Gpu, errors: Errors, bus: str, lost: bool) -> None:
    """A counter of each XID, and when it was last; the kernel log tells of a GPU that is lost."""
    for xid, severity in XIDS.items():
        counts, times = errors.xids.get(xid, np.zeros(len(gpu.times))), gpu.times
        if xid == 79 and lost:
            times = gpu.node.times
            counts = (times >= gpu.node.scene.timeline.finish - 1).astype(float)
        place = {"pci_bus_id": bus, "severity": severity, "xid": xid}
        gpu.add("xid_errors_total", labels(**place, source="nvml"), counts, times)
        if counts.any():
            since = times[counts > 0]
            gpu.add("xid_last_timestamp_seconds", labels(**place), since[0] - 2, since)
