"""Values and nodes that contradict each other: pod, doctor and `helm test` say one sentence.

The first file: what is installed so is upgraded to what the others want.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.pods.real_nodes import PATIENCE, RealNodes, until
from tests.cluster.pods.release import NAMESPACE, VALUES, install
from tests.cluster.pods.saying import by_helm, events, missed
from tests.cluster.pods.trouble import file_in_place_of

pytestmark = [
    pytest.mark.pods,
    pytest.mark.sweep(sample=0),  # at night: it takes half a minute
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
RINGS = "/run/lockstep"


@pytest.fixture(scope="module")
def contradicting(bare_nodes: RealNodes) -> Iterator[RealNodes]:
    """A release with a claim that nobody made, and a node with a file where rings are kept."""
    persistence = {"enabled": True, "existingClaim": "nobodys"}
    watch = {**VALUES["watch"], "persistence": persistence}
    with file_in_place_of(bare_nodes, bare_nodes.names[1], RINGS):
        install(bare_nodes, {**VALUES, "helmTest": {"waitSeconds": 5}, "watch": watch})
        yield bare_nodes


def test_what_contradicts_the_cluster_is_told_by_pods_doctor_and_helm_test(
    contradicting: RealNodes,
):
    node, claim = contradicting.names[1], f"there is no claim nobodys in namespace {NAMESPACE}"
    wanted = {
        "lockstep-collector": f"{RINGS} of node {node} is not a directory",
        "lockstep-watch": claim,
        "lockstep-dashboard": claim,  # it reads there what watch writes
    }
    until(lambda: not missed(contradicting, wanted), PATIENCE,
          lambda: missed(contradicting, wanted))  # fmt: skip
    said = by_helm(contradicting)

    assert [] == [words for words in wanted.values() if words not in said], said
    for words in (f"{RINGS} is not a directory", '"nobodys" not'):
        assert words in events(contradicting)
