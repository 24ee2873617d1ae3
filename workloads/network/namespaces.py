"""Makes and removes the namespaces of a run, their devices and the switch between them.

    machine: ls-<token> ── switch: mgmt bridge ── node: mgmt0      (collectors, recorder)
                           switch: fabric bridge ── node: eth0     (ranks; link faults)

Outside our namespaces there is one device, `ls-<token>`; no rule, route or setting of the machine
is changed. Its alias names the launcher, so that a dead run's network can be told from a living
one's.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lockstep.workloads.launch.processes import start_ticks
from lockstep.workloads.network import iproute, netns
from lockstep.workloads.network.iproute import NetworkError
from lockstep.workloads.network.names import (
    FABRIC,
    MANAGEMENT,
    MAX_NODES,
    Names,
    fabric_prefix,
    free_network,
    token_of,
)
from lockstep.workloads.network.names import token as token_for

_DEVICES = Path("/sys/class/net")
_ALIAS = re.compile(r"lockstep (\S+) (\d+) (\d+)")


@dataclass(frozen=True, slots=True)
class Owner:
    """Who made a network: the run, and its launcher's pid with its start time in clock ticks."""

    run: str
    pid: int
    start_ticks: int


def create(run: str, nodes: int, *, with_fabric: bool = True) -> Names:
    """The namespaces of a run; nothing of them is left when it fails.

    Args:
        run: Run id.
        nodes: Emulated nodes.
        with_fabric: Connect the nodes' `eth0` by the kernel's bridge; False where a user-space
            link does (tunnel.py).

    Raises:
        NetworkError: With what was refused.
    """
    if not 1 <= nodes <= MAX_NODES:
        raise NetworkError(f"{nodes} emulated nodes; a network has 1 to {MAX_NODES}")
    token = token_for(run)
    network = free_network(token, iproute.own_networks())
    if network is None:
        raise NetworkError("every private network of 10.0.0.0/8 is in use on this machine")
    names = Names(token, nodes, network)
    try:
        # The device with the owner's name goes first: nobody takes what follows for a leftover.
        pid, ticks = os.getpid(), start_ticks(os.getpid())
        with iproute.kernel() as calls:
            peer = f"{names.station}p"
            calls.link("add", kind="veth", ifname=names.station, peer={"ifname": peer})
            iproute.set_link(calls, names.station, ifalias=f"lockstep {run} {pid} {ticks}")
            for name in names.namespaces:
                netns.create(name)
            switch = str(netns.FOLDER / names.switch)
            iproute.set_link(calls, peer, net_ns_fd=switch, ifname="station")
            prefix = f"{names.station_address}/{network.prefixlen}"
            iproute.set_link(calls, names.station, address=prefix, state="up")
        _make_switch(names, with_fabric=with_fabric)
        for node in range(nodes):
            _make_node(names, node, with_fabric=with_fabric)
    except BaseException:
        remove(token)
        raise
    return names


def remove(token: str) -> None:
    """Take away all that a run's network consists of; what is not there is no error.

    Raises:
        OSError: Something of it may not be removed.
    """
    for name in _folder_names(netns.FOLDER):
        if token_of(name) == token:
            netns.forget(name)
    for name in _folder_names(_DEVICES):
        if token_of(name.removesuffix("p")) == token and (_DEVICES / name).exists():
            try:
                with iproute.kernel() as calls:
                    calls.link("del", ifname=name)
            except NetworkError:
                if (_DEVICES / name).exists():  # else it went with its other end
                    raise


def listed() -> dict[str, Owner | None]:
    """Every network of ours on this machine, by its token, with its owner where it is known."""
    tokens = {token_of(name) for name in _folder_names(netns.FOLDER)}
    tokens |= {token_of(name) for name in _folder_names(_DEVICES)}
    return {token: _owner(token) for token in sorted(tokens - {None}, key=str) if token}


def inhabited(token: str, proc: Path = Path("/proc")) -> bool:
    """Whether a process is inside one of a network's namespaces, as far as this user may see."""
    names = [name for name in _folder_names(netns.FOLDER) if token_of(name) == token]
    wanted = {(netns.FOLDER / name).stat().st_ino for name in names}
    for each in _folder_names(proc):
        if each.isdigit():
            with suppress(OSError):  # it has ended, or is another user's
                if (proc / each / "ns" / "net").stat().st_ino in wanted:
                    return True
    return False


def _owner(token: str) -> Owner | None:
    try:
        match = _ALIAS.match((_DEVICES / f"ls-{token}" / "ifalias").read_text())
    except OSError:
        return None
    if match is None or token_for(match[1]) != token:
        return None
    return Owner(match[1], int(match[2]), int(match[3]))


def _folder_names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _make_switch(names: Names, *, with_fabric: bool) -> None:
    with iproute.kernel(names.switch) as calls:
        index = {}
        for bridge in ("mgmt", "fabric") if with_fabric else ("mgmt",):
            calls.link("add", kind="bridge", ifname=bridge, br_stp_state=0)
            (index[bridge],) = calls.link_lookup(ifname=bridge)
            iproute.set_link(calls, bridge, state="up")
        iproute.set_link(calls, "station", master=index["mgmt"], state="up")
        for node in range(names.nodes):
            path = str(netns.FOLDER / names.namespace(node))
            for bridge, device in zip(index, (MANAGEMENT, FABRIC), strict=False):
                peer = {"ifname": device, "net_ns_fd": path}
                here = port(bridge[0], node)
                calls.link("add", kind="veth", ifname=here, peer=peer)
                iproute.set_link(calls, here, master=index[bridge], state="up")


def port(bridge: str, node: int) -> str:
    """The switch's end of a node's cable."""
    return f"{bridge}{node}"


def _make_node(names: Names, node: int, *, with_fabric: bool) -> None:
    with iproute.kernel(names.namespace(node)) as calls:
        iproute.set_link(calls, "lo", state="up")
        prefix = f"{names.management_address(node)}/{names.management.prefixlen}"
        iproute.set_link(calls, MANAGEMENT, address=prefix, state="up")
        if with_fabric:
            prefix = f"{names.address(node)}/{fabric_prefix()}"
            iproute.set_link(calls, FABRIC, address=prefix, state="up")
