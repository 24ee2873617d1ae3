"""Turns the knobs of a run's link faults: a process beside the launcher that follows the rings.

It knows the step of each faulty node from the ring of its first rank, so the ranks themselves do
nothing for a link fault, and it works with whatever they train. A fault begins within
POLL_SECONDS of its first step.
"""

import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from statistics import median
from time import monotonic, sleep

from lockstep.collector.contract import ring
from lockstep.collector.contract.ring import file_name
from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.network import netns
from lockstep.workloads.network.iproute import NetworkError
from lockstep.workloads.network.links import Links
from lockstep.workloads.network.names import FABRIC, Names
from lockstep.workloads.network.observation import Observation, write
from lockstep.workloads.network.steering import Steering
from lockstep.workloads.recording import WARMUP_STEPS

_BYTES = ring.GROUP_COUNTERS_OFFSET + ring.MAX_GROUPS * ring.GROUP_COUNTERS.size


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a rank is.

    Attributes:
        steps: Completed, so also the number of the step that it is in.
        wall_seconds: Of all completed steps.
        collectives: Completed by this rank.
    """

    steps: int
    wall_seconds: float
    collectives: int


class RingSteps:
    """Reads one rank's ring."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def read(self) -> Progress | None:
        """Where the rank is; None before it has a ring, and while it writes this very part."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
        page = os.pread(self._descriptor, _BYTES, 0)
        guard = os.pread(self._descriptor, ring.GUARD.size, ring.GUARD_OFFSET)
        if len(page) < _BYTES or page[: len(ring.MAGIC)] != ring.MAGIC:
            return None
        header = ring.Header(page)
        if header.guard % 2 or ring.GUARD.pack(header.guard) != guard:
            return None
        done = header.counters
        return Progress(
            done.steps, done.wall_ns / 1e9, sum(group.collectives for group in header.groups)
        )


POLL_SECONDS = 0.004
PROBE_STEPS = 2
"""Steps before and after the onset at which the round trip is measured."""


def control(
    faults: Sequence[Fault], names: Names, links: Links, how: str, workspace: Path, logs: Path,
    ranks_per_node: int,
) -> None:  # fmt: skip
    """Steer link faults until this process is ended; then say what they did.

    Args:
        faults: Of kinds of LINK_KINDS.
        names: The network's.
        links: What puts settings into force.
        how: Its name, for truth.json.
        workspace: Folder of the run's rings.
        logs: Where to say what they did.
        ranks_per_node: Ranks on each node.
    """
    steered = [_Steered(fault, names, how, workspace, ranks_per_node) for fault in faults]
    try:
        while True:
            for steering in steered:
                steering.follow()
            for node in {steering.node for steering in steered}:
                _apply(links, node, [steering for steering in steered if steering.node == node])
            sleep(POLL_SECONDS)
    finally:
        write(logs, [steering.finished() for steering in steered])


def _apply(links: Links, node: int, here: list["_Steered"]) -> None:
    """Let what its faults want now hold for a node, and nothing else."""
    if not any(steering.turns for steering in here):
        return
    rules = {
        steering.fault.peer: steering.wanted
        for steering in here
        if steering.wanted != LinkSetting()
    }
    try:
        links.apply(node, rules)
    except NetworkError as error:
        for steering in here:
            steering.seen.error = str(error)
    for steering in here:
        steering.turned()


class _Steered:
    """One fault with what is known of its node."""

    def __init__(
        self, fault: Fault, names: Names, how: str, workspace: Path, ranks_per_node: int
    ) -> None:
        assert fault.node is not None
        self.fault, self.node = fault, fault.node
        self.seen = Observation(fault, how)
        self.wanted = LinkSetting()
        self._in_force = LinkSetting()
        rank = fault.node * ranks_per_node
        self._ring = RingSteps(workspace / f"node-{fault.node}" / file_name(rank))
        self._steering = Steering(fault)
        self._names = names
        self._counters = NodeCounters(names.namespace(fault.node))
        other = (fault.node + 1) % names.nodes if fault.peer is None else fault.peer
        self._peer = names.address(other)
        self._peers = names.nodes - 1 if fault.peer is None else 1
        self._last: Progress | None = None
        self._healthy_from: tuple[Progress, int, int] | None = None
        self._probed = {"before": False, "during": False}
        self._forced_steps = 0
        self._retransmitted = 0

    @property
    def turns(self) -> bool:
        """Whether the link is to change now."""
        return self.wanted != self._in_force

    def turned(self) -> None:
        """The link has changed, or could not."""
        self._in_force = self.wanted
        self.seen.turned(self.wanted)

    def follow(self) -> None:
        """Look where the node is, learn from the steps it has completed, decide what it gets."""
        position = self._ring.read()
        if position is None:
            return
        bits = self._counters.bits()
        begun = self._healthy_from is not None and position.steps >= self.fault.from_step
        if self._healthy_from is not None and position.steps < self.fault.to_step:
            self.seen.traffic(monotonic(), bits, in_force=self._in_force != LinkSetting())
        last, self._last = self._last, position
        if last is None or position.steps == last.steps:
            return
        self._learn(last, position)
        if self._healthy_from is None and position.steps >= WARMUP_STEPS:
            self._healthy_from = position, bits, self._counters.retransmitted()
        if begun and not self.seen.bits_per_step:
            self._begin(position, bits)
        self._probe(position.steps)
        self.wanted = self._steering.setting(position.steps) if begun else LinkSetting()
        strongest = self.fault.strength(position.steps)
        if strongest and self.wanted != LinkSetting():
            self.seen.setting = self.wanted.scaled(1.0 / strongest)

    def finished(self) -> Observation:
        """What was seen, at the end of the run."""
        if self.seen.bits_per_step:
            again = self._counters.retransmitted() - self._retransmitted
            self.seen.during.retransmitted = again
            self.seen.during.steps = self._forced_steps
        return self.seen

    def _learn(self, last: Progress, position: Progress) -> None:
        completed = position.steps - last.steps
        seconds = (position.wall_seconds - last.wall_seconds) / completed
        for step in range(last.steps, position.steps):
            self._steering.observe(step, seconds)
            self._forced_steps += self.fault.strength(step) > 0.0

    def _begin(self, position: Progress, bits: int) -> None:
        """The fault's first step runs: size it by the healthy ones."""
        assert self._healthy_from is not None
        then, bits_then, retransmitted = self._healthy_from
        steps = max(1, position.steps - then.steps)
        self._retransmitted = self._counters.retransmitted()
        self.seen.bits_per_step = max(1.0, (bits - bits_then) / steps)
        self.seen.before.steps = steps
        self.seen.before.retransmitted = self._retransmitted - retransmitted
        # A ring of n nodes passes a collective on 2 (n - 1) times, one after the other (gloo).
        rounds = (position.collectives - then.collectives) / steps * 2 * max(1, self._peers)
        self._steering.begin(self.seen.bits_per_step, rounds)
        self.seen.healthy_step_seconds = self._steering.healthy_seconds

    def _probe(self, step: int) -> None:
        """Measure the round trip once on each side of the onset, between two steps of it."""
        first = self.fault.from_step
        for name, from_step, to_step in (
            ("before", first - PROBE_STEPS, first),
            ("during", first + PROBE_STEPS, self.fault.to_step),
        ):
            in_force = name == "before" or self._in_force != LinkSetting()
            if from_step <= step < to_step and in_force and not self._probed[name]:
                self._probed[name] = True
                state = self.seen.before if name == "before" else self.seen.during
                namespace = self._names.namespace(self.node)
                state.round_trip_seconds = round_trip(namespace, self._peer)


CLOSED_PORT = 9
"""Discard (RFC 863): nobody listens in our namespaces, so the peer's kernel refuses at once."""
PROBES = 5
PROBE_SECONDS = 1.0

_TRAFFIC = re.compile(rf"^\s*{FABRIC}:\s*(\d+)(?:\s+\d+){{7}}\s+(\d+)\s", re.MULTILINE)
_TCP = re.compile(r"^Tcp: (.+)\nTcp: (.+)$", re.MULTILINE)


class NodeCounters:
    """Counters of one node's namespace, held open."""

    def __init__(self, namespace: str) -> None:
        # An open file of /proc/net tells of the namespace that it was opened in.
        with netns.inside(namespace):
            self._devices = os.open("/proc/thread-self/net/dev", os.O_RDONLY | os.O_CLOEXEC)
            self._protocols = os.open("/proc/thread-self/net/snmp", os.O_RDONLY | os.O_CLOEXEC)

    def bits(self) -> int:
        """What passed through the node's `eth0` so far, in the direction of more."""
        match = _TRAFFIC.search(os.pread(self._devices, 16384, 0).decode())
        return max(int(match[1]), int(match[2])) * 8 if match else 0

    def retransmitted(self) -> int:
        """TCP segments that were sent again so far (RFC 4022, tcpRetransSegs)."""
        match = _TCP.search(os.pread(self._protocols, 16384, 0).decode())
        if match is None:
            return 0
        return int(dict(zip(match[1].split(), match[2].split(), strict=True))["RetransSegs"])

    def close(self) -> None:
        """Close the files."""
        os.close(self._devices)
        os.close(self._protocols)


def round_trip(namespace: str, address: IPv4Address) -> float | None:
    """Median seconds from a node to an address and back; None where nothing came back.

    A connection to a closed port is refused after one round trip: that needs neither a server nor
    `ping`.
    """
    seconds = []
    for _ in range(PROBES):
        with netns.inside(namespace):
            probe = socket.socket()
        with probe:
            probe.settimeout(PROBE_SECONDS)
            began = monotonic()
            try:
                probe.connect((str(address), CLOSED_PORT))
            except ConnectionRefusedError:
                seconds.append(monotonic() - began)
            except OSError:  # nothing in time, or no way there
                continue
    return median(seconds) if seconds else None
