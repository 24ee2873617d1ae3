"""The rights that the chart gives are those that are used: on the real authorizer."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import pytest

from lockstep.collector.contract.kubernetes import (
    COLLECTOR_ACCOUNT,
    COLLECTOR_NAMESPACE,
    LEASE,
    NAMESPACE,
    NODES_ACCOUNT,
    RUNS_ACCOUNT,
    RUNS_NAMESPACE,
)
from lockstep.watch.kubernetes.client import Cluster
from lockstep.workloads.launch.kubernetes.api import ApiCluster
from lockstep.workloads.launch.kubernetes.facts import look
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings
from tests.cluster.asking import MERGE, STRATEGIC, Api
from tests.cluster.control_plane import ControlPlane
from tests.cluster.node_conditions import EVENTS, LEASES, XID, Scene, statuses
from tests.cluster.node_conditions import events_about as events
from tests.deploy.chart.chart import Manifest, objects, part

pytestmark = [
    pytest.mark.cluster,
    # The certificate of the control plane is its own.
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = f"{NAMESPACE}:{NODES_ACCOUNT}"
RUNS = f"{RUNS_NAMESPACE}:{RUNS_ACCOUNT}"
COLLECTOR = f"{COLLECTOR_NAMESPACE}:{COLLECTOR_ACCOUNT}"
WRITES = {"nodes": {"enabled": True, "dryRun": False}}
DRY_RUN = {"nodes": {"enabled": True}}
NODE = "/api/v1/nodes/hollow-0"
POD = "/api/v1/namespaces/default/pods/any"
OWN = f"/api/v1/namespaces/{NAMESPACE}"
OF_RUNS = f"/api/v1/namespaces/{RUNS_NAMESPACE}"
FORBIDDEN: tuple[tuple[str, str, Any], ...] = (
    ("PATCH", NODE, {"spec": {"unschedulable": True}}),
    ("PUT", NODE, {}),
    ("DELETE", NODE, None),
    ("POST", "/api/v1/nodes", {"metadata": {"name": "another"}}),
    ("PUT", f"{NODE}/status", {}),
    ("DELETE", POD, None),
    ("POST", f"{POD}/eviction", {}),
    ("GET", "/api/v1/pods", None),
    ("GET", f"{OWN}/secrets", None),
    ("GET", EVENTS, None),
    ("POST", LEASES, {"metadata": {"name": "another"}}),
    ("GET", f"{LEASES}/another", None),
    ("PATCH", f"{LEASES}/another", {}),
    ("DELETE", f"{LEASES}/{LEASE}", None),
    ("POST", f"{RBAC}/clusterrolebindings", {}),
)
BEYOND_A_DRY_RUN: tuple[tuple[str, str, Any], ...] = (
    ("PATCH", f"{NODE}/status", {}),
    ("GET", f"{LEASES}/{LEASE}", None),
    ("PATCH", f"{LEASES}/{LEASE}", {}),
    *FORBIDDEN,
)
BEYOND_RUNS: tuple[tuple[str, str, Any], ...] = (
    ("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", {"metadata": {"name": "mine"}}),
    ("POST", f"{OWN}/services", {"metadata": {"name": "mine"}}),
    ("GET", f"{OWN}/pods", None),
    ("GET", f"{OWN}/secrets", None),
    ("GET", OWN, None),
    ("GET", "/api/v1/namespaces", None),
    ("GET", f"{OF_RUNS}/secrets", None),
    ("GET", f"{OF_RUNS}/pods/any", None),
    ("POST", f"{OF_RUNS}/pods", {"metadata": {"name": "mine"}}),
    ("GET", NODE, None),
    ("PATCH", f"{NODE}/status", {}),
    ("POST", f"{RBAC}/namespaces/{RUNS_NAMESPACE}/rolebindings", {}),
)


@pytest.fixture
def api(cluster: ControlPlane) -> Api:
    """The server, as the account that acts on nodes."""
    return Api(cluster.url, cluster.tokens["admin"], cluster.kubeconfig(ACCOUNT))


PATIENCE = 60.0
"""Seconds."""


@contextmanager
def installed(api: Api, component: str, values: dict[str, Any]) -> Iterator[None]:
    """Roles, their bindings and the lease of a part, as the chart has them, and nothing else."""
    made = []
    for namespace in (NAMESPACE, RUNS_NAMESPACE):
        api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    try:
        for each in objects(values):
            if part(each) == component and _path(each):
                status, answer = api.ask("POST", _path(each), each)
                assert status == 201, answer
                made.append(f"{_path(each)}/{each['metadata']['name']}")
        yield
    finally:
        for path in reversed(made):
            api.ask("DELETE", path)


def _path(manifest: Manifest) -> str:
    """Where it is created; empty = it has to do with no rights."""
    group, kind = f"/apis/{manifest['apiVersion']}", manifest["kind"]
    if group != RBAC and kind != "Lease":
        return ""
    namespace = manifest["metadata"].get("namespace")
    return f"{group}/{f'namespaces/{namespace}/' if namespace else ''}{kind.lower()}s"


def refused(api: Api, token: str, tried: tuple[tuple[str, str, Any], ...]) -> list[str]:
    """What of it is answered 403."""
    kinds = {"PATCH": MERGE}
    return [
        f"{method} {path}"
        for method, path, body in tried
        if 403 == api.ask(
            method, path, body,
            STRATEGIC if path.endswith("/status") else kinds.get(method, "application/json"), token,
        )[0]
    ]  # fmt: skip


def names(tried: tuple[tuple[str, str, Any], ...]) -> list[str]:
    return [f"{method} {path}" for method, path, _ in tried]


def test_with_its_rights_every_call_succeeds_and_everything_else_is_forbidden(
    api: Api, cluster: ControlPlane
) -> None:
    with installed(api, "nodes", WRITES):
        mine = Cluster(api.kubeconfig)
        scene = Scene(list(cluster.nodes), {"hollow-1": (XID,)})
        acting = scene.acting(mine)
        # The API server judges by what it was told of roles lately, not at once.
        until = monotonic() + PATIENCE
        while not acting.cycle():
            assert monotonic() < until, acting.trouble
            sleep(0.5)
        assert "" == acting.trouble
        scene.now += 1000
        assert acting.cycle()
        scene.faults = {}
        for _ in range(2):
            scene.now += 1000
            assert acting.cycle()
        acting.stop()
        assert "hollow-1" == mine.node("hollow-1")["metadata"]["name"]

        found = events(api, "hollow-1")
        assert ["NodeDegraded", "NodeRecovered"] == [one[1] for one in found]
        assert "True" == statuses(api, "hollow-1")["Healthy"]
        assert names(FORBIDDEN) == refused(api, cluster.tokens[ACCOUNT], FORBIDDEN)


def test_a_dry_run_works_and_may_write_events_alone(api: Api, cluster: ControlPlane) -> None:
    with installed(api, "nodes", DRY_RUN):
        scene = Scene(list(cluster.nodes), {"hollow-2": (XID,)})
        acting = scene.acting(Cluster(api.kubeconfig), dry_run=True)
        assert acting.cycle()
        assert "" == acting.trouble

        [(_, _, message)] = events(api, "hollow-2")
        assert message.startswith("[dry-run]")
        assert names(BEYOND_A_DRY_RUN) == refused(api, cluster.tokens[ACCOUNT], BEYOND_A_DRY_RUN)


def test_who_launches_runs_sees_what_a_preflight_judges_by_and_nothing_beyond_its_namespace(
    api: Api, cluster: ControlPlane
) -> None:
    with installed(api, "runs", {"runs": {"enabled": True}}):
        mine = ApiCluster(cluster.kubeconfig(RUNS))
        for kind in Kind:
            facts = look(mine, Settings("image", kind=kind))
            assert () == facts.denied
            assert RUNS_NAMESPACE == (facts.namespace or {})["metadata"]["name"]
            assert () == facts.quotas
            assert len(cluster.nodes) <= len(facts.nodes or ())
        mine.close()
        assert names(BEYOND_RUNS) == refused(api, cluster.tokens[RUNS], BEYOND_RUNS)


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/pods", NODE, EVENTS])
def test_the_collector_may_do_nothing_at_all(api: Api, cluster: ControlPlane, path: str) -> None:
    assert 403 == api.ask("GET", path, token=cluster.tokens[COLLECTOR])[0]
