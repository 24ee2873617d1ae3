"""What this machine can do to an emulated network, found out by doing it, and why it cannot."""

import os
from functools import cache

from collector.contract.words import FaultKind
from workloads.network import iproute, netns
from workloads.network.iproute import NetworkError
from workloads.network.tunnel import TUN, probe_device

_VETH = ("link add probe0 type veth peer name probe1", "link set lo up")
_BRIDGE = ("link add probe2 type bridge",)


def why_not(kind: FaultKind) -> str:
    """Empty if a kind of link fault can be injected here, else the reason.

    Args:
        kind: One of faults.link.LINK_KINDS.
    """
    reason = no_namespaces()
    if not reason:
        reason = _no_tbf() if kind is FaultKind.LINK_BANDWIDTH else _no_delay()
    return f"{kind} {reason}" if reason else ""


@cache
def no_namespaces() -> str:
    """Empty if nodes can have network namespaces here, else what they need."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces: run as root, or choose another fault kind"
    return iproute.why_not() or _probed("veth and bridge devices", (*_VETH, *_BRIDGE), ())


@cache
def has_netem() -> bool:
    """Whether the kernel delays and loses packets itself."""
    return not _probed("netem", (), ("qdisc add dev lo root netem delay 1ms",))


@cache
def _no_tbf() -> str:
    lines = "qdisc add dev lo root tbf rate 1mbit burst 3200 limit 10000"
    per_peer = (
        "qdisc add dev lo root handle 1: htb default 0",
        "class add dev lo parent 1: classid 1:1 htb rate 1mbit",
        "filter add dev lo parent 1: protocol ip prio 1 u32 match ip dst 10.0.0.1/32 flowid 1:1",
    )
    return _probed("tbf (CONFIG_NET_SCH_TBF)", (), (lines,)) or _probed(
        "htb and u32 (CONFIG_NET_SCH_HTB, CONFIG_NET_CLS_U32)", (), per_peer
    )


@cache
def _no_delay() -> str:
    if has_netem():
        return ""
    try:
        with netns.fresh():
            probe_device()
    except OSError as error:
        return (
            f"needs netem (CONFIG_NET_SCH_NETEM) or {TUN} (CONFIG_TUN), and this machine has"
            f" neither: {error.strerror}"
        )
    return ""


def _probed(what: str, ip_lines: tuple[str, ...], tc_lines: tuple[str, ...]) -> str:
    try:
        with netns.fresh():
            if ip_lines:
                iproute.ip(*ip_lines)
            if tc_lines:
                iproute.tc(tc_lines)
    except NetworkError as error:
        return f"needs {what} of the kernel: {error}"
    except OSError as error:
        return f"needs network namespaces, and this process may not make one: {error.strerror}"
    return ""
