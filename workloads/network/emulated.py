"""The emulated network of a run, from the launcher's side: made, steered, and taken away."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.link import LINK_KINDS
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.launch.processes import SideProcess
from lockstep.workloads.network import namespaces, netns, observation
from lockstep.workloads.network.capabilities import has_netem, no_namespaces
from lockstep.workloads.network.controller import control
from lockstep.workloads.network.iproute import NetworkError
from lockstep.workloads.network.links import KernelLinks, Links
from lockstep.workloads.network.names import FABRIC
from lockstep.workloads.network.tunnel import Tunnel

T = TypeVar("T")

INTERFACE = FABRIC
"""The device that gloo binds to inside a node's namespace."""
CONTROL_LOG, TUNNEL_LOG = "links.log", "tunnel.log"
_USER_SPACE, _KERNEL = "user-space link (TUN)", "tc on veth"


class EmulatedNetwork:
    """A namespace for every node, linked, with the run's link faults steered.

    Attributes:
        interface: The device that gloo binds to inside a node's namespace.
        how: What links the nodes, in words.
    """

    interface = INTERFACE

    def __init__(
        self, run: str, nodes: int, ranks_per_node: int, faults: Sequence[Fault], seed: int,
        workspace: Path, logs: Path,
    ) -> None:  # fmt: skip
        linked = [fault for fault in faults if fault.kind in LINK_KINDS]
        in_user_space = not all(map(_by_tc, linked))
        self.how = _USER_SPACE if in_user_space else _KERNEL
        self._helper: SideProcess | None = None
        self._links: Links | None = None
        logs.mkdir(parents=True, exist_ok=True)
        self._names = namespaces.create(run, nodes, with_fabric=not in_user_space)
        try:
            names = self._names
            links = Tunnel(names, logs / TUNNEL_LOG, seed) if in_user_space else KernelLinks(names)
            self._links = links
            if linked:
                self._helper = SideProcess(
                    lambda: control(
                        linked, names, links, self.how, workspace, logs, ranks_per_node
                    ),
                    logs / CONTROL_LOG,
                )
        except BaseException:
            self.close()
            raise

    def namespace(self, node: int) -> str:
        """The namespace of a node, for netns.enter."""
        return self._names.namespace(node)

    def collector_address(self, node: int) -> str:
        """Where the collector of a node listens: on the management network."""
        return str(self._names.management_address(node))

    def close(self) -> None:
        """End what was started, remove what was made. All ranks must have ended.

        What is busy still is left to the janitor, who tries again, and to `lockstep doctor`.
        """
        if self._helper is not None:
            self._helper.end()
        if self._links is not None:
            self._links.close()
        with suppress(OSError):
            namespaces.remove(self._names.token)


def in_namespace(namespace: str, run: Callable[[], T]) -> T:
    """Do `run` inside a namespace, and stay there: for a process of its own.

    Raises:
        OSError: This process may not enter it.
    """
    netns.enter(namespace)
    return run()


def needed(faults: Sequence[Fault]) -> bool:
    """Whether a run cannot do without an emulated network."""
    return any(fault.kind in LINK_KINDS for fault in faults)


@contextmanager
def emulated(
    run: str, nodes: int, ranks_per_node: int, faults: Sequence[Fault], *, asked: bool, seed: int,
    workspace: Path, logs: Path,
) -> Iterator[EmulatedNetwork | None]:  # fmt: skip
    """The network of a run while it lasts; None where the machine's own does.

    Args:
        run: Run id.
        nodes: Emulated nodes.
        ranks_per_node: Ranks on each of them.
        faults: All of the run's; those of other kinds are not looked at.
        asked: Make one also without a link fault.
        seed: Of the user-space link's losses and jitter.
        workspace: Folder of the run's rings.
        logs: Folder of the run's logs; what link faults did is written there.

    Raises:
        NetworkError: It cannot be made; nothing of it is left.
    """
    if not (asked or needed(faults)):
        yield None
        return
    reason = no_namespaces()
    if reason:
        raise NetworkError(f"an emulated network {reason}")
    network = EmulatedNetwork(run, nodes, ranks_per_node, faults, seed, workspace, logs)
    try:
        yield network
    finally:
        network.close()


def effects(logs: Path) -> dict[str, dict[str, Any]]:
    """What the link faults of a run that is over did to their links, by SPEC."""
    return observation.read(logs)


def _by_tc(fault: Fault) -> bool:
    return fault.kind is FaultKind.LINK_BANDWIDTH or has_netem()
