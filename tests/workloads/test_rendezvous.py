"""Who a rank is, from environments as their starters leave them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.launch.joining.rendezvous import (
    Member,
    RendezvousError,
    Starter,
    first_host,
    identify,
    port_of_job,
)

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
