"""What holds on the links of one node, whatever puts it into force."""

from collections.abc import Mapping
from typing import Protocol

from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.network.iproute import NetworkError

Rules = Mapping[int | None, LinkSetting]
"""Setting by peer node; None stands for all traffic of the node. Either that one, or peers."""


class Links(Protocol):
    """Puts rules into force: tc on devices of the kernel, or a user-space link."""

    def apply(self, node: int, rules: Rules) -> None:
        """From now on `rules`, and nothing else, hold for a node, in both directions.

        Raises:
            NetworkError: They were refused.
        """
        ...

    def close(self) -> None:
        """Let go of everything; the network itself is removed by who made it."""
        ...


def checked(rules: Rules) -> dict[int | None, LinkSetting]:
    """Rules without those that do nothing.

    Raises:
        NetworkError: A rule for all traffic stands beside one for a peer.
    """
    kept = {peer: setting for peer, setting in rules.items() if setting != LinkSetting()}
    if None in kept and len(kept) > 1:
        raise NetworkError("a link fault on all traffic of a node excludes one towards a peer")
    return kept
