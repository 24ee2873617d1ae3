"""Where the ranks of a run are, and whether that is where they were asked to be."""

import warnings
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from time import monotonic_ns

from lockstep.workloads.launch.joining.reachable import free_port, interface_of, routable, towards
from lockstep.workloads.launch.joining.rendezvous import RendezvousError
from lockstep.workloads.spec import Layout


@dataclass(frozen=True, slots=True)
class Meeting:
    """What a rank knows once all ranks have heard of each other.

    Attributes:
        hosts: Name of the host of every rank, by rank.
        rendezvous: Where the process group is made, as torch's `init_method`.
        interface: Network interface towards rank 0.
        held: What must live as long as the process group.
        span: Between which monotonic nanoseconds the ranks met; None = nobody had to be awaited.
    """

    rank: int
    hosts: tuple[str, ...]
    rendezvous: str
    interface: str
    held: object = None
    span: tuple[int, int] | None = None

    @property
    def distinct(self) -> tuple[str, ...]:
        """The hosts, each once, in the order of ranks."""
        return tuple(dict.fromkeys(self.hosts))


def check(meeting: Meeting, layout: Layout, hosts: int) -> None:
    """Whether the ranks are where they were asked to be.

    Without it a run of many nodes lands on one and says nothing: Open MPI 5 takes no notice of the
    host file that the MPI Operator names in ORTE's variables (kubeflow/mpi-operator, issue 842).

    Args:
        hosts: How many distinct hosts were asked for.

    Raises:
        RendezvousError: With what was asked, what is so, and what to do.
    """
    ranks, distinct = len(meeting.hosts), meeting.distinct
    if ranks != layout.world:
        raise RendezvousError(
            f"the run has {layout.world} ranks ({layout.nodes} nodes x {layout.ranks_per_node}"
            f" ranks) and {ranks} were started; start {layout.world}"
        )
    if len(distinct) != hosts:
        raise RendezvousError(
            f"the {ranks} ranks are on {_counted(len(distinct))} ({_listed(distinct)}) and"
            f" {hosts} {'was' if hosts == 1 else 'were'} asked for; {_remedy(hosts)}"
        )
    if hosts not in (1, layout.nodes):
        raise RendezvousError(
            f"{_counted(hosts)} were asked for and the run has {layout.nodes} nodes; give"
            f" --nodes {hosts}, or one host for emulated nodes"
        )
    if hosts == 1:
        return
    for one, other in pairwise(range(ranks)):
        same_node = one // layout.ranks_per_node == other // layout.ranks_per_node
        if same_node != (meeting.hosts[one] == meeting.hosts[other]):
            raise RendezvousError(
                f"ranks {one} and {other} are on {meeting.hosts[one]} and {meeting.hosts[other]},"
                f" and each host must have {layout.ranks_per_node} ranks in a row; place them by"
                " slot, not round-robin"
            )


def _counted(hosts: int) -> str:
    return f"{hosts} host{'' if hosts == 1 else 's'}"


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown}, …" if len(names) > 8 else shown


def _remedy(hosts: int) -> str:
    if hosts == 1:
        return "name the hosts by --hostfile FILE, or let mpirun start all ranks on one"
    return f"give mpirun a host file of {_counted(hosts)}: --hostfile FILE"


# The ranks of an mpirun meet through mpi4py, and leave MPI before anything is trained.
#
# MPI's collectives and gloo's must not run from different threads at a time, and a process that is
# inside MPI must not fork: so MPI is used for this alone.


def mpi_installed() -> bool:
    """Whether there is mpi4py."""
    return find_spec("mpi4py") is not None


def meet_by_mpi(world: int | None, directory: Path, master: tuple[str, int] | None) -> Meeting:
    """Every rank of the mpirun calls it once; rank 0 says where the process group is made.

    Args:
        world: How many ranks the environment says there are; None = it says nothing.
        directory: Where ranks of one host may meet; must be there on that host.
        master: Where rank 0 shall await the others; None = it chooses.

    Raises:
        RendezvousError: mpi4py and mpirun do not belong together, or no address can be found.
    """
    settings = import_module("mpi4py").rc
    settings.initialize = settings.finalize = False
    try:
        MPI = import_module("mpi4py.MPI")  # noqa: N806 - as mpi4py's users know it
    except (ImportError, RuntimeError) as error:
        raise RendezvousError(
            f"mpi4py finds no MPI library ({error}); install the one of mpirun, or remove mpi4py"
        ) from None
    with warnings.catch_warnings():
        # It tells of mpirun and library that differ in a warning; we do in an error.
        warnings.simplefilter("ignore", RuntimeWarning)
        MPI.Init_thread(MPI.THREAD_SINGLE)
    try:
        everyone = MPI.COMM_WORLD
        if world is not None and world != everyone.size:
            library = MPI.Get_library_version().partition("\n")[0].strip("\0 ")
            raise RendezvousError(
                f"mpirun started {world} ranks and mpi4py sees {everyone.size}, because it found"
                f" the library of another MPI ({library}); install the one of mpirun, or put the"
                " folder of its libmpi first in LD_LIBRARY_PATH"
            )
        # Not Open MPI's local rank, which differs under --oversubscribe (measured).
        local_rank = everyone.Split_type(MPI.COMM_TYPE_SHARED).rank
        hosts = tuple(everyone.allgather(MPI.Get_processor_name()))
        said = None
        if everyone.rank == 0:
            said = _chosen(hosts, directory, master)
        rendezvous, address = everyone.bcast(said)
        rank = int(everyone.rank)
    finally:
        MPI.Finalize()
    if rendezvous is None:
        raise RendezvousError(
            f"rank 0 on {hosts[0]} knows no address that other hosts can reach; set MASTER_ADDR"
            " and MASTER_PORT"
        )
    if local_rank != hosts[:rank].count(hosts[rank]):
        raise RendezvousError(
            f"rank {rank} is number {local_rank} of those that share its memory and number"
            f" {hosts[:rank].count(hosts[rank])} of those on {hosts[rank]}; give each host its own"
            " name"
        )
    return Meeting(rank, hosts, rendezvous, _interface(hosts, rank, address))


def _chosen(
    hosts: tuple[str, ...], directory: Path, master: tuple[str, int] | None
) -> tuple[str | None, str]:
    """(init_method, address of rank 0). A file on one host: nothing is reachable from outside."""
    if len(set(hosts)) == 1:
        return f"file://{directory}/rendezvous-{monotonic_ns()}", ""
    if master is None:
        peers = [host for host in hosts if host != hosts[0]]
        address = routable(peers[:1], hosts[0])
        if address is None:
            return None, ""
        master = address, free_port()
    return f"tcp://{master[0]}:{master[1]}", master[0]


def _interface(hosts: tuple[str, ...], rank: int, address: str) -> str:
    """The interface towards rank 0."""
    if len(set(hosts)) == 1:
        return "lo"
    own = towards(address)
    interface = None if own is None else interface_of(own)
    if interface is None:
        raise RendezvousError(
            f"rank {rank} on {hosts[rank]} has no way to {address}, the address of rank 0; set"
            " MASTER_ADDR to one that all hosts can reach"
        )
    return interface
