"""Ranks that no MPI started meet in torch's store, where MASTER_ADDR and MASTER_PORT are."""

from datetime import timedelta

from torch.distributed import DistError
from torch.distributed.rendezvous import rendezvous

from lockstep.workloads.launch.joining.meeting import Meeting
from lockstep.workloads.launch.joining.reachable import interface_of, routable, towards
from lockstep.workloads.launch.joining.rendezvous import Member, RendezvousError, host_name

JOIN_SECONDS = 120.0
"""The slowest host imports torch from a cold disk first."""


def meet(member: Member, seconds: float = JOIN_SECONDS) -> Meeting:
    """Every rank calls it once.

    Raises:
        RendezvousError: Nobody said where rank 0 is, or not all ranks came in time.
    """
    if member.master is None:
        raise RendezvousError(
            f"{member.starter} started {member.world} ranks and nothing says where rank 0 is;"
            " install mpi4py, or set MASTER_ADDR and MASTER_PORT"
        )
    address, port = member.master
    url = f"tcp://{address}:{port}"
    try:
        # The very store that init_process_group will find there, torchrun's own included.
        store, _, _ = next(
            rendezvous(url, member.rank, member.world, timeout=timedelta(seconds=seconds))
        )
        store.set(_key(member.rank), host_name())
        hosts = tuple(store.get(_key(rank)).decode() for rank in range(member.world))
    except (DistError, RuntimeError) as error:
        raise RendezvousError(
            f"rank {member.rank} did not meet the other {member.world - 1} at {address}:{port}"
            f" within {seconds:g} s: {str(error).partition(chr(10))[0]}"
        ) from None
    return Meeting(member.rank, hosts, url, _interface(hosts, member.rank, address), store)


def _key(rank: int) -> str:
    return f"lockstep/host/{rank}"


def _interface(hosts: tuple[str, ...], rank: int, address: str) -> str:
    if len(set(hosts)) == 1:
        return "lo"
    own = towards(address)
    if own is None or interface_of(own) == "lo":
        # Many an /etc/hosts says that its own host is the loopback.
        own = routable((host for host in hosts if host != hosts[rank]), hosts[rank]) or own
    interface = None if own is None else interface_of(own)
    if interface is None:
        raise RendezvousError(
            f"rank {rank} on {hosts[rank]} has no way to MASTER_ADDR {address}; set it to an"
            " address that all hosts can reach"
        )
    return interface
