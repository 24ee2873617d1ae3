"""Where each GPU lies in the map of a fleet: a node is a short row, and rows stand in columns."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.dashboard.shapes import FleetSnapshot

FLAT_NODES = 32
"""Up to so many nodes, each has a row of its own with its name beside it."""
WIDE = 1.8
"""Width over height that a folded map aims at: that of the room on a page."""


@dataclass(frozen=True, slots=True)
class Folding:
    """The places of a map.

    Attributes:
        names: (N,) nodes in the order of the map, those that do not answer included.
        slots: Places of a node.
        columns: Nodes beside each other.
        node: (G,) index into `names` of each GPU.
        slot: (G,) its place within its node.
        gpus: (slots,) index that the GPU in each place has; -1 where nodes differ.
    """

    names: tuple[str, ...]
    slots: int
    columns: int
    node: NDArray[np.int64]
    slot: NDArray[np.int64]
    gpus: NDArray[np.int32]

    @property
    def rows(self) -> int:
        """Of the map."""
        return math.ceil(len(self.names) / self.columns)

    @property
    def stride(self) -> int:
        """From one node to the one beside it: its places and, in a folded map, a gap."""
        return self.slots + (self.columns > 1)

    def x(self, node: NDArray[np.int64], slot: NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns of places: nodes follow each other down the first column, then the next."""
        return node // self.rows * self.stride + slot

    def y(self, node: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of nodes, from the top."""
        return node % self.rows

    def grid(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """(rows, columns) of one value a GPU; NaN where there is none."""
        cells = np.full((self.rows, self.columns * self.stride), np.nan, np.float32)
        cells[self.y(self.node), self.x(self.node, self.slot)] = values
        return cells


def folded(fleet: FleetSnapshot) -> Folding:
    """Lays a fleet out: nodes in its order, then those that are silent and have no value."""
    node, names = pd.factorize(fleet.nodes.astype(object))
    node = node.astype(np.int64)
    every = dict.fromkeys([*map(str, names), *fleet.silent])
    order = np.argsort(node, kind="stable")
    counts = np.bincount(node, minlength=max(len(names), 1))
    begins = np.cumsum(counts) - counts
    slot = np.empty(len(node), np.int64)
    slot[order] = np.arange(len(node)) - begins[node[order]]
    slots = int(counts.max()) if len(node) else 1
    gpus = np.full(slots, -1, np.int32)
    for place in range(slots):
        there = np.unique(fleet.gpus[slot == place])
        gpus[place] = there[0] if len(there) == 1 else -1
    count = max(len(every), 1)
    columns = 1
    if count > FLAT_NODES:
        columns = max(1, round(math.sqrt(WIDE * count / (slots + 1))))
    return Folding(tuple(every), slots, columns, node, slot, gpus)
