"""Who is in the simulated fleet and what is wrong there: all of it follows from size and seed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.dashboard.shapes import Floats

GPUS_PER_NODE = 8
RUN = "gpt-simulated"
MOST_GPUS = 1_000_000
SCRAPE = 15.0
"""Seconds between two scrapes of the simulated Prometheus."""
RAN = 6 * 3600.0
"""Seconds for which the run has been going on when the program starts."""
SICK = 1800.0
"""Seconds for which the stragglers have been slow then."""
HOT_SLOWDOWN = 1.35
SLOWDOWNS = (HOT_SLOWDOWN, 1.22, 1.14)
"""Own time over that of the peers: of the hot node's GPUs, and of the others."""
CAUSES = ("thermal", "power", "pcie")


@dataclass(frozen=True, slots=True)
class Plan:
    """The fleet.

    Attributes:
        names: (N,) nodes.
        node: (G,) index of the node.
        gpu: (G,) index on the node.
        rank: (G,) of the run, -1 = none runs there.
        slowdown: (G,) own time over peers, without noise, from `sick` on.
        hot: Index of the hot node.
        silent: Index of the node that does not answer.
        culprits: GPUs (index into G), the slowest first.
        started, sick: Unix seconds.
    """

    names: tuple[str, ...]
    node: NDArray[np.int32]
    gpu: NDArray[np.int32]
    rank: NDArray[np.int32]
    slowdown: Floats
    hot: int
    silent: int
    culprits: tuple[int, ...]
    started: float
    sick: float

    @property
    def ranks(self) -> int:
        """How many the run has."""
        return int(self.rank.max(initial=-1)) + 1


def plan(gpus: int, seed: int, now: float) -> Plan:
    """The fleet of so many GPUs, nodes of GPUS_PER_NODE; a run has the first half of the nodes."""
    if not 1 <= gpus <= MOST_GPUS:
        raise ValueError(f"{gpus} simulated GPUs; it must be 1 to {MOST_GPUS}")
    dice = np.random.default_rng(seed)
    index = np.arange(gpus, dtype=np.int32)
    node, gpu = index // GPUS_PER_NODE, index % GPUS_PER_NODE
    nodes = int(node[-1]) + 1
    running = max(1, nodes // 2)
    rank = np.where(node < running, index, -1).astype(np.int32)
    sick_nodes = dice.permutation(running)[: len(SLOWDOWNS)]
    slowdown = np.ones(gpus)
    culprits = []
    for place, factor in zip(sick_nodes.tolist(), SLOWDOWNS, strict=False):
        here = np.flatnonzero(node == place)
        culprit = int(here[dice.integers(len(here))])
        slowdown[culprit] = factor
        culprits.append(culprit)
    width = max(4, len(str(nodes - 1)))
    begun = np.floor(now / SCRAPE) * SCRAPE
    return Plan(
        names=tuple(f"node-{number:0{width}d}" for number in range(nodes)),
        node=node, gpu=gpu, rank=rank, slowdown=slowdown, hot=int(sick_nodes[0]),
        silent=nodes - 1 if nodes > 1 else -1, culprits=tuple(culprits),
        started=float(begun - RAN), sick=float(begun - SICK),
    )  # fmt: skip
