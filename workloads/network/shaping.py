"""Words of tc(8) for what a link fault asks of one device; pure.

All traffic of a node: `tbf` for the rate, `netem` for delay, jitter and loss, one inside the
other. Traffic with one peer: an `htb` class for it, chosen by a `u32` filter on the peer's
address, that holds the same; what no filter matches passes `htb` at once.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address

from workloads.faults.link import LinkSetting

UNLIMITED = 32e9
"""Bits a second of a class that only delays: the most of tc's 32-bit count of bytes."""
BURST_SECONDS = 0.001
LEAST_BURST = 3_200
"""Bytes: two packets of the bridge's MTU, for tbf never sends what exceeds its burst (tbf(8))."""
QUEUE_BYTES = 32 * 2**20
"""Above what TCP keeps in flight, so that a slow link delays and does not also lose."""
QUEUE_PACKETS = 100_000

Rules = Mapping[IPv4Address | None, LinkSetting]
"""Setting by the peer's address; None = all traffic, then it is the only one."""


def clear(device: str) -> str:
    """The line that takes everything away; refused where there is nothing."""
    return f"qdisc delete dev {device} root"


def structure(rules: Rules) -> list[tuple[IPv4Address | None, bool, bool]]:
    """What rules with other numbers share, so that the one can be changed into the other."""
    return [(peer, one.rate is not None, needs_netem(one)) for peer, one in rules.items()]


def lines(device: str, rules: Rules, field: str, *, change: bool = False) -> list[str]:
    """Lines that put rules into force.

    Args:
        device: Its name; without any rules yet, unless they are changed.
        rules: What is to hold.
        field: `dst` where the device sends to the peer, `src` where it brings from there.
        change: The device has rules of the same structure; what is queued there stays.
    """
    verb = "change" if change else "add"
    if None in rules:
        return _chain(f"qdisc {verb} dev {device}", "root handle 1:", "parent 1:1", rules[None])
    if not rules:
        return []
    words = [] if change else [f"qdisc add dev {device} root handle 1: htb default 0"]
    for index, (peer, setting) in enumerate(rules.items(), start=1):
        rate = setting.rate or UNLIMITED
        burst = _burst(rate)
        words.append(
            f"class {verb} dev {device} parent 1: classid 1:{index:x} htb rate {rate:.0f}bit"
            f" burst {burst} cburst {burst} quantum 60000"
        )
        rest = LinkSetting(None, setting.delay, setting.jitter, setting.loss)
        words += _chain(f"qdisc {verb} dev {device}", f"parent 1:{index:x}", "", rest)
        if not change:
            words.append(
                f"filter add dev {device} parent 1: protocol ip prio 1"
                f" u32 match ip {field} {peer}/32 flowid 1:{index:x}"
            )
    return words


def needs_netem(setting: LinkSetting) -> bool:
    """Whether it asks for more than a rate."""
    return bool(setting.delay or setting.jitter or setting.loss)


def _chain(start: str, place: str, inner: str, setting: LinkSetting) -> list[str]:
    words = []
    if setting.rate is not None:
        words.append(
            f"{start} {place} tbf rate {setting.rate:.0f}bit"
            f" burst {_burst(setting.rate)} limit {QUEUE_BYTES}"
        )
        place = inner
    if needs_netem(setting):
        jitter = f" {setting.jitter * 1e6:.0f}us" if setting.jitter else ""
        delay = f" delay {setting.delay * 1e6:.0f}us{jitter}" if setting.delay else ""
        loss = f" loss {setting.loss * 100:.4f}%" if setting.loss else ""
        words.append(f"{start} {place} netem limit {QUEUE_PACKETS}{delay}{loss}")
    return words


def _burst(rate: float) -> int:
    return max(LEAST_BURST, round(rate / 8 * BURST_SECONDS))
