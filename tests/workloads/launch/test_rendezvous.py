"""Who a rank is, from environments as their starters leave them."""

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.launch.joining import reachable
from lockstep.workloads.launch.joining.meeting import Meeting, check
from lockstep.workloads.launch.joining.reachable import free_port, interface_of, routable, towards
from lockstep.workloads.launch.joining.rendezvous import (
    Member,
    RendezvousError,
    Starter,
    first_host,
    identify,
    port_of_job,
)
from lockstep.workloads.spec import Layout

TORCHRUN = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_RANK": "3",
}  # fmt: skip
MPICH = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
SLURM = {
    "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_NNODES": "4",
    "SLURM_JOB_ID": "1234567", "SLURM_JOB_NODELIST": "n[03-06]",
}  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "member"),
    [
        ({}, Member(Starter.SINGLE, 0, 1, 0, 1, 1)),
        (TORCHRUN, Member(Starter.EXPLICIT, 5, 8, 1, 4, 2, ("10.0.0.1", 29500))),
        (OPEN_MPI, Member(Starter.OPEN_MPI, 3, 4, 1, 2)),
        (MPICH, Member(Starter.PMI, 2, 4, 0, 2)),
        (SLURM, Member(Starter.SLURM, 3, 8, 1, None, 4, ("n03", 19567))),
    ],
    ids=["alone", "torchrun", "Open MPI", "MPICH", "Slurm"],
)
def test_each_starter_is_recognised(environment: dict[str, str], member: Member) -> None:
    assert member == identify({"PATH": "/bin", **environment})


def test_what_somebody_set_on_purpose_goes_before_mpi_and_mpi_before_slurm() -> None:
    # mpirun inside a Slurm job: the batch step's own SLURM_PROCID is 0 in every rank.
    inside = SLURM | {"SLURM_PROCID": "0"}

    assert Starter.OPEN_MPI == identify(inside | OPEN_MPI).starter
    assert Starter.PMI == identify(inside | MPICH).starter
    assert Starter.EXPLICIT == identify(inside | OPEN_MPI | MPICH | TORCHRUN).starter


def test_srun_with_pmix_is_slurm() -> None:
    assert Starter.SLURM == identify(SLURM | {"PMIX_RANK": "3"}).starter


def test_one_node_of_slurm_has_all_ranks() -> None:
    assert 8 == identify(SLURM | {"SLURM_NNODES": "1"}).local_world


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"RANK": "1"}, "RANK is set and WORLD_SIZE is not; torchrun sets both"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set and RANK is not; torchrun sets both"),
        (TORCHRUN | {"RANK": "8"}, "RANK says rank 8 of 8; ranks count from 0 to 7"),
        (TORCHRUN | {"RANK": "-1"}, "RANK is '-1'; it must be a whole number from 0"),
        (TORCHRUN | {"LOCAL_RANK": "4"}, "RANK says local rank 4 of 4; ranks count from 0 to 3"),
        (
            TORCHRUN | {"LOCAL_WORLD_SIZE": "9"},
            "RANK says 9 ranks on this host and 8 in all; a host cannot have more than all",
        ),
        (TORCHRUN | {"MASTER_PORT": "70000"}, "MASTER_PORT is 70000; it must be from 1 to 65535"),
        (
            MPICH | {"MASTER_ADDR": "a"},
            "MASTER_ADDR is set and MASTER_PORT is not; give both or neither",
        ),
        (
            OPEN_MPI | {"PMIX_RANK": "1"},
            (
                "OMPI_COMM_WORLD_RANK is 3 and PMIX_RANK is 1; one of them is left from another"
                " start: unset it"
            ),
        ),
        ({"PMIX_RANK": "1"}, "PMIX_RANK is set and OMPI_COMM_WORLD_SIZE is not"),
        ({"PMI_RANK": "1"}, "PMI_RANK is set and PMI_SIZE is not"),
        ({"SLURM_PROCID": "0"}, "SLURM_PROCID is set and SLURM_NTASKS is not"),
        (SLURM | {"SLURM_JOB_NODELIST": "["}, "Slurm's node list '[' does not begin with a host"),
    ],
)
def test_half_an_environment_is_a_sentence(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(RendezvousError) as refused:
        identify(environment)

    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("nodes", "host"),
    [("a", "a"), ("n1,n2", "n1"), ("rack1-n[03-07,12],b", "rack1-n03"), ("[1-2]x,b", "1x")],
)
def test_the_first_host_of_a_node_list(nodes: str, host: str) -> None:
    assert host == first_host(nodes)


@given(st.integers(0, 10**9))
def test_the_port_of_a_job_is_one_that_users_may_open(job: int) -> None:
    assert 1024 < port_of_job(job) <= 65535


# Ranks that are not where they were asked to be are refused, with what to do.

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
