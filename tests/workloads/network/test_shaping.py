"""The words for tc, which the kernel of another machine understands and this one may not."""

from ipaddress import IPv4Address

from workloads.faults.link import LinkSetting
from workloads.network.shaping import lines, structure

PEER = IPv4Address("10.0.0.2")


def test_a_rate_for_all_traffic_is_one_tbf() -> None:
    wanted = ["qdisc add dev eth0 root handle 1: tbf rate 200000000bit burst 25000 limit 33554432"]

    assert wanted == lines("eth0", {None: LinkSetting(rate=2e8)}, "dst")


def test_delay_jitter_and_loss_are_one_netem() -> None:
    setting = LinkSetting(delay=0.005, jitter=0.001, loss=0.005)
    wanted = [
        "qdisc add dev eth0 root handle 1: netem limit 100000 delay 5000us 1000us loss 0.5000%"
    ]

    assert wanted == lines("eth0", {None: setting}, "dst")


def test_both_at_once_are_a_netem_inside_the_tbf() -> None:
    told = lines("eth0", {None: LinkSetting(rate=1e6, delay=0.001)}, "dst")

    assert ["root handle 1: tbf", "parent 1:1 netem"] == [
        " ".join(line.split()[4:7] if "root" not in line else line.split()[4:8]) for line in told
    ]


def test_a_peer_has_a_class_that_only_its_address_comes_into() -> None:
    told = lines("f1", {PEER: LinkSetting(rate=1e8, delay=0.001)}, "src")

    rate = "rate 100000000bit burst 12500 cburst 12500 quantum 60000"
    assert [
        "qdisc add dev f1 root handle 1: htb default 0",
        f"class add dev f1 parent 1: classid 1:1 htb {rate}",
        "qdisc add dev f1 parent 1:1 netem limit 100000 delay 1000us",
        "filter add dev f1 parent 1: protocol ip prio 1 u32 match ip src 10.0.0.2/32 flowid 1:1",
    ] == told


def test_a_change_of_numbers_keeps_what_is_queued() -> None:
    slow, slower = ({PEER: LinkSetting(rate=rate)} for rate in (2e8, 1e8))

    assert structure(slow) == structure(slower)
    assert ["class change dev eth0 parent 1:"] == [
        " ".join(line.split()[:6]) for line in lines("eth0", slower, "dst", change=True)
    ]


def test_no_rules_are_no_words() -> None:
    assert [] == lines("eth0", {}, "dst")
