"""Disturbances of the links of a node, and the kernel's queues (tc) that apply them."""

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address
from typing import Any, Protocol

from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.network import iproute
from lockstep.workloads.network.iproute import NetworkError, Queueing
from lockstep.workloads.network.names import FABRIC, Names
from lockstep.workloads.network.namespaces import port

# Requests to the queues of one device, in the terms of tc(8); pure.
#
# All traffic of a node: `tbf` for the rate, `netem` for delay, jitter and loss, one inside the
# other. Traffic with one peer: an `htb` class for it, chosen by a `u32` filter on the peer's
# address, that holds the same; what no filter matches passes `htb` at once.

UNLIMITED = 32e9
"""Bits a second of a class that only delays: the most of tc's 32-bit count of bytes."""
BURST_SECONDS = 0.001
LEAST_BURST = 3_200
"""Bytes: two packets of the bridge's MTU, for tbf never sends what exceeds its burst (tbf(8))."""
QUEUE_BYTES = 32 * 2**20
"""Above what TCP keeps in flight, so that a slow link delays and does not also lose."""
QUEUE_PACKETS = 100_000

AddressRules = Mapping[IPv4Address | None, LinkSetting]
"""Setting by the peer's address; None = all traffic, then it is the only one."""


CLEAR: Queueing = ("del", {"root": True})
"""Takes everything away; refused where there is nothing."""

_ADDRESS_AT = {"src": 12, "dst": 16}
"""Bytes of an IPv4 header before the address (RFC 791)."""
_IPV4 = 0x0800  # of <linux/if_ether.h>


def structure(rules: AddressRules) -> list[tuple[IPv4Address | None, bool, bool]]:
    """What rules with other numbers share, so that the one can be changed into the other."""
    return [(peer, one.rate is not None, needs_netem(one)) for peer, one in rules.items()]


def requests(rules: AddressRules, field: str, *, change: bool = False) -> list[Queueing]:
    """What puts rules into force on a device.

    Args:
        rules: What is to hold.
        field: `dst` where the device sends to the peer, `src` where it brings from there.
        change: The device has rules of the same structure, and what is queued there stays; else it
            is without any.
    """
    verb = "change" if change else "add"
    if None in rules:
        return _chain(verb, {"root": True, "handle": "1:0"}, {"parent": "1:1"}, rules[None])
    if not rules:
        return []
    wanted: list[Queueing] = []
    if not change:
        wanted.append(("add", {"kind": "htb", "root": True, "handle": "1:0", "default": 0}))
    for index, (peer, setting) in enumerate(rules.items(), start=1):
        assert peer is not None
        handle = f"1:{index:x}"
        rate = setting.rate or UNLIMITED
        bounds = {"rate": _rate(rate), "burst": _burst(rate), "cburst": _burst(rate)}
        words = {"kind": "htb", "parent": "1:0", "handle": handle, **bounds, "quantum": 60_000}
        wanted.append((f"{verb}-class", words))
        rest = LinkSetting(None, setting.delay, setting.jitter, setting.loss)
        wanted += _chain(verb, {"parent": handle}, {}, rest)
        if not change:
            key = f"{int(peer):#x}/0xffffffff+{_ADDRESS_AT[field]}"
            words = {"kind": "u32", "parent": "1:0", "protocol": _IPV4, "prio": 1, "target": handle}
            wanted.append(("add-filter", {**words, "keys": [key]}))
    return wanted


def needs_netem(setting: LinkSetting) -> bool:
    """Whether it asks for more than a rate."""
    return bool(setting.delay or setting.jitter or setting.loss)


def _chain(
    verb: str, parent: dict[str, Any], inner: dict[str, Any], setting: LinkSetting
) -> list[Queueing]:
    wanted: list[Queueing] = []
    if setting.rate is not None:
        bounds = {"rate": _rate(setting.rate), "burst": _burst(setting.rate), "limit": QUEUE_BYTES}
        wanted.append((verb, {"kind": "tbf", **parent, **bounds}))
        parent = inner
    if needs_netem(setting):
        words = {
            "limit": QUEUE_PACKETS,
            "delay": round(setting.delay * 1e6),  # microseconds
            "jitter": round(setting.jitter * 1e6),
            "loss": setting.loss * 100,
        }
        wanted.append((verb, {"kind": "netem", **parent, **words}))
    return wanted


def _rate(bits: float) -> str:
    return f"{bits:.0f}bit"


def _burst(rate: float) -> int:
    return max(LEAST_BURST, round(rate / 8 * BURST_SECONDS))


Rules = Mapping[int | None, LinkSetting]
"""Setting by peer node; None stands for all traffic of the node. Either that one, or peers."""


class Links(Protocol):
    """Puts rules into force: tc on devices of the kernel, or a user-space link."""

    def apply(self, node: int, rules: Rules) -> None:
        """From now on `rules`, and nothing else, hold for a node, in both directions.

        Raises:
            NetworkError: They were refused.
        """
        ...

    def close(self) -> None:
        """Let go of everything; the network itself is removed by who made it."""
        ...


def checked(rules: Rules) -> dict[int | None, LinkSetting]:
    """Rules without those that do nothing.

    Raises:
        NetworkError: A rule for all traffic stands beside one for a peer.
    """
    kept = {peer: setting for peer, setting in rules.items() if setting != LinkSetting()}
    if None in kept and len(kept) > 1:
        raise NetworkError("a link fault on all traffic of a node excludes one towards a peer")
    return kept


# Links of the kernel: veth and a bridge, disturbed by tc on both ends of a node's cable.


class KernelLinks:
    """See links.Links: what a node sends is held up at its end, what it gets at the switch's."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._now: dict[int, dict[IPv4Address | None, LinkSetting]] = {}

    def apply(self, node: int, rules: Rules) -> None:
        """From now on `rules`, and nothing else, hold for a node, in both directions.

        Raises:
            NetworkError: The kernel refused them.
        """
        wanted = {
            None if peer is None else self._names.address(peer): setting
            for peer, setting in checked(rules).items()
        }
        before = self._now.get(node, {})
        if wanted == before:
            return
        change = bool(wanted) and structure(wanted) == structure(before)
        for namespace, device, field in self._ends(node):
            if not change:
                with suppress(NetworkError):  # there was nothing
                    iproute.shape(device, [CLEAR], namespace)
            queueing = requests(wanted, field, change=change)
            if queueing:
                iproute.shape(device, queueing, namespace)
        self._now[node] = wanted

    def close(self) -> None:
        """Nothing is held: the rules go with their devices."""

    def _ends(self, node: int) -> tuple[tuple[str, str, str], ...]:
        return (
            (self._names.namespace(node), FABRIC, "dst"),
            (self._names.switch, port("f", node), "src"),
        )
