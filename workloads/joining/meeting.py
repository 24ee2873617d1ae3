"""Where the ranks of a run are, and whether that is where they were asked to be."""

from dataclasses import dataclass
from itertools import pairwise

from lockstep.workloads.joining.rendezvous import RendezvousError
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
