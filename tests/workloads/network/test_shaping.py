"""What is asked of the queues, which the kernel of another machine understands and this may not."""

from ipaddress import IPv4Address

import pytest

from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.network.links import QUEUE_BYTES, QUEUE_PACKETS, requests, structure

PEER = IPv4Address("10.0.0.2")
ROOT = {"root": True, "handle": "1:0"}


def test_a_rate_for_all_traffic_is_one_tbf() -> None:
    bounds = {"rate": "200000000bit", "burst": 25000, "limit": QUEUE_BYTES}

    assert [("add", {"kind": "tbf", **ROOT, **bounds})] == requests(
        {None: LinkSetting(rate=2e8)}, "dst"
    )


def test_delay_jitter_and_loss_are_one_netem() -> None:
    setting = LinkSetting(delay=0.005, jitter=0.001, loss=0.005)
    words = {"limit": QUEUE_PACKETS, "delay": 5000, "jitter": 1000, "loss": 0.5}

    assert [("add", {"kind": "netem", **ROOT, **words})] == requests({None: setting}, "dst")


def test_both_at_once_are_a_netem_inside_the_tbf() -> None:
    (_, tbf), (_, netem) = requests({None: LinkSetting(rate=1e6, delay=0.001)}, "dst")

    assert ("tbf", "1:0") == (tbf["kind"], tbf["handle"])
    assert ("netem", "1:1") == (netem["kind"], netem["parent"])


def test_a_peer_has_a_class_that_only_its_address_comes_into() -> None:
    told = requests({PEER: LinkSetting(rate=1e8, delay=0.001)}, "src")

    bounds = {"rate": "100000000bit", "burst": 12500, "cburst": 12500, "quantum": 60000}
    delay = {"limit": QUEUE_PACKETS, "delay": 1000, "jitter": 0, "loss": 0.0}
    match = {"protocol": 0x0800, "prio": 1, "target": "1:1", "keys": ["0xa000002/0xffffffff+12"]}
    assert [
        ("add", {"kind": "htb", **ROOT, "default": 0}),
        ("add-class", {"kind": "htb", "parent": "1:0", "handle": "1:1", **bounds}),
        ("add", {"kind": "netem", "parent": "1:1", **delay}),
        ("add-filter", {"kind": "u32", "parent": "1:0", **match}),
    ] == told


def test_a_change_of_numbers_keeps_what_is_queued() -> None:
    slow, slower = ({PEER: LinkSetting(rate=rate)} for rate in (2e8, 1e8))

    assert structure(slow) == structure(slower)
    assert ["change-class"] == [command for command, _ in requests(slower, "dst", change=True)]


def test_no_rules_ask_for_nothing() -> None:
    assert [] == requests({}, "dst")


def test_a_kernel_with_netem_is_sent_the_numbers_that_were_meant() -> None:
    """Ticks of the packet scheduler and shares of 2^32, as tc(8) sends them."""
    sched_netem = pytest.importorskip("pyroute2.netlink.rtnl.tcmsg.sched_netem")
    common = pytest.importorskip("pyroute2.netlink.rtnl.tcmsg.common")
    ((_, words),) = requests({None: LinkSetting(delay=0.005, jitter=0.001, loss=0.005)}, "dst")
    sent = sched_netem.get_parameters(words)

    assert pytest.approx(5000 * common.tick_in_usec) == sent["delay"]
    assert pytest.approx(1000 * common.tick_in_usec) == sent["jitter"]
    assert pytest.approx(0.005 * 2**32, rel=1e-6) == sent["loss"]
    assert QUEUE_PACKETS == sent["limit"]
