"""What is injected: which kind, where, how it goes in time, how large, what sensors tell of it."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from lockstep.collector.contract.words import Cause
from tests.benchmarks.independent.layout import World
from tests.benchmarks.independent.steps import Timeline
from tests.benchmarks.simulated.arrays import Bools, Floats, Generator

GPU_FAULTS = (
    "thermal", "thermal_hbm", "power", "brake", "slowgpu", "ecc", "xidstall", "pcie", "nvlink",
)  # fmt: skip
NETWORK_FAULTS = ("nic_rate", "nic_loss", "nic_flap", "congestion")
HOST_FAULTS = ("hostcpu", "data", "gc", "ckpt", "freeze")
STOP_FAULTS = ("crash", "xidcrash", "hang")
SECOND_FAULTS = GPU_FAULTS + HOST_FAULTS[:3] + NETWORK_FAULTS[:2]
"""What may come beside another one."""
CAUSES = {
    "thermal": Cause.THERMAL, "thermal_hbm": Cause.THERMAL, "power": Cause.POWER,
    "brake": Cause.POWER, "slowgpu": Cause.SLOW_GPU, "ecc": Cause.ECC, "xidstall": Cause.XID,
    "pcie": Cause.PCIE, "nvlink": Cause.NVLINK, "nic_rate": Cause.LINK, "nic_loss": Cause.LINK,
    "nic_flap": Cause.LINK, "congestion": Cause.CONGESTION, "hostcpu": Cause.HOST_CPU,
    "data": Cause.DATA, "gc": Cause.GC, "ckpt": Cause.CHECKPOINT, "freeze": Cause.FREEZE,
    "crash": Cause.CRASH, "xidcrash": Cause.XID, "hang": Cause.FREEZE,
}  # fmt: skip
"""What a verdict should say of each kind."""
OF_NODES = ("brake", "hostcpu", "data", "ckpt", "nic_rate", "nic_loss", "nic_flap")
SEEN_IN_STEPS = ("gc", "crash", "hang", "ckpt", "freeze")
"""Kinds that need no sensor: phases and heartbeats tell of them."""
VISIBLE = {"good": 1.0, "late": 1.0, "weak": 0.4, "none": 0.0}
"""How much of a fault sensors show."""


@dataclass(eq=False)
class Fault:
    """One fault.

    Attributes:
        scope: rank, node or rack.
        rank, node: Where it is; of a rack, one of it.
        level: (steps,) 0 to 1, how much of it there is.
        factor: Times slower at level 1, as intended; what it comes to is measured.
        telemetry: good, late, weak or none.
        member: (ranks,) who is hit.
        events: Steps in which something happens, where it is not all the time.
        leaf: Number of the switch of a rack, and leaf_nodes under it.
        times: Factor of communication of a link.
        rail: The one adapter that is hit; None is all of the node.
        xid, pcie_to, nvlinks_lost, power_limited: What sensors say of such kinds.
        frozen: Seconds by step.
        run_queue, collected: (steps, ranks) share of steps waited for a CPU; seconds collected.
        alone: The run with this fault only.
    """

    kind: str
    scope: str
    rank: int
    node: int
    shape: str
    begin: int
    end: int
    level: Floats
    factor: float
    telemetry: str
    member: Bools
    leaf: int | None = None
    leaf_nodes: tuple[int, ...] = ()
    events: list[int] = field(default_factory=list)
    times: float | None = None
    rail: int | None = None
    xid: str | None = None
    pcie_part: str = ""
    pcie_to: float = 0.0
    nvlinks_lost: int = 0
    power_limited: bool = False
    frozen: dict[int, float] = field(default_factory=dict)
    run_queue: Floats | None = None
    collected: Floats | None = None
    alone: Timeline | None = None

    @property
    def visible(self) -> bool:
        return self.telemetry != "none"

    @property
    def members(self) -> list[int]:
        found: list[int] = np.flatnonzero(self.member).tolist()
        return found

    def touches(self, node: int) -> bool:
        return node == self.node or node in self.leaf_nodes


@dataclass(frozen=True)
class Stop:
    """The step in which the run ends or stands still, of whom, and how long that is watched."""

    kind: str
    step: int
    ranks: list[int]
    timeout: float

    @property
    def of_death(self) -> bool:
        return self.kind != "hang"


def choose_kind(rng: Generator, world: World, kinds: Sequence[str]) -> str | None:
    """One of those that this cluster can have; None where it can have none."""
    able = [kind for kind in kinds if _possible(world, kind)]
    return str(rng.choice(able)) if able else None


def _possible(world: World, kind: str) -> bool:
    if kind == "nvlink":
        return world.layout.tp > 1
    if kind == "congestion":
        nodes, leaf = world.layout.nodes, world.leaf_size
        return nodes >= 6 and leaf > 0 and nodes // leaf >= 2 and world.dp_crosses
    return kind not in NETWORK_FAULTS or world.dp_crosses or world.pp_crosses


def draw_fault(
    rng: Generator, world: World, kind: str, small: bool, avoid: Collection[int]
) -> Fault:
    """Away from the nodes of `avoid`; small is a factor of 1.03 to 1.1."""
    steps = world.steps
    while True:
        rank = int(rng.integers(world.ranks))
        node = int(world.node[rank])
        if node not in avoid:
            break
    shape = str(
        rng.choice(
            ["constant", "ended", "ramp", "sawtooth", "periodic", "bursts"],
            p=[0.5, 0.18, 0.1, 0.05, 0.07, 0.1],
        )
    )
    from_start = rng.random() < 0.15 and shape == "constant"
    begin = 0 if from_start else int(steps * rng.uniform(0.08, 0.75))
    end = steps
    if shape == "ended":
        end = min(steps, begin + max(12, int(steps * rng.uniform(0.12, 0.4))))
    if small:
        factor = float(rng.uniform(1.03, 1.10))
    else:
        factor = float(np.clip(1 + math.exp(rng.normal(math.log(0.35), 0.8)), 1.11, 4))
    telemetry = str(rng.choice(["good", "late", "weak", "none"], p=[0.66, 0.14, 0.12, 0.08]))
    if kind == "slowgpu":
        telemetry = "none"
    scope = "node" if kind in OF_NODES else "rank"
    if kind in ("thermal", "freeze") and rng.random() < 0.2:
        scope = "node"
    member = np.arange(world.ranks) == rank if scope == "rank" else world.node == node
    leaf, leaf_nodes = None, tuple[int, ...]()
    if kind == "congestion":
        scope, leaf = "rack", node // world.leaf_size
        leaf_nodes = tuple(
            each for each in range(world.layout.nodes) if each // world.leaf_size == leaf
        )
        member = np.isin(world.node, leaf_nodes)
    level = _level(rng, shape, begin, end, steps)
    return Fault(
        kind, scope, rank, node, shape, begin, end, level, factor, telemetry, member, leaf,
        leaf_nodes,
    )  # fmt: skip


def draw_details(rng: Generator, fault: Fault) -> None:
    """What its sensors will say in particular."""
    if fault.kind == "pcie":
        fault.pcie_part = str(rng.choice(["width", "gen"]))
        ways = [8, 4, 2, 1] if fault.pcie_part == "width" else [1, 3]
        fault.pcie_to = float(rng.choice(ways))
    elif fault.kind == "nvlink":
        down = str(rng.choice(["down", "errors"])) == "down"
        lost = int(rng.integers(1, 5))
        fault.nvlinks_lost = lost if down else 0
    elif fault.kind == "power":
        fault.power_limited = bool(rng.random() < 0.5)


def draw_stop(rng: Generator, world: World, fault: Fault) -> Stop:
    """Makes the fault one that ends the run, of its rank or of all ranks of its node."""
    step = int(world.steps * rng.uniform(0.3, 0.95))
    timeout = float(rng.uniform(90, 400))
    fault.level, fault.begin, fault.end = np.zeros(world.steps), step, world.steps
    fault.scope, fault.shape = "rank", "stop"
    words, odds = ["79", "95", "94", "48", "31"], [0.4, 0.2, 0.15, 0.15, 0.1]
    fault.xid = str(rng.choice(words, p=odds))
    ranks = [fault.rank]
    if rng.random() < 0.2 and fault.kind != "xidcrash":
        fault.scope, fault.member = "node", world.node == fault.node
        ranks = fault.members
    return Stop(fault.kind, step, ranks, timeout)


def _level(rng: Generator, shape: str, begin: int, end: int, steps: int) -> Floats:
    """(steps,) how much of a fault there is, 0 to 1."""
    level = np.zeros(steps)
    count = end - begin
    if count <= 0:
        return level
    turn = np.arange(count)
    if shape in ("constant", "ended"):
        level[begin:end] = 1
    elif shape == "ramp":
        climb = max(1, int(count * rng.uniform(0.3, 1.0)))
        level[begin:end] = np.minimum(1, (turn + 1) / climb)
    elif shape == "sawtooth":
        period = max(6, int(count / rng.integers(3, 9)))
        level[begin:end] = (turn % period) / period
    elif shape == "periodic":
        period = max(8, int(count / rng.integers(4, 12)))
        level[begin:end] = (turn % period) < period * rng.uniform(0.3, 0.7)
    elif shape == "bursts":
        step = begin
        while step < end:
            long = max(2, int(rng.exponential(count / 12)))
            pause = max(2, int(rng.exponential(count / 12)))
            level[step : min(end, step + long)] = 1
            step += long + pause
    return level
