"""Who a rank is among the others, from the environment that it was started in.

What wins, first to last: what somebody set on purpose (RANK, as torchrun does), Open MPI and other
PMIx starters, MPICH and its kin (PMI), Slurm's srun, nothing (a run of one rank).

Sources of the names: torchrun, https://docs.pytorch.org/docs/stable/elastic/run.html; Open MPI,
https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html; MPICH's Hydra,
src/pm/hydra/proxy/pmip_cb.c; Slurm, https://slurm.schedmd.com/srun.html.
"""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lockstep.collector.contract.ring import RingName

MAX_PORT = 65535


class RendezvousError(ValueError):
    """The ranks cannot find each other, or not where they were asked to be."""


class Starter(StrEnum):
    """Who told a rank who it is."""

    EXPLICIT = "RANK"
    OPEN_MPI = "Open MPI"
    PMI = "PMI"
    SLURM = "Slurm"
    SINGLE = "nobody"


MPI_STARTERS = (Starter.OPEN_MPI, Starter.PMI)


@dataclass(frozen=True, slots=True)
class Member:
    """One rank among the others.

    Attributes:
        local_rank: Rank on its host; None = nobody said.
        local_world: Ranks on its host; None = nobody said.
        hosts: On how many hosts the ranks should be; None = nobody said.
        master: Address and port where rank 0 awaits the others; None = nobody said.
    """

    starter: Starter
    rank: int
    world: int
    local_rank: int | None = None
    local_world: int | None = None
    hosts: int | None = None
    master: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        _below(self.starter, "rank", self.rank, self.world)
        if self.local_rank is not None and self.local_world is not None:
            _below(self.starter, "local rank", self.local_rank, self.local_world)
        if self.local_world is not None and self.local_world > self.world:
            raise RendezvousError(
                f"{self.starter} says {self.local_world} ranks on this host and {self.world} in"
                " all; a host cannot have more than all"
            )


def identify(environment: Mapping[str, str]) -> Member:
    """Who this process is among the ranks.

    Raises:
        RendezvousError: The environment says half of it, or contradicts itself.
    """
    starter = started_by(environment)
    return _READERS[starter](_Environment(environment))


def started_by(environment: Mapping[str, str]) -> Starter:
    """Who started this rank."""
    for starter, names in (
        (Starter.EXPLICIT, ("RANK", "WORLD_SIZE")),
        (Starter.OPEN_MPI, ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")),
        (Starter.PMI, ("PMI_RANK", "PMI_SIZE")),
        (Starter.SLURM, ("SLURM_PROCID",)),
        (Starter.OPEN_MPI, ("PMIX_RANK",)),
    ):
        if any(name in environment for name in names):
            return starter
    return Starter.SINGLE


class _Environment:
    """Numbers of an environment."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables

    def number(self, *names: str) -> int | None:
        """The first of the variables that is set."""
        for name in names:
            text = self.variables.get(name)
            if text is None:
                continue
            if not (text.isascii() and text.isdigit()):
                raise RendezvousError(f"{name} is {text!r}; it must be a whole number from 0")
            return int(text)
        return None

    def needed(self, name: str, beside: str, hint: str) -> int:
        """A variable that must be there where another one is."""
        value = self.number(name)
        if value is None:
            raise RendezvousError(f"{beside} is set and {name} is not; {hint}")
        return value

    def master(self) -> tuple[str, int] | None:
        """Where MASTER_ADDR and MASTER_PORT say that rank 0 is."""
        address, port = self.variables.get("MASTER_ADDR"), self.number("MASTER_PORT")
        if not address and port is None:
            return None
        if not address or port is None:
            there, missing = ("MASTER_ADDR", "MASTER_PORT") if address else (
                "MASTER_PORT", "MASTER_ADDR",
            )  # fmt: skip
            raise RendezvousError(f"{there} is set and {missing} is not; give both or neither")
        if not 0 < port <= MAX_PORT:
            raise RendezvousError(f"MASTER_PORT is {port}; it must be from 1 to {MAX_PORT}")
        return address, port


def _explicit(env: _Environment) -> Member:
    hint = "torchrun sets both"
    rank = env.needed("RANK", "WORLD_SIZE", hint)
    world = env.needed("WORLD_SIZE", "RANK", hint)
    local = env.number("LOCAL_RANK"), env.number("LOCAL_WORLD_SIZE")
    # torchrun starts as many ranks on every host.
    hosts = -(-world // local[1]) if local[1] else None
    return Member(Starter.EXPLICIT, rank, world, *local, hosts, env.master())


def _open_mpi(env: _Environment) -> Member:
    hint = "Open MPI's mpirun sets both"
    other = env.number("PMIX_RANK")
    if "OMPI_COMM_WORLD_RANK" not in env.variables and other is not None:
        rank, beside = other, "PMIX_RANK"
    else:
        rank = env.needed("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", hint)
        beside = "OMPI_COMM_WORLD_RANK"
    world = env.needed("OMPI_COMM_WORLD_SIZE", beside, hint)
    if other is not None and other != rank:
        raise RendezvousError(
            f"OMPI_COMM_WORLD_RANK is {rank} and PMIX_RANK is {other}; one of them is left from"
            " another start: unset it"
        )
    local = env.number("OMPI_COMM_WORLD_LOCAL_RANK"), env.number("OMPI_COMM_WORLD_LOCAL_SIZE")
    return Member(Starter.OPEN_MPI, rank, world, *local, None, env.master())


def _pmi(env: _Environment) -> Member:
    hint = "MPICH's mpiexec and srun --mpi=pmi2 set both"
    rank = env.needed("PMI_RANK", "PMI_SIZE", hint)
    world = env.needed("PMI_SIZE", "PMI_RANK", hint)
    local = env.number("MPI_LOCALRANKID"), env.number("MPI_LOCALNRANKS")
    return Member(Starter.PMI, rank, world, *local, None, env.master())


def _slurm(env: _Environment) -> Member:
    rank = env.needed("SLURM_PROCID", "SLURM_PROCID", "")
    world = env.number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    if world is None:
        raise RendezvousError(
            "SLURM_PROCID is set and SLURM_NTASKS is not; start the ranks by srun --ntasks=N"
        )
    hosts = env.number("SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    nodes = env.variables.get("SLURM_STEP_NODELIST") or env.variables.get("SLURM_JOB_NODELIST")
    job = env.number("SLURM_JOB_ID")
    master = env.master()
    if master is None and nodes and job is not None:
        try:
            master = first_host(nodes), port_of_job(job)
        except ValueError as error:
            raise RendezvousError(str(error)) from None
    local_world = world if hosts == 1 else None
    local = env.number("SLURM_LOCALID"), local_world
    return Member(Starter.SLURM, rank, world, *local, hosts, master)


def _single(env: _Environment) -> Member:
    return Member(Starter.SINGLE, 0, 1, 0, 1, 1, env.master())


_READERS = {
    Starter.EXPLICIT: _explicit,
    Starter.OPEN_MPI: _open_mpi,
    Starter.PMI: _pmi,
    Starter.SLURM: _slurm,
    Starter.SINGLE: _single,
}


def _below(starter: Starter, what: str, rank: int, size: int) -> None:
    if not 0 <= rank < size:
        raise RendezvousError(
            f"{starter} says {what} {rank} of {size}; ranks count from 0 to {size - 1}"
        )


FIRST_PORT, PORTS = 15_000, 10_000
_FIRST = re.compile(r"^(?P<head>[^,\[\]\s]+)?(?:\[(?P<low>\d+)[^\]]*\](?P<tail>[^,\[\]\s]*))?")


def first_host(nodes: str) -> str:
    """The first host of a node list such as `rack1-n[03-07,12],login`.

    Source of the syntax: https://slurm.schedmd.com/scontrol.html, `show hostnames`. One bracket a
    name, which is what Slurm writes on all but multi-dimensional machines.

    Raises:
        ValueError: It is no node list.
    """
    match = _FIRST.match(nodes)
    if match is None or not match[0] or nodes[match.end() : match.end() + 1] not in ("", ","):
        raise ValueError(f"Slurm's node list {nodes!r} does not begin with a host name")
    return f"{match['head'] or ''}{match['low'] or ''}{match['tail'] or ''}"


def port_of_job(job: int) -> int:
    """A port that every rank of a job computes alike: 15000 and the job's last four digits.

    Source: Lightning, src/lightning/fabric/plugins/environments/slurm.py, `main_port`.
    """
    return FIRST_PORT + job % PORTS


# The name of the host: a pod's host name is not its node's, and Slurm has names of its own.

NODE_VARIABLES = ("LOCKSTEP_NODE", "SLURMD_NODENAME")
"""Who sets one knows better: a pod's template by spec.nodeName, slurmd by its configuration."""


def host_name(environment: Mapping[str, str] = os.environ) -> str:
    """Name of the node, or else of the host, as a ring may tell it."""
    names = (environment.get(name, "") for name in NODE_VARIABLES)
    return RingName.mapped(next(filter(None, names), "") or socket.gethostname(), "node")
