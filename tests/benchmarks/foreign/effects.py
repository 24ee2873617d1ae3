"""What faults change in a step, each by the part of the machine that has it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.benchmarks.foreign.faults import Fault
from tests.benchmarks.foreign.network import Network
from tests.benchmarks.foreign.scenario import FASTEST, Scenario
from tests.benchmarks.simulated.arrays import Floats, Generator

POWER_LIMIT = 700.0
"""Watts of a GPU."""
IDLE_WATTS, DYNAMIC_WATTS, POWER_EXPONENT = 95, 560, 2.4
"""Of an idle GPU, and more at full clock and load; power goes with the clock (voltage, too)."""
RESISTANCE = 0.062
"""Kelvin a watt from the die to the inlet air, with the fan still."""
TARGET = 86.5
"""Degrees Celsius above which a GPU's controller slows its clock."""
SEVERE, BAD = 1.35, 1.15
"""Factors above which a PCIe link has 1 and 2 lanes of 16; else 4."""


@dataclass
class StepEffects:
    """Neutral as made by `neutral`; (ranks,) factors where nothing else is said.

    Attributes:
        host: (nodes,) share of processors that is left; quota likewise of each rank.
        disk: (nodes,) factors of the time of reading; memory more of host time, by reclaiming.
        collecting: Seconds of garbage collection.
        slower: Of kernels; bus of copies to the device; worker of the loader.
        power_limit, brake: Watts and hertz that hold clocks.
        resistance: Of heat.
        peer_links: (tensor-parallel groups,) factors of exchanges inside a node.
        writing: Of writing a checkpoint.
        links: Factors of the capacity of links of the network.
        outage: Seconds in which a port was down.
    """

    host: Floats
    disk: Floats
    memory: Floats
    quota: Floats
    collecting: Floats
    slower: Floats
    bus: Floats
    worker: Floats
    power_limit: Floats
    brake: Floats
    resistance: Floats
    peer_links: Floats
    writing: Floats
    links: dict[int, float] = field(default_factory=dict)
    outage: float = 0.0


def neutral(scenario: Scenario) -> StepEffects:
    """Of a step in which there is no fault."""
    layout = scenario.layout
    nodes, ranks = layout.nodes, layout.ranks
    return StepEffects(
        host=np.ones(nodes), disk=np.ones(nodes), memory=np.zeros(nodes), quota=np.ones(ranks),
        collecting=np.zeros(ranks), slower=np.ones(ranks), bus=np.ones(ranks),
        worker=np.ones(ranks), power_limit=np.full(ranks, POWER_LIMIT),
        brake=np.full(ranks, FASTEST), resistance=np.ones(ranks),
        peer_links=np.ones(layout.dp * layout.pp), writing=np.ones(ranks),
    )  # fmt: skip


def slowed_clock(scenario: Scenario, times: float) -> float:
    """Hertz at which a kernel takes so many times as long: only a share of it goes with them."""
    share = scenario.compute.clock_share
    return FASTEST * share / (times - 1 + share)


@dataclass
class Change:
    """One fault in one step.

    Attributes:
        level: 0 to 1; times by how much it slows at that level.
        chance: (ranks,) uniform draws of the step.
    """

    scenario: Scenario
    network: Network
    flaps: Generator
    fault: Fault
    level: float
    times: float
    chance: Floats
    effects: StepEffects


def apply(
    scenario: Scenario, network: Network, flaps: Generator, faults: Sequence[Fault],
    levels: Sequence[float], chance: Floats, effects: StepEffects,
) -> None:  # fmt: skip
    """Of all faults that are there in a step; `flaps` draws when a port goes down."""
    for fault, level in zip(faults, levels, strict=True):
        if level > 0:
            times = fault.times(level)
            CHANGES[fault.kind](
                Change(scenario, network, flaps, fault, level, times, chance, effects)
            )


def _hot(change: Change) -> None:
    """The heat of the clock that is meant needs just this resistance to be at the target."""
    rank, compute = change.fault.rank, change.scenario.compute
    target = slowed_clock(change.scenario, change.times)
    watts = IDLE_WATTS + DYNAMIC_WATTS * (target / FASTEST) ** POWER_EXPONENT
    warmer = TARGET - change.scenario.surroundings.inlet[change.fault.node]
    factor = warmer / (RESISTANCE * compute.cooling[rank] * watts)
    change.effects.resistance[rank] = max(1, factor)


def _capped(change: Change) -> None:
    rank = change.fault.rank
    target = slowed_clock(change.scenario, change.times)
    dynamic = DYNAMIC_WATTS * change.scenario.compute.silicon[rank]
    watts = IDLE_WATTS + dynamic * (target / FASTEST) ** POWER_EXPONENT
    change.effects.power_limit[rank] = min(POWER_LIMIT, watts)


def _braked(change: Change) -> None:
    change.effects.brake[change.fault.ranks] = slowed_clock(change.scenario, change.times)


def _slow(change: Change) -> None:
    change.effects.slower[change.fault.rank] = change.times


def _narrow(change: Change) -> None:
    change.effects.bus[change.fault.rank] = narrowed(change.fault)


def narrowed(fault: Fault) -> int:
    """Times by which PCIe has fewer lanes."""
    return 16 if fault.factor > SEVERE else 8 if fault.factor > BAD else 4


def _peer_links(change: Change) -> None:
    group = change.scenario.layout.tp_group[change.fault.rank]
    change.effects.peer_links[group] = 1 + (change.times - 1) * 8


def _contention(change: Change) -> float:
    return change.level * (0.7 + 3 * (change.fault.factor - 1))


def _busy_host(change: Change) -> None:
    change.effects.host[change.fault.node] *= 1 / (1 + _contention(change))


def _small_quota(change: Change) -> None:
    change.effects.quota[change.fault.rank] = 1 / (1 + _contention(change))


def _swapping(change: Change) -> None:
    change.effects.memory[change.fault.node] = _contention(change)


def _slow_disk(change: Change) -> None:
    factor = 1 / change.scenario.habits.loader_use * change.times
    change.effects.disk[change.fault.node] *= factor


def _slow_worker(change: Change) -> None:
    factor = 1 / change.scenario.habits.loader_use * change.times
    change.effects.worker[change.fault.rank] = factor


def _collecting(change: Change) -> None:
    rank, step_seconds = change.fault.rank, change.scenario.length.step_seconds
    seconds = (change.times - 1) * 0.8 * step_seconds * (0.5 + change.chance[rank])
    change.effects.collecting[rank] = seconds


def _slow_port(change: Change) -> None:
    """Trained to a lower rate: a quarter or a half."""
    fault, network = change.fault, change.network
    for link_of in (network.transmit, network.receive):
        link = link_of(fault.node, fault.rail)
        change.effects.links[link] = port_rate(fault)


def port_rate(fault: Fault) -> float:
    """Share of its rate that a slow port has."""
    return 0.25 if fault.factor > 1.3 else 0.5


def _lossy_port(change: Change) -> None:
    fault = change.fault
    link = change.network.transmit(fault.node, fault.rail)
    change.effects.links[link] = 1 / (1 + (change.times - 1) * 3)


def _flapping_port(change: Change) -> None:
    step_seconds, flaps = change.scenario.length.step_seconds, change.flaps
    if flaps.random() < min(0.25, 0.02 * step_seconds + 0.01):
        change.effects.outage = float(flaps.uniform(0.5, 4) * max(0.5, step_seconds))


def _full_leaf(change: Change) -> None:
    leaf, network = change.fault.leaf, change.network
    assert leaf is not None
    for uplink in range(change.scenario.communication.uplinks):
        for link_of in (network.up, network.down):
            change.effects.links[link_of(leaf, uplink)] = 1 / (1 + (change.times - 1) * 3.5)


def _slow_writing(change: Change) -> None:
    change.effects.writing[change.fault.ranks] = change.times


CHANGES: dict[str, Callable[[Change], None]] = {
    "thermal": _hot,
    "power": _capped,
    "powernode": _braked,
    "slowgpu": _slow,
    "ecc": _slow,
    "xid": _slow,
    "pcie": _narrow,
    "nvlink": _peer_links,
    "hostnode": _busy_host,
    "hostrank": _small_quota,
    "datanode": _slow_disk,
    "datarank": _slow_worker,
    "gc": _collecting,
    "swap": _swapping,
    "portrate": _slow_port,
    "portloss": _lossy_port,
    "portflap": _flapping_port,
    "leaf": _full_leaf,
    "ckptrank": _slow_writing,
    "ckptnode": _slow_writing,
}
