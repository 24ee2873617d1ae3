"""The rights of who acts on nodes are those that it uses: on the real authorizer."""

from collections.abc import Iterator
from typing import Any

import pytest

from analyzer.act.nodes.kubernetes import Cluster
from analyzer.act.nodes.rights import RIGHTS
from collector.contract.kubernetes import NAMESPACE, NODES_ACCOUNT
from tests.cluster.acting import EVENTS, LEASES, XID, Scene, forget_lease, statuses
from tests.cluster.acting import events_about as events
from tests.cluster.asking import STRATEGIC, Api
from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = f"{NAMESPACE}:{NODES_ACCOUNT}"
COLLECTOR = "lockstep-collector:lockstep-collector"
NODE = "/api/v1/nodes/hollow-0"
POD = "/api/v1/namespaces/default/pods/any"
FORBIDDEN: tuple[tuple[str, str, Any], ...] = (
    ("PATCH", NODE, {"spec": {"unschedulable": True}}),
    ("PUT", NODE, {}),
    ("DELETE", NODE, None),
    ("POST", "/api/v1/nodes", {"metadata": {"name": "another"}}),
    ("PUT", f"{NODE}/status", {}),
    ("DELETE", POD, None),
    ("POST", f"{POD}/eviction", {}),
    ("GET", "/api/v1/pods", None),
    ("GET", "/api/v1/namespaces/lockstep/secrets", None),
    ("GET", EVENTS, None),
    ("DELETE", f"{LEASES}/lockstep-nodes", None),
    ("POST", f"{RBAC}/clusterrolebindings", {}),
)


@pytest.fixture
def api(cluster: ControlPlane) -> Iterator[Api]:
    """The server, with the account's roles and nothing else of it."""
    found = Api(cluster.url, cluster.tokens["admin"], cluster.kubeconfig(ACCOUNT))
    found.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    made: list[str] = []
    for namespace in dict.fromkeys(right.namespace for right in RIGHTS):
        where = f"{RBAC}/namespaces/{namespace}/" if namespace else f"{RBAC}/cluster"
        kind = "Role" if namespace else "ClusterRole"
        role = {"metadata": {"name": "test-nodes"}, "rules": _rules(namespace)}
        binding = {
            "metadata": {"name": "test-nodes"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "test-nodes"
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": NODES_ACCOUNT, "namespace": NAMESPACE}
            ],
        }  # fmt: skip
        for name, body in (("roles", role), ("rolebindings", binding)):
            status, answer = found.ask("POST", where + name, body)
            assert status == 201, answer
            made.append(f"{where}{name}/test-nodes")
    yield found
    for path in reversed(made):
        found.ask("DELETE", path)
    forget_lease(found)


def _rules(namespace: str) -> list[dict[str, Any]]:
    return [
        {"apiGroups": [right.group], "resources": [right.resource], "verbs": list(right.verbs)}
        for right in RIGHTS
        if right.namespace == namespace
    ]


def test_with_its_rights_every_call_succeeds(api: Api, cluster: ControlPlane) -> None:
    mine = Cluster(api.kubeconfig)
    scene = Scene(list(cluster.nodes), {"hollow-1": (XID,)})
    acting = scene.acting(mine)
    assert acting.cycle()
    assert "" == acting.trouble
    scene.now += 1000
    assert acting.cycle()
    scene.faults = {}
    for _ in range(2):
        scene.now += 1000
        assert acting.cycle()
    acting.stop()
    assert "hollow-1" == mine.node("hollow-1")["metadata"]["name"]

    assert ["NodeDegraded", "NodeRecovered"] == [one[1] for one in events(api, "hollow-1")]
    assert "True" == statuses(api, "hollow-1")["Healthy"]


@pytest.mark.parametrize(("method", "path", "body"), FORBIDDEN)
def test_everything_else_is_forbidden(
    api: Api, cluster: ControlPlane, method: str, path: str, body: Any
) -> None:
    kind = STRATEGIC if method == "PATCH" else "application/json"

    assert 403 == api.ask(method, path, body, kind, cluster.tokens[ACCOUNT])[0]


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/pods", NODE, EVENTS])
def test_the_collector_may_do_nothing_at_all(api: Api, cluster: ControlPlane, path: str) -> None:
    assert 403 == api.ask("GET", path, token=cluster.tokens[COLLECTOR])[0]
