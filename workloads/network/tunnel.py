"""The user-space link: nodes are connected by TUN devices and a process that forwards.

For kernels without netem (`CONFIG_NET_SCH_NETEM`). The process reads whole IP packets, asks
schedule.py when each is due, and writes it to the device of its destination. The devices go with
the process.

When a packet of the user-space link arrives, or that it never does; pure.

A packet passes two lines: what its sender sends and what its receiver gets. Each line paces to
its rate, then delays, and both may lose. Packets of one pair of nodes keep their order, as they
do on one cable: jitter delays those behind, too.
"""

import fcntl
import heapq
import json
import os
import random
import select
import socket
import struct
from collections.abc import Mapping
from dataclasses import astuple
from ipaddress import IPv4Address
from pathlib import Path
from time import monotonic, sleep

from lockstep.collector.contract import bounded_json
from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.launch.processes import SideProcess
from lockstep.workloads.network import iproute, netns
from lockstep.workloads.network.iproute import NetworkError
from lockstep.workloads.network.links import Rules, checked
from lockstep.workloads.network.names import FABRIC, Names, fabric_prefix

MTU = 65_000
"""Bytes: as few packets as can be, for each costs this process some 10 µs."""
ANSWER_SECONDS = 20.0
"""For the process that links the nodes; it answers at once where it gets a processor."""
HELD_BYTES = 64 * 2**20
"""What the link holds at most, above what TCP keeps in flight; more is lost."""
TUN = "/dev/net/tun"
BATCH = 16
MILLISECOND = 1e-3
NAP_SECONDS = 1e-4
"""Less than what a packet takes through a process; what arrives meanwhile waits so long."""

# Of <linux/if_tun.h>.
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_DESTINATION = slice(16, 20)  # of an IPv4 header (RFC 791)


class Tunnel:
    """See links.Links: a forwarding process and the way to tell it what holds."""

    def __init__(self, names: Names, log: Path, seed: int) -> None:
        devices: list[int] = []
        try:
            for node in range(names.nodes):
                devices.append(open_device(names.namespace(node), FABRIC))
                with iproute.kernel(names.namespace(node)) as calls:
                    prefix = f"{names.address(node)}/{fabric_prefix()}"
                    words = {"mtu": MTU, "txqlen": 1000, "state": "up"}
                    iproute.set_link(calls, FABRIC, address=prefix, **words)
            self._told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            addresses = [names.address(node) for node in range(names.nodes)]
            self._helper = SideProcess(lambda: forward(devices, addresses, theirs, seed), log)
            theirs.close()
        finally:
            for device in devices:
                os.close(device)

    def apply(self, node: int, rules: Rules) -> None:
        """From now on `rules`, and nothing else, hold for a node, in both directions.

        Raises:
            NetworkError: The process is gone.
        """
        listed = [[peer, *astuple(setting)] for peer, setting in checked(rules).items()]
        self._told.settimeout(ANSWER_SECONDS)
        try:
            self._told.send(json.dumps([node, listed]).encode())
            gone = not self._told.recv(16)
        except OSError:
            gone = True
        if gone:
            raise NetworkError("the process that links the emulated nodes is gone")

    def close(self) -> None:
        """End the process; its devices go with it."""
        self._told.close()
        self._helper.end()


def open_device(namespace: str, name: str) -> int:
    """A TUN device in a namespace, as a descriptor of whole IP packets.

    Raises:
        NetworkError: The kernel refused.
    """
    try:
        with netns.inside(namespace):
            return _opened(name)
    except OSError as error:
        raise NetworkError(f"no TUN device in {namespace}: {error.strerror}") from error


def probe_device() -> None:
    """Open a TUN device in the present namespace and close it.

    Raises:
        OSError: The kernel refused.
    """
    os.close(_opened("probe0"))


def _opened(name: str) -> int:
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        request = struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI)
        fcntl.ioctl(device, _TUNSETIFF, request)
    except OSError:
        os.close(device)
        raise
    return device


def forward(
    devices: list[int], addresses: list[IPv4Address], control: socket.socket, seed: int
) -> None:  # fmt: skip
    """Forward packets until `told` is closed.

    Args:
        devices: A TUN device for each node.
        addresses: The address of each node.
        control: Rules come here, each answered; see Tunnel.apply.
        seed: Of losses and jitter.
    """
    node_of = {address.packed: node for node, address in enumerate(addresses)}
    index = {device: node for node, device in enumerate(devices)}
    schedule = Schedule(seed)
    waiting: list[tuple[float, int, int, bytes]] = []
    count = held = 0
    disturbed = False
    poll = select.epoll()  # unlike select(), for descriptors above 1023 too
    for each in (control.fileno(), *devices):
        poll.register(each, select.EPOLLIN)
    while True:
        patience = max(0.0, waiting[0][0] - monotonic()) if waiting else None
        for each, _ in _ready(poll, patience):
            if each == control.fileno():
                message = control.recv(65536)
                if not message:
                    return
                node, listed = bounded_json.loads(message)
                schedule.set(node, {peer: LinkSetting(*rest) for peer, *rest in listed})
                disturbed = True
                control.send(b"held")
                continue
            for packet in _packets(each):
                target = node_of.get(packet[_DESTINATION])
                if target is None:  # IPv6, multicast
                    continue
                now = monotonic()
                due: float | None = now
                if disturbed:
                    due = schedule.arrival(index[each], target, len(packet), now)
                if due is None or held > HELD_BYTES:
                    continue
                if due <= now:
                    _deliver(devices[target], packet)
                    continue
                heapq.heappush(waiting, (due, count, target, packet))
                count += 1
                held += len(packet)
        now = monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, target, packet = heapq.heappop(waiting)
            held -= len(packet)
            _deliver(devices[target], packet)


def _ready(poll: select.epoll, patience: float | None) -> list[tuple[int, int]]:
    """Who can be read within `patience` seconds; epoll itself rounds up to milliseconds."""
    if patience is None:
        return poll.poll()
    if patience >= MILLISECOND:
        return poll.poll((int(patience / MILLISECOND) - 0.5) * MILLISECOND)
    sleep(min(patience, NAP_SECONDS))
    return poll.poll(0)


def _packets(device: int) -> list[bytes]:
    """What has come in; a bounded number, so that no node starves the others."""
    packets = []
    try:
        for _ in range(BATCH):
            packets.append(os.read(device, 65536))  # noqa: PERF401 - ends by an exception
    except BlockingIOError:
        pass
    return packets


def _deliver(device: int, packet: bytes) -> None:
    try:
        os.write(device, packet)
    except OSError:  # a full queue or a node that goes: IP promises nothing
        return


_NOTHING = LinkSetting()


class Schedule:
    """The lines of all nodes."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - a repeatable link, not a secret
        self._rules: dict[int, dict[int | None, LinkSetting]] = {}
        self._free_at: dict[tuple[int, int | None, bool], float] = {}
        self._last: dict[tuple[int, int], float] = {}

    def set(self, node: int, rules: Mapping[int | None, LinkSetting]) -> None:
        """Replace what holds for a node; packets on their way keep their time."""
        self._rules[node] = dict(rules)

    def arrival(self, source: int, destination: int, size: int, now: float) -> float | None:
        """Seconds of the same clock as `now` at which a packet arrives; None = it is lost.

        Args:
            source: The node that sends it.
            destination: The node that gets it.
            size: Bytes.
            now: When it was sent.
        """
        at: float | None = now
        for node, peer, sends in ((source, destination, True), (destination, source, False)):
            rules = self._rules.get(node)
            if rules and at is not None:
                key = peer if peer in rules else None
                setting = rules.get(key, _NOTHING)
                at = self._through(setting, (node, key, sends), size, at)
        if at is None:
            return None
        pair = source, destination
        at = self._last[pair] = max(at, self._last.get(pair, at))
        return at

    def _through(
        self, setting: LinkSetting, line: tuple[int, int | None, bool], size: int, now: float
    ) -> float | None:
        if setting.loss and self._dice.random() < setting.loss:
            return None
        if setting.rate is not None:
            now = max(now, self._free_at.get(line, now)) + size * 8 / setting.rate
            self._free_at[line] = now
        if setting.delay:
            now += setting.delay + self._dice.uniform(-1.0, 1.0) * setting.jitter
        return now
