"""Rates, delays and losses are measurable between nodes, by the kernel and in user space."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.network.capabilities import has_netem
from lockstep.workloads.network.controller import NodeCounters, round_trip
from lockstep.workloads.network.iproute import NetworkError
from lockstep.workloads.network.links import KernelLinks
from lockstep.workloads.network.names import Names
from lockstep.workloads.network.tunnel import Tunnel

pytestmark = [pytest.mark.root, pytest.mark.timed]

Transfer = Callable[[Names, int, int, int], float]
MakeNetwork = Callable[..., Names]
MEGABYTE = 1 << 20
SLOW = LinkSetting(rate=4e7)
SLOW_SECONDS = 2 * MEGABYTE * 8 / 4e7
DELAYED = 0.010
"""Seconds of a round trip that is delayed by five milliseconds each way."""
LOOKS = 50
"""At most, for what is not slowed: a limit slows every look at a link, a busy machine some."""


def hastiest(transfer: Transfer, names: Names, source: int, destination: int) -> float:
    """The least of the looks at a link until one shows that nothing limits it."""
    least = float("inf")
    for _ in range(LOOKS):
        least = min(least, transfer(names, source, destination, 2 * MEGABYTE))
        if least < 0.5 * SLOW_SECONDS:
            break
    return least


def test_a_rate_of_the_kernel_holds_in_both_directions_and_for_this_node_only(
    bridged: tuple[Names, KernelLinks], transfer: Transfer
) -> None:
    names, links = bridged
    links.apply(1, {None: SLOW})

    assert transfer(names, 0, 1, 2 * MEGABYTE) > 0.9 * SLOW_SECONDS
    assert transfer(names, 1, 2, 2 * MEGABYTE) > 0.9 * SLOW_SECONDS
    assert hastiest(transfer, names, 0, 2) < 0.5 * SLOW_SECONDS


def test_a_rate_towards_a_peer_leaves_the_others_alone(
    bridged: tuple[Names, KernelLinks], transfer: Transfer
) -> None:
    names, links = bridged
    links.apply(1, {2: SLOW})

    assert transfer(names, 1, 2, 2 * MEGABYTE) > 0.9 * SLOW_SECONDS
    assert transfer(names, 2, 1, 2 * MEGABYTE) > 0.9 * SLOW_SECONDS
    assert hastiest(transfer, names, 0, 1) < 0.5 * SLOW_SECONDS
    assert hastiest(transfer, names, 1, 0) < 0.5 * SLOW_SECONDS


def test_a_rate_is_changed_and_taken_away_again(
    bridged: tuple[Names, KernelLinks], transfer: Transfer
) -> None:
    names, links = bridged
    links.apply(1, {2: LinkSetting(rate=1e9)})
    links.apply(1, {2: SLOW})
    assert transfer(names, 1, 2, 2 * MEGABYTE) > 0.9 * SLOW_SECONDS

    links.apply(1, {2: LinkSetting()})
    assert hastiest(transfer, names, 1, 2) < 0.5 * SLOW_SECONDS


@pytest.mark.skipif(not has_netem(), reason="this kernel has no netem (CONFIG_NET_SCH_NETEM)")
@pytest.mark.parametrize("peer", [None, 0])
def test_a_delay_of_the_kernel_holds_in_both_directions(
    bridged: tuple[Names, KernelLinks], peer: int | None
) -> None:
    names, links = bridged
    links.apply(1, {peer: LinkSetting(delay=0.005)})
    seconds = round_trip(names.namespace(1), names.address(0))

    assert seconds is not None
    assert seconds >= 0.010


def quickest(names: Names, node: int, other: int, enough: float = DELAYED) -> float:
    """The least of the looks at a link until one is quick enough."""
    least = float("inf")
    for _ in range(LOOKS):
        seconds = round_trip(names.namespace(node), names.address(other))
        least = min(least, float("inf") if seconds is None else seconds)
        if least < enough:
            break
    return least


@pytest.mark.parametrize("peer", [None, 0])
def test_a_delay_in_user_space_holds_in_both_directions(
    tunnelled: tuple[Names, Tunnel], peer: int | None
) -> None:
    names, links = tunnelled
    before = quickest(names, 1, 0)
    links.apply(1, {peer: LinkSetting(delay=0.005)})
    during = quickest(names, 1, 0)
    back = quickest(names, 0, 1)
    links.apply(1, {})
    after = quickest(names, 1, 0)

    assert min(during, back) >= DELAYED > max(before, after)


def test_a_rate_in_user_space_holds_for_this_node_only(
    tunnelled: tuple[Names, Tunnel], transfer: Transfer
) -> None:
    names, links = tunnelled
    links.apply(1, {None: SLOW})

    assert transfer(names, 1, 2, 2 * MEGABYTE) > 0.9 * SLOW_SECONDS
    assert transfer(names, 0, 1, 2 * MEGABYTE) > 0.9 * SLOW_SECONDS
    assert hastiest(transfer, names, 0, 2) < 0.5 * SLOW_SECONDS


def test_what_the_user_space_link_loses_is_sent_again_and_arrives_whole(
    tunnelled: tuple[Names, Tunnel], transfer: Transfer
) -> None:
    names, links = tunnelled
    counters = NodeCounters(names.namespace(1))
    links.apply(1, {None: LinkSetting(loss=0.1)})
    before, bits = counters.retransmitted(), counters.bits()
    transfer(names, 1, 0, 4 * MEGABYTE)  # which compares the bytes

    assert counters.retransmitted() > before
    assert counters.bits() - bits > 4 * MEGABYTE * 8
    counters.close()


def test_a_launcher_with_a_thousand_open_files_links_its_nodes_in_user_space(
    make_network: MakeNetwork, tmp_path: Path
) -> None:
    names = make_network(2, with_fabric=False)
    with open(os.devnull) as null:
        held = [os.dup(null.fileno()) for _ in range(1100)]
    try:
        tunnel = Tunnel(names, tmp_path / "tunnel.log", seed=0)
        tunnel.apply(1, {None: LinkSetting(delay=0.005)})
        seconds = quickest(names, 1, 0, enough=2 * DELAYED)
        tunnel.close()
    finally:
        for descriptor in held:
            os.close(descriptor)

    assert DELAYED <= seconds < 2 * DELAYED


def test_a_link_whose_process_is_gone_says_so(tunnelled: tuple[Names, Tunnel]) -> None:
    names, links = tunnelled
    links._helper.end()

    with pytest.raises(NetworkError, match="the process that links the emulated nodes is gone"):
        links.apply(1, {None: SLOW})
    assert round_trip(names.namespace(0), names.address(1)) is None


def test_all_traffic_and_a_peer_exclude_each_other(bridged: tuple[Names, KernelLinks]) -> None:
    _, links = bridged
    with pytest.raises(NetworkError, match="excludes one towards a peer"):
        links.apply(1, {None: SLOW, 2: SLOW})
