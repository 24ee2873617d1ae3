"""What the network carries: transfers of gradients share links by max-min fairness.

Each node has an adapter a rail, with a link up and one down; leaf switches have uplinks, of which a
transfer takes one by hash. All transfers are there at once; the link that leaves the least for each
fills first, and what remains is shared likewise (progressive filling; Bertsekas and Gallager, Data
Networks, 6.5.2).
"""

import math
from collections.abc import Mapping

import numpy as np

from tests.benchmarks.foreign.scenario import Scenario
from tests.benchmarks.simulated.arrays import Floats, Generator, Ints

LEAST = 0.02
"""Share of its capacity that the worst link keeps."""


class Network:
    """Capacities count in adapters: 1 is what one of them carries."""

    def __init__(self, scenario: Scenario, rng: Generator) -> None:
        layout, communication = scenario.layout, scenario.communication
        self._layout, self._communication, self._rng = layout, communication, rng
        leaves = math.ceil(layout.nodes / communication.leaf_size)
        self._ports = layout.nodes * communication.rails
        self._uplinks = leaves * communication.uplinks
        self._links = 2 * self._ports + 2 * self._uplinks
        self.groups: dict[tuple[int, int], int] = {}
        """Numbers of data-parallel groups, by stage and tensor-parallel coordinate."""
        self.ends: list[tuple[int, int]] = []
        """Nodes from and to which each transfer goes."""
        self.group_of: Ints = np.zeros(0, int)
        """(transfers,)"""
        self.connect()

    def transmit(self, node: int, rail: int) -> int:
        """Number of a link, from an adapter into the network; receive is the way back."""
        return node * self._communication.rails + rail

    def receive(self, node: int, rail: int) -> int:
        return self._ports + node * self._communication.rails + rail

    def up(self, leaf: int, uplink: int) -> int:
        """Number of a link, from a leaf switch upwards; down is the way back."""
        return 2 * self._ports + leaf * self._communication.uplinks + uplink

    def down(self, leaf: int, uplink: int) -> int:
        return 2 * self._ports + self._uplinks + leaf * self._communication.uplinks + uplink

    def connect(self) -> None:
        """Lays a ring through each group, as at each start of the program."""
        layout, rails = self._layout, self._communication.rails
        self.groups, self.ends = {}, []
        self._transfers: list[list[int]] = []
        self._known: dict[tuple[tuple[int, float], ...], Floats] = {}
        group_of: list[int] = []
        for stage in range(layout.pp):
            for column in range(layout.tp):
                members = np.flatnonzero((layout.pp_of == stage) & (layout.tp_of == column))
                members = members[np.argsort(layout.dp_of[members])]
                group = self.groups.setdefault((stage, column), len(self.groups))
                if len(members) < 2:
                    continue
                # A group with several ranks on a node uses all of its adapters.
                several = len(set(layout.node[members])) < len(members)
                for source, target in zip(members, np.roll(members, -1), strict=True):
                    if layout.node[source] == layout.node[target]:
                        continue
                    own = [int(layout.local[source]) % rails]
                    for rail in range(rails) if several else own:
                        there = rail if several else int(layout.local[target]) % rails
                        near, far = int(layout.node[source]), int(layout.node[target])
                        self._transfers.append(self._path(near, far, rail, there))
                        group_of.append(group)
                        self.ends.append((near, far))
        self.group_of = np.array(group_of, int)

    def _path(self, near: int, far: int, rail: int, there: int) -> list[int]:
        size = self._communication.leaf_size
        links = [self.transmit(near, rail), self.receive(far, there)]
        if near // size != far // size:
            for link_of, leaf in ((self.up, near // size), (self.down, far // size)):
                uplink = int(self._rng.integers(self._communication.uplinks))
                links.append(link_of(leaf, uplink))
        return links

    def touching(self, nodes: list[int]) -> list[bool]:
        """Of each group, whether any of its transfers begins or ends at one of the nodes."""
        touched = {
            int(group)
            for group, (near, far) in zip(self.group_of, self.ends, strict=True)
            if near in nodes or far in nodes
        }
        return [group in touched for group in range(len(self.groups))]

    def rates(self, slower: Mapping[int, float]) -> Floats:
        """(groups,) share of an adapter that the slowest transfer of each has.

        Infinite for a group inside a node. `slower` are factors of the capacity of links.
        """
        key = tuple(sorted((link, round(factor, 2)) for link, factor in slower.items()))
        if key not in self._known:
            communication = self._communication
            capacity = np.ones(self._links)
            # Uplinks together carry what the adapters under the switch do.
            uplink = communication.leaf_size * communication.rails / communication.uplinks
            capacity[2 * self._ports :] = uplink
            for link, factor in key:
                capacity[link] *= max(factor, LEAST)
            rates = np.full(len(self.groups), np.inf)
            if self._transfers:
                np.minimum.at(rates, self.group_of, self._filled(capacity))
            self._known[key] = rates
        return self._known[key]

    def _filled(self, capacity: Floats) -> Floats:
        """(transfers,) rates: progressive filling."""
        count = len(self._transfers)
        left, rate, open_ = capacity.copy(), np.zeros(count), np.ones(count, bool)
        uses = np.zeros((count, self._links), bool)
        for transfer, links in enumerate(self._transfers):
            uses[transfer, links] = True
        while open_.any():
            crowd = uses[open_].sum(0)
            each = np.where(crowd > 0, left / np.maximum(crowd, 1), np.inf)
            narrowest = int(np.argmin(each))
            filled = open_ & uses[:, narrowest]
            rate[filled] = each[narrowest]
            left = np.maximum(left - uses[filled].sum(0) * each[narrowest], 1e-9)
            open_ &= ~filled
        return rate
