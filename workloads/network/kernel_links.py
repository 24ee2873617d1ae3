"""Links of the kernel: veth and a bridge, disturbed by tc on both ends of a node's cable."""

from contextlib import suppress
from ipaddress import IPv4Address

from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.network import iproute, shaping
from lockstep.workloads.network.iproute import NetworkError
from lockstep.workloads.network.links import Rules, checked
from lockstep.workloads.network.names import FABRIC, Names
from lockstep.workloads.network.namespaces import port


class KernelLinks:
    """See links.Links: what a node sends is held up at its end, what it gets at the switch's."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._now: dict[int, dict[IPv4Address | None, LinkSetting]] = {}

    def apply(self, node: int, rules: Rules) -> None:
        """From now on `rules`, and nothing else, hold for a node, in both directions.

        Raises:
            NetworkError: The kernel refused them.
        """
        wanted = {
            None if peer is None else self._names.address(peer): setting
            for peer, setting in checked(rules).items()
        }
        before = self._now.get(node, {})
        if wanted == before:
            return
        change = bool(wanted) and shaping.structure(wanted) == shaping.structure(before)
        for namespace, device, field in self._ends(node):
            if not change:
                with suppress(NetworkError):  # there was nothing
                    iproute.shape(device, [shaping.CLEAR], namespace)
            requests = shaping.requests(wanted, field, change=change)
            if requests:
                iproute.shape(device, requests, namespace)
        self._now[node] = wanted

    def close(self) -> None:
        """Nothing is held: the rules go with their devices."""

    def _ends(self, node: int) -> tuple[tuple[str, str, str], ...]:
        return (
            (self._names.namespace(node), FABRIC, "dst"),
            (self._names.switch, port("f", node), "src"),
        )
