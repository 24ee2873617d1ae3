"""Ranks that are not where they were asked to be are refused, with what to do."""

import ipaddress
from pathlib import Path

import pytest

from lockstep.workloads.launch.joining import reachable
from lockstep.workloads.launch.joining.meeting import Meeting, check
from lockstep.workloads.launch.joining.reachable import free_port, interface_of, routable, towards
from lockstep.workloads.launch.joining.rendezvous import RendezvousError
from lockstep.workloads.spec import Layout

LAYOUT = Layout(2, 2, 4)


def at(*hosts: str) -> Meeting:
    return Meeting(0, hosts, "tcp://a:1", "eth0")


@pytest.mark.parametrize(
    ("meeting", "hosts"),
    [(at("a", "a", "b", "b"), 2), (at("a", "a", "a", "a"), 1)],
    ids=["a host a node", "emulated nodes"],
)
def test_ranks_where_they_should_be_pass(meeting: Meeting, hosts: int) -> None:
    check(meeting, LAYOUT, hosts)

    assert hosts == len(meeting.distinct)


@pytest.mark.parametrize(
    ("meeting", "hosts", "sentence"),
    [
        (
            at("a", "a", "a", "a"),
            2,
            (
                "the 4 ranks are on 1 host (a) and 2 were asked for; give mpirun a host file of 2"
                " hosts: --hostfile FILE"
            ),
        ),
        (
            at("a", "a", "b", "b"),
            1,
            (
                "the 4 ranks are on 2 hosts (a, b) and 1 was asked for; name the hosts by"
                " --hostfile FILE, or let mpirun start all ranks on one"
            ),
        ),
        (
            at("a", "b"),
            2,
            "the run has 4 ranks (2 nodes x 2 ranks) and 2 were started; start 4",
        ),
        (
            at("a", "b", "c", "c"),
            3,
            (
                "3 hosts were asked for and the run has 2 nodes; give --nodes 3, or one host for"
                " emulated nodes"
            ),
        ),
        (
            at("a", "b", "a", "b"),
            2,
            (
                "ranks 0 and 1 are on a and b, and each host must have 2 ranks in a row; place them"
                " by slot, not round-robin"
            ),
        ),
        (
            at("a", "b", "b", "b"),
            2,
            (
                "ranks 0 and 1 are on a and b, and each host must have 2 ranks in a row; place them"
                " by slot, not round-robin"
            ),
        ),
    ],
    ids=["all on one", "spread", "too few", "other nodes", "round-robin", "uneven"],
)
def test_ranks_elsewhere_are_refused(meeting: Meeting, hosts: int, sentence: str) -> None:
    with pytest.raises(RendezvousError) as refused:
        check(meeting, LAYOUT, hosts)

    assert sentence == str(refused.value)


def test_the_loopback_is_no_address_for_others() -> None:
    # Resolves to the loopback on every host.
    address = routable([], "localhost")

    assert address is None or not ipaddress.ip_address(address).is_loopback


def test_the_interface_of_an_address_is_the_kernels() -> None:
    assert "lo" == interface_of("127.0.0.1")
    assert interface_of("203.0.113.9") is None  # of documentation (RFC 5737): nobody's


def test_the_way_to_this_host_begins_at_this_host() -> None:
    assert "127.0.0.1" == towards("127.0.0.1")
    assert towards("no-such-host.invalid") is None


def test_no_outgoing_connection_is_given_a_free_port() -> None:
    range_of_kernel = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    if int(range_of_kernel[0]) < 20_000:
        pytest.skip("this kernel gives nearly every port to outgoing connections")
    assert all(1024 <= free_port() < int(range_of_kernel[0]) for _ in range(50))


def test_where_every_port_is_given_to_connections_one_of_them_is_free(monkeypatch, tmp_path):
    everything = tmp_path / "ip_local_port_range"
    everything.write_text("1024\t65535\n")
    for said in (everything, tmp_path / "absent"):
        monkeypatch.setattr(reachable, "_OUTGOING", said)
        assert 1024 <= free_port() <= 65535
