"""A release that is taken away: the last file, since no test after it has one."""

import contextlib
import subprocess
import sys

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.cluster.pods.real_nodes import PATIENCE, RealNodes, until
from tests.cluster.pods.release import COLLECTORS, NAMESPACE, left, uninstall

pytestmark = [
    pytest.mark.pods,
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]


def test_uninstall_leaves_nothing(release: RealNodes):
    # As the release's notes say it: what it wrote on nodes is taken off first.
    apps = client.AppsV1Api(release.api)
    apps.patch_namespaced_deployment("lockstep-nodes", NAMESPACE, {"spec": {"replicas": 0}})
    until(lambda: not release.pods(NAMESPACE, "nodes"), PATIENCE)
    subprocess.run(
        [sys.executable, "-m", "lockstep", "nodes", "--remove", f"--namespace={NAMESPACE}",
         f"--kubeconfig={release.kubeconfig}"],
        check=True, timeout=120,
    )  # fmt: skip
    uninstall(release)
    until(lambda: [] == left(release), PATIENCE)
    for namespace in (COLLECTORS, NAMESPACE):
        with contextlib.suppress(ApiException):
            assert [] == release.core.list_namespaced_pod(namespace).items
    ours = [
        one.type
        for node in release.core.list_node().items
        for one in node.status.conditions
        if "ockstep" in one.type
    ]
    assert [] == ours
