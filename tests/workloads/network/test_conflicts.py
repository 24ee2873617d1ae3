"""Link faults that exclude each other are refused together."""

import pytest

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.link import LinkError
from lockstep.workloads.faults.plan import Fault, check_links

BANDWIDTH, DELAY = FaultKind.LINK_BANDWIDTH, FaultKind.LINK_DELAY


def fault(kind: FaultKind, node: int, begin: int, end: int, peer: int | None = None) -> Fault:
    return Fault(kind, None, node, 1.5, begin, end, spec=f"{kind}:node={node}", peer=peer)


def test_one_node_has_no_link() -> None:
    with pytest.raises(LinkError, match="one node has no link to another; give --nodes 2 or more"):
        check_links([fault(DELAY, 0, 10, 20)], 1)


@pytest.mark.parametrize("peers", [(None, None), (None, 1), (1, 1)])
def test_two_faults_of_one_link_in_the_same_steps_are_refused(
    peers: tuple[int | None, int | None],
) -> None:
    faults = [fault(DELAY, 0, 10, 20, peers[0]), fault(BANDWIDTH, 0, 15, 30, peers[1])]
    with pytest.raises(LinkError, match="disturb the same link in the same steps"):
        check_links(faults, 4)


def test_other_steps_nodes_peers_and_kinds_do_not_exclude_each_other() -> None:
    check_links([fault(DELAY, 0, 10, 20), fault(BANDWIDTH, 0, 20, 30)], 4)
    check_links([fault(DELAY, 0, 10, 20), fault(DELAY, 1, 10, 20)], 4)
    check_links([fault(DELAY, 0, 10, 20, 1), fault(BANDWIDTH, 0, 10, 20, 2)], 4)
    check_links([fault(FaultKind.COMPUTE, 0, 10, 20)], 1)
