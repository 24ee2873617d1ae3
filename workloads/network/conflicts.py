"""Which link faults of a run exclude each other."""

from collections.abc import Sequence
from itertools import combinations

from lockstep.workloads.faults.link import LINK_KINDS, LinkError
from lockstep.workloads.faults.plan import Fault


def check_links(faults: Sequence[Fault], nodes: int) -> None:
    """Check all faults of a run together; those of other kinds are not looked at.

    Raises:
        LinkError: There is no link, or two faults want the same one in the same steps.
    """
    linked = [fault for fault in faults if fault.kind in LINK_KINDS]
    if linked and nodes < 2:
        raise LinkError(
            f"fault {linked[0].spec!r}: one node has no link to another; give --nodes 2 or more"
        )
    for one, other in combinations(linked, 2):
        overlap = one.from_step < other.to_step and other.from_step < one.to_step
        same = one.peer == other.peer or one.peer is None or other.peer is None
        if one.node == other.node and overlap and same:
            raise LinkError(
                f"faults {one.spec!r} and {other.spec!r} disturb the same link in the same steps;"
                " give other steps, or other peers"
            )
