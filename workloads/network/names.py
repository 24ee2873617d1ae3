"""Names and addresses of an emulated network; pure, the same for whoever asks.

Every node has two devices: `eth0` for the ranks' collectives, which link faults disturb, and
`mgmt0` for its collector, which they do not, as the management network of a cluster.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

FABRIC = "eth0"
"""The device of a node that carries its ranks' collectives; gloo binds to it."""
MANAGEMENT = "mgmt0"
SWITCH = "switch"
MAX_NODES = 64

_PREFIX = "ls-"
_NAMESPACE = re.compile(r"ls-([0-9a-f]{8})-(switch|[0-9]{1,2})")
_STATION = re.compile(r"ls-([0-9a-f]{8})")
_FABRIC_NETWORK = IPv4Network("10.0.0.0/24")  # seen inside our namespaces only
_MANAGEMENT_SPACE = IPv4Network("10.0.0.0/8")


def token(run: str) -> str:
    """Eight hex digits that stand for a run in names of the kernel, which allows 15 letters."""
    return hashlib.sha256(run.encode()).hexdigest()[:8]


def token_of(name: str) -> str | None:
    """The token in the name of a namespace or device of ours; None for everybody else's."""
    match = _NAMESPACE.fullmatch(name) or _STATION.fullmatch(name)
    return match[1] if match else None


@dataclass(frozen=True, slots=True)
class Names:
    """What the parts of one run's network are called.

    Attributes:
        token: Eight hex digits; see `token`.
        nodes: Emulated nodes.
        management: Addresses of the collectors and of the recorder's device on this machine.
    """

    token: str
    nodes: int
    management: IPv4Network

    @property
    def station(self) -> str:
        """The one device outside our namespaces: the recorder's way to the collectors."""
        return f"{_PREFIX}{self.token}"

    @property
    def station_address(self) -> IPv4Address:
        """The recorder's address on the management network."""
        return self.management[-2]

    @property
    def switch(self) -> str:
        """The namespace that holds both bridges."""
        return f"{_PREFIX}{self.token}-{SWITCH}"

    @property
    def namespaces(self) -> list[str]:
        """All of them."""
        return [*(self.namespace(node) for node in range(self.nodes)), self.switch]

    def namespace(self, node: int) -> str:
        """The namespace of a node."""
        return f"{_PREFIX}{self.token}-{node}"

    def address(self, node: int) -> IPv4Address:
        """Where a node's ranks are reached by other ranks."""
        return fabric_address(node)

    def management_address(self, node: int) -> IPv4Address:
        """Where a node's collector listens."""
        return self.management[node + 1]


def fabric_address(node: int) -> IPv4Address:
    """Where a node's ranks are reached by other ranks."""
    return _FABRIC_NETWORK[node + 1]


def fabric_prefix() -> int:
    """Length of the network's prefix."""
    return _FABRIC_NETWORK.prefixlen


def free_network(token: str, taken: Iterable[IPv4Network]) -> IPv4Network | None:
    """A private /24 (RFC 1918) that overlaps nothing; None when all are taken.

    Two runs that start together begin to look at different places.
    """
    blocks = [
        (int(network[0]) >> 8, int(network[-1]) >> 8) for network in taken if network.prefixlen > 0
    ]
    low, high = (int(_MANAGEMENT_SPACE[end]) >> 8 for end in (0, -1))
    address = low + int(token[:4], 16)
    # From there upward, and once more from below: each block is jumped over at most twice.
    for _ in range(2 * len(blocks) + 2):
        if address > high:
            address = low
        ends = [last for first, last in blocks if first <= address <= last]
        if not ends:
            return IPv4Network((address << 8, 24))
        address = max(ends) + 1
    return None
