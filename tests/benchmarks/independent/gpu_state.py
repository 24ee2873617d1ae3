"""How a GPU is: heat, power, clocks, errors, links; some of what looks bad costs no time."""

import math
from dataclasses import dataclass, field

import numpy as np

from tests.benchmarks.independent.faults import VISIBLE, Fault
from tests.benchmarks.independent.noise import slow_drift
from tests.benchmarks.independent.telemetry import PERIOD, Scene
from tests.benchmarks.simulated.arrays import Floats, Generator

REASONS = ("sw_power_cap", "sw_thermal", "hw_thermal", "hw_power_brake", "hw_slowdown")
HEATING = 90.0
"""Seconds in which a GPU takes on two thirds of a new temperature."""


@dataclass(frozen=True)
class Hardware:
    """What GPUs of the run have in common, and who of them looks bad at no cost.

    Attributes:
        hottest, power: Hertz and watts at most; clock is what they usually have.
        capped: Share of time in which power limits the clock of healthy ones.
        inlet: (nodes,) celsius more; load is celsius of a busy one.
        hot, memory_errors, link_errors, bus_errors: By rank, celsius more or errors a second.
        program_error: The rank with an XID 13, or -1.
        each_link: Whether single NVLinks are told.
        busy: (ranks,) share of time.
    """

    hottest: float
    power: float
    clock: float
    capped: float
    inlet: Floats
    load: float
    hot: dict[int, float]
    memory_errors: dict[int, float]
    link_errors: dict[int, float]
    bus_errors: dict[int, float]
    program_error: int
    each_link: bool
    busy: Floats


@dataclass
class Device:
    """One GPU; (scrapes,) where nothing else is said, errors are rates a second or counts."""

    rank: int
    times: Floats
    clock: Floats
    celsius: Floats
    memory_celsius: Floats
    watts: Floats
    limit: Floats
    throttled: dict[str, Floats]
    ecc_rate: Floats
    uncorrected: Floats
    remapped: Floats
    remap_pending: Floats
    bus_width: Floats
    bus_generation: Floats
    replay_rate: Floats
    bus_error_rate: Floats
    link_replay_rate: Floats
    link_recovery_rate: Floats
    links_down: Floats
    xids: dict[str, list[float]] = field(default_factory=dict)


def draw_hardware(rng: Generator, scene: Scene) -> Hardware:
    """Also notes the decoys in the scene."""
    world = scene.world
    hot: dict[int, float] = {}
    memory_errors: dict[int, float] = {}
    link_errors: dict[int, float] = {}
    bus_errors: dict[int, float] = {}
    for found, odds, low, high in (
        (hot, 0.35, 8, 14), (memory_errors, 0.3, 0.002, 0.05),
        (link_errors, 0.2, 0.002, 0.05), (bus_errors, 0.2, 0.002, 0.03),
    ):  # fmt: skip
        if rng.random() < odds:
            value = rng.uniform(low, high)
            found[int(rng.integers(world.ranks))] = value
    program_error = int(rng.integers(world.ranks)) if rng.random() < 0.15 else -1
    scene.decoys = {
        "hot": list(hot), "ecc": list(memory_errors), "nvlink": list(link_errors),
        "pcie": list(bus_errors), "xid13": program_error,
    }  # fmt: skip
    hottest = 1980e6 if world.newer_gpu else 1410e6
    clock = hottest * rng.uniform(0.87, 0.99)
    capped = rng.uniform(0, 0.35) if clock < 0.97 * hottest else 0.0
    inlet = rng.uniform(-3, 3, world.layout.nodes)
    return Hardware(
        hottest=hottest, power=700.0 if world.newer_gpu else 400.0, clock=clock, capped=capped,
        inlet=inlet, load=rng.uniform(52, 66), hot=hot, memory_errors=memory_errors,
        link_errors=link_errors, bus_errors=bus_errors, program_error=program_error,
        each_link=world.ranks <= 64 or any(fault.kind == "nvlink" for fault in scene.faults),
        busy=scene.quiet.own.mean(0) / scene.quiet.wall.mean(0),
    )  # fmt: skip


def device_of(rng: Generator, scene: Scene, hardware: Hardware, rank: int) -> Device:
    """The GPU of a rank, with all that faults and chance do to it."""
    device = _healthy(rng, scene, hardware, rank)
    _add_coincidence(scene, device)
    for fault in scene.faults:
        if fault.member[rank]:
            _add_fault(rng, scene, hardware, device, fault)
    return device


def _healthy(rng: Generator, scene: Scene, hardware: Hardware, rank: int) -> Device:
    world = scene.world
    node, local = world.node[rank], world.local[rank]
    times = scene.times[node]
    count = len(times)
    zero = np.zeros(count)
    clock = hardware.clock * (1 - 0.8 * world.lottery[rank])
    clock = np.minimum(clock * (1 + slow_drift(rng, count, 1, 8, 0.004)[:, 0]), hardware.hottest)
    mean = hardware.load + hardware.inlet[node] + rng.normal(0, 2) + 4 * (local % 4) / 3
    celsius = mean + slow_drift(rng, count, 1, 20, 1.0)[:, 0] + hardware.hot.get(rank, 0)
    memory_celsius = celsius + rng.uniform(6, 12)
    watts = hardware.power * rng.uniform(0.72, 0.8) * (0.6 + 0.4 * hardware.busy[rank])
    watts = watts * (1 + slow_drift(rng, count, 1, 5, 0.02)[:, 0])
    throttled = {reason: zero.copy() for reason in REASONS}
    share = hardware.capped * (1 + 0.3 * rng.normal()) + 0.05 * rng.normal(0, 1, count)
    throttled["sw_power_cap"] = np.clip(share, 0, 1) * (hardware.capped > 0)
    replay = np.full(count, hardware.bus_errors.get(rank, 2e-5))
    device = Device(
        rank=rank, times=times, clock=clock, celsius=celsius, memory_celsius=memory_celsius,
        watts=watts, limit=np.full(count, hardware.power), throttled=throttled,
        ecc_rate=np.full(count, hardware.memory_errors.get(rank, 0.0)), uncorrected=zero.copy(),
        remapped=zero.copy(), remap_pending=zero, bus_width=np.full(count, 16.0),
        bus_generation=np.full(count, 5.0 if world.newer_gpu else 4.0), replay_rate=replay,
        bus_error_rate=replay.copy(),
        link_replay_rate=np.full(count, hardware.link_errors.get(rank, 0.0)),
        link_recovery_rate=zero, links_down=zero,
    )  # fmt: skip
    if rank == hardware.program_error:
        share_of_run = rng.uniform(0.1, 0.9)
        device.xids["13"] = [scene.begin + share_of_run * (scene.finish - scene.begin)]
    return device


def _add_coincidence(scene: Scene, device: Device) -> None:
    chance = scene.noise.coincidence
    if chance is None or chance.rank != device.rank:
        return
    since = (device.times > scene.last_word[chance.step]).astype(float)
    if chance.sensor == "ecc":
        device.ecc_rate = device.ecc_rate + since * 0.5
        device.remapped = device.remapped + since
    elif chance.sensor == "hot":
        device.celsius = device.celsius + 15 * since
        device.memory_celsius = device.memory_celsius + 15 * since
    elif chance.sensor == "pcie":
        device.replay_rate = device.replay_rate + since * 2
    elif chance.sensor == "clock":
        device.clock = device.clock * (1 - 0.03 * since)


def _add_fault(
    rng: Generator, scene: Scene, hardware: Hardware, device: Device, fault: Fault
) -> None:
    """A stop shows no level; of its kinds only xidcrash says something here."""
    shown = scene.shown(fault, device.times)
    level = fault.level[scene.step_at(device.times)]
    slower = 1 - 1 / (1 + (fault.factor - 1) * level)
    if fault.kind in ("thermal", "thermal_hbm"):
        _heat(rng, scene, device, fault, shown, slower)
    elif fault.kind in ("power", "brake"):
        _power(rng, hardware, device, fault, shown, slower)
    elif not fault.visible:
        return
    elif fault.kind == "ecc":
        _memory(rng, scene, device, fault, shown)
    elif fault.kind == "xidstall" and fault.xid:
        moments = scene.start[fault.events, device.rank].tolist()
        device.xids.setdefault(fault.xid, []).extend(moments)
    elif fault.kind == "pcie":
        if fault.pcie_part == "width":
            device.bus_width = np.where(shown > 0, fault.pcie_to, device.bus_width)
        else:
            device.bus_generation = np.where(shown > 0, fault.pcie_to, device.bus_generation)
        device.replay_rate = device.replay_rate + shown * rng.uniform(0.5, 20)
        device.bus_error_rate = device.bus_error_rate + shown * rng.uniform(1, 40)
    elif fault.kind == "nvlink":
        device.link_replay_rate = device.link_replay_rate + shown * rng.uniform(1, 100)
        device.link_recovery_rate = device.link_recovery_rate + shown * rng.uniform(0.01, 1)
        if fault.nvlinks_lost:
            device.links_down = np.where(shown > 0, fault.nvlinks_lost, 0)
            if rng.random() < 0.5:
                moment = float(scene.start[fault.begin, device.rank])
                device.xids.setdefault("74", []).append(moment)
    elif fault.kind == "xidcrash" and fault.xid:
        device.xids.setdefault(fault.xid, []).append(scene.stopped - rng.uniform(0, 5))


def _heat(
    rng: Generator, scene: Scene, device: Device, fault: Fault, shown: Floats, slower: Floats
) -> None:
    lagging = np.zeros(len(shown))
    now = 0.0
    for number, aim in enumerate(shown):
        now += (aim - now) * (1 - math.exp(-PERIOD / HEATING))
        lagging[number] = now
    near = np.minimum(1, lagging * 1.1)
    throttling = (85 if scene.world.newer_gpu else 83) + 3 * rng.random()
    if fault.kind == "thermal":
        device.celsius = device.celsius + (throttling - device.celsius) * near
        device.memory_celsius = np.maximum(device.memory_celsius, device.celsius + 4)
    else:
        device.memory_celsius = device.memory_celsius + (97 - device.memory_celsius) * near
        device.celsius = device.celsius + 3 * lagging
    share = shown * rng.uniform(0.5, 1) * (1 + 0.15 * rng.normal(0, 1, len(shown)))
    share = np.clip(share, 0, 1) * (shown > 0)
    device.throttled["sw_thermal"] += share
    if rng.random() < 0.3:
        device.throttled["hw_thermal"] += share * rng.uniform(0.1, 0.6)
        device.throttled["hw_slowdown"] += share * 0.3
    seen = VISIBLE[fault.telemetry]
    device.clock = device.clock * (1 - slower * 1.05 * seen)
    device.watts = device.watts * (1 - 0.6 * slower * seen)


def _power(
    rng: Generator, hardware: Hardware, device: Device, fault: Fault, shown: Floats, slower: Floats
) -> None:
    seen = VISIBLE[fault.telemetry]
    if fault.kind == "power":
        if fault.power_limited:
            limit = hardware.power * rng.choice([0.5, 0.6, 0.7, 0.8])
            device.limit = np.where(shown > 0, limit, device.limit)
        capped = device.throttled["sw_power_cap"] + shown * rng.uniform(0.5, 0.95)
        device.throttled["sw_power_cap"] = np.clip(capped, 0, 1)
        device.clock = device.clock * (1 - slower * 1.05 * seen)
        under = np.minimum(device.watts, device.limit * 0.98) * (1 - 0.3 * slower)
        device.watts = np.where(shown > 0, under, device.watts)
    else:
        share = np.clip(shown * rng.uniform(0.6, 1), 0, 1)
        device.throttled["hw_power_brake"] = share
        device.throttled["hw_slowdown"] = share
        device.clock = device.clock * (1 - slower * 1.05 * seen)
        device.watts = device.watts * (1 - 0.7 * slower * seen)


def _memory(rng: Generator, scene: Scene, device: Device, fault: Fault, shown: Floats) -> None:
    device.ecc_rate = device.ecc_rate + shown * rng.uniform(0.2, 5)
    for step in fault.events[:: max(1, len(fault.events) // 6)]:
        moment = float(scene.start[step, device.rank])
        device.remapped += device.times > moment
        device.uncorrected += device.times > moment
        for xid, odds in (("63", 0.5), ("94", 0.4)):
            if rng.random() < odds:
                device.xids.setdefault(xid, []).append(moment)
    if fault.events:
        since = device.times > scene.start[fault.events[0], device.rank]
        device.remap_pending = (since & (rng.random() < 0.6)).astype(float)
