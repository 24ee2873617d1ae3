"""How a fault changes steps: by what its kind does to a machine, a function each."""

from collections.abc import Callable

import numpy as np

from tests.benchmarks.independent.faults import Fault
from tests.benchmarks.independent.layout import World
from tests.benchmarks.independent.noise import Noise, slow_drift
from tests.benchmarks.independent.steps import Effects, no_effects
from tests.benchmarks.simulated.arrays import Floats, Generator


def effects_of(rng: Generator, world: World, noise: Noise, fault: Fault) -> Effects:
    """Of this fault alone; fills in what the fault then knows of itself (events, times)."""
    effects = no_effects(world)
    _APPLY[fault.kind](rng, world, noise, fault, effects)
    return effects


def _times(fault: Fault) -> Floats:
    """(steps, 1) times slower."""
    return 1 + (fault.factor - 1) * fault.level[:, None]


def _hit(fault: Fault) -> Floats:
    """(1, ranks) 1 for who is hit."""
    return fault.member.astype(float)[None, :]


def _events(rng: Generator, fault: Fault, count: int) -> list[int]:
    """Makes a fault one of single moments, and draws them."""
    pool = np.flatnonzero(fault.level > 0)
    drawn = rng.choice(pool, min(count, len(pool)), replace=False)
    fault.events, fault.shape = np.sort(drawn).tolist(), "events"
    return fault.events


def _slow_clock(rng: Generator, world: World, _: Noise, fault: Fault, effects: Effects) -> None:
    """Compute is slower: heat, power, a brake, or for no reason that anything shows."""
    part = np.ones(world.ranks)
    if fault.scope == "node":
        part = rng.uniform(0.6, 1.0, world.ranks)
    memory = max(2, 60 / world.step_seconds)
    drift = slow_drift(rng, world.steps, world.ranks, memory, 1)
    wobble = 1 + 0.1 * drift * fault.kind.startswith("therm")
    more = (_times(fault) - 1) * _hit(fault) * part
    effects.compute *= 1 + more * np.clip(wobble, 0.5, 1.5)


def _memory_errors(rng: Generator, world: World, _: Noise, fault: Fault, effects: Effects) -> None:
    """Half of it as slower compute, half as pauses now and then."""
    effects.compute *= 1 + (_times(fault) - 1) * _hit(fault) * 0.5
    due = (rng.random(world.steps) < rng.uniform(0.05, 0.3)) * fault.level
    often = max(due.mean() / max(fault.level.mean(), 1e-9), 0.02)
    pause = (fault.factor - 1) * 0.5 * world.step_seconds / often
    pauses = due * rng.gamma(2, 0.5, world.steps) * pause * (fault.level > 0)
    effects.pause[:, fault.member] += np.minimum(pauses, 12 * world.step_seconds)[:, None]
    fault.events = np.flatnonzero(pauses > 0).tolist()


def _driver_stalls(rng: Generator, world: World, _: Noise, fault: Fault, effects: Effects) -> None:
    """Pauses of seconds, each with an XID; of some, compute is slower, too."""
    count = int(rng.integers(2, 7)) if fault.factor < 1.3 else int(rng.integers(5, 20))
    for step in _events(rng, fault, count):
        effects.pause[step, fault.member] += rng.uniform(2, 8) + world.step_seconds * 0.5
    slower = rng.random() < 0.6
    effects.compute *= 1 + (_times(fault) - 1) * _hit(fault) * slower * 0.6
    fault.xid = str(rng.choice(["119", "120"], p=[0.7, 0.3]))


def _narrow_bus(rng: Generator, world: World, noise: Noise, fault: Fault, effects: Effects) -> None:
    """Batches take longer to the GPU, and of some the optimizer does."""
    more, hit = _times(fault) - 1, _hit(fault)
    copies = noise.data * more * hit * rng.uniform(1, 4)
    unsteady = 0.93 + 0.14 * rng.random((world.steps, world.ranks))
    effects.data += copies + world.step_seconds * more * hit * 0.7 * unsteady
    effects.optimizer *= 1 + more * hit * rng.uniform(0, 2)


def _peer_link(_: Generator, world: World, __: Noise, fault: Fault, effects: Effects) -> None:
    share = world.tp_seconds / (world.forward + world.tp_seconds)
    times = min(1 + (fault.factor - 1) / max(share, 0.02), 12.0)
    stage, replica = world.pp_of[fault.rank], world.dp_of[fault.rank]
    effects.tp[:, stage, replica] *= 1 + (times - 1) * fault.level
    fault.times = times


def _network_times(world: World, factor: float) -> float:
    """Times slower that the network has to be for steps to be `factor` times slower."""
    through_stages = world.pp_seconds * world.microbatches if world.pp_crosses else 0
    share = max(world.dp_seconds, through_stages) / world.step_seconds
    return 1 + (factor - 1) / max(share, 0.02)


def _ports(world: World, fault: Fault) -> list[int]:
    """Adapters of the node that are hit, as local ranks."""
    local = int(world.local[fault.rank])
    fault.rail = local if world.rail else None
    return [local] if world.rail else list(range(world.layout.per_node))


def _slow_port(rng: Generator, world: World, _: Noise, fault: Fault, effects: Effects) -> None:
    """An adapter at half or a quarter of its rate, or one that loses packets."""
    times = _network_times(world, fault.factor)
    if fault.kind == "nic_rate":
        times = float(rng.choice([2.0, 4.0])) if times > 1.6 else 2.0
    times = min(times, 15.0)
    fault.times = times
    ports = _ports(world, fault)
    unsteady = np.ones(world.steps)
    if fault.kind == "nic_loss":
        unsteady = rng.gamma(4, 0.25, world.steps)
    for port in ports:
        effects.adapter[:, fault.node, port] *= 1 + (times - 1) * fault.level * unsteady


def _flapping_port(rng: Generator, world: World, _: Noise, fault: Fault, effects: Effects) -> None:
    steps = _events(rng, fault, int(rng.integers(3, 15)))
    ports = _ports(world, fault)
    for step in steps:
        effects.stall[step, fault.node, ports] += rng.uniform(3, 15)


def _congestion(rng: Generator, world: World, _: Noise, fault: Fault, effects: Effects) -> None:
    times = min(10.0, _network_times(world, fault.factor))
    fault.times = times
    unsteady = rng.gamma(3, 1 / 3, world.steps)
    for node in fault.leaf_nodes:
        effects.leaf[:, node] *= 1 + (times - 1) * fault.level * unsteady


def _busy_host(rng: Generator, world: World, noise: Noise, fault: Fault, effects: Effects) -> None:
    """Others use its processors: all that needs them is slower, ranks differ."""
    of_rank = rng.uniform(0.5, 1.3, world.ranks)
    unsteady = rng.gamma(3, 1 / 3, (world.steps, world.ranks))
    more = (_times(fault) - 1) * _hit(fault) * of_rank * unsteady
    effects.compute *= 1 + more * 0.7
    effects.data += noise.data * more * 3
    effects.other += noise.other * more * 6 + world.step_seconds * more * 0.15
    effects.optimizer *= 1 + more * 2
    fault.run_queue = more


def _slow_data(rng: Generator, world: World, _: Noise, fault: Fault, effects: Effects) -> None:
    of_step = rng.gamma(2, 0.5, (world.steps, 1))
    unsteady = of_step * rng.gamma(8, 1 / 8, (world.steps, world.ranks))
    effects.data += world.step_seconds * (_times(fault) - 1) * _hit(fault) * unsteady


def _collections(rng: Generator, world: World, _: Noise, fault: Fault, effects: Effects) -> None:
    """Garbage of one rank, each step or once in some."""
    period = int(rng.choice([1, 1, 2, 5, 10]))
    due = (np.arange(world.steps) % period == 0)[:, None]
    seconds = due * world.step_seconds * (_times(fault) - 1) * _hit(fault) * period
    effects.gc += seconds * rng.gamma(20, 0.05, (world.steps, 1))
    fault.collected = effects.gc


def _slow_disk(rng: Generator, world: World, _: Noise, fault: Fault, effects: Effects) -> None:
    """Checkpoints only, so they are made to count."""
    fault.factor = max(fault.factor * 1.5, 1.6)
    more = (fault.factor - 1) * fault.level[:, None] * _hit(fault)
    effects.checkpoint *= 1 + more * rng.gamma(30, 1 / 30, (world.steps, 1))


def _freezes(rng: Generator, world: World, _: Noise, fault: Fault, effects: Effects) -> None:
    for step in _events(rng, fault, int(rng.integers(1, 8))):
        seconds = float(rng.uniform(4, 40))
        effects.pause[step, fault.member] += seconds
        fault.frozen[step] = seconds


_Apply = Callable[[Generator, World, Noise, Fault, Effects], None]
_APPLY: dict[str, _Apply] = {
    "thermal": _slow_clock, "thermal_hbm": _slow_clock, "power": _slow_clock,
    "brake": _slow_clock, "slowgpu": _slow_clock, "ecc": _memory_errors,
    "xidstall": _driver_stalls, "pcie": _narrow_bus, "nvlink": _peer_link,
    "nic_rate": _slow_port, "nic_loss": _slow_port, "nic_flap": _flapping_port,
    "congestion": _congestion, "hostcpu": _busy_host, "data": _slow_data, "gc": _collections,
    "ckpt": _slow_disk, "freeze": _freezes,
}  # fmt: skip
