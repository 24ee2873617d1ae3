"""What this machine can do to an emulated network, found out by doing it, and why it cannot."""

import os
from collections.abc import Callable
from functools import cache
from ipaddress import IPv4Address

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.network import iproute, links, netns
from lockstep.workloads.network.iproute import NetworkError
from lockstep.workloads.network.tunnel import TUN, probe_device


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
    return iproute.why_not() or _probed("veth and bridge devices", _make_devices)


@cache
def has_netem() -> bool:
    """Whether the kernel delays and loses packets itself."""
    return not _probed_shaping("netem", None, LinkSetting(delay=0.001))


@cache
def _no_tbf() -> str:
    return _probed_shaping("tbf (CONFIG_NET_SCH_TBF)", None, LinkSetting(rate=1e6)) or (
        _probed_shaping(
            "htb and u32 (CONFIG_NET_SCH_HTB, CONFIG_NET_CLS_U32)",
            IPv4Address("10.0.0.1"),
            LinkSetting(rate=1e6),
        )
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


def _make_devices() -> None:
    with iproute.kernel() as calls:
        calls.link("add", kind="veth", ifname="probe0", peer={"ifname": "probe1"})
        iproute.set_link(calls, "lo", state="up")
        calls.link("add", kind="bridge", ifname="probe2")


def _probed_shaping(what: str, peer: IPv4Address | None, setting: LinkSetting) -> str:
    requests = links.requests({peer: setting}, "dst")
    return _probed(what, lambda: iproute.shape("lo", requests))


def _probed(what: str, attempt: Callable[[], None]) -> str:
    try:
        with netns.fresh():
            attempt()
    except NetworkError as error:
        return f"needs {what} of the kernel: {error}"
    except OSError as error:
        return f"needs network namespaces, and this process may not make one: {error.strerror}"
    return ""
