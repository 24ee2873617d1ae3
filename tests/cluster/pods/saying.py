"""What is said of a release that is not well: by `lockstep doctor`, by `helm test`, by events."""

import contextlib
import json
import subprocess
import sys

from helm_python import HelmError

from tests.cluster.pods.real_nodes import RealNodes
from tests.cluster.pods.release import COLLECTORS, NAME, NAMESPACE, RUNS


def told(nodes: RealNodes) -> dict[str, str]:
    """Part -> sentence, by `lockstep doctor --cluster` as the administrator."""
    said = subprocess.run(
        [sys.executable, "-m", "lockstep", "doctor", "--cluster", "-o", "json",
         f"--kubeconfig={nodes.kubeconfig}",
         *(f"--namespace={each}" for each in (NAMESPACE, COLLECTORS, RUNS))],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert said.returncode in (0, 1), said.stderr
    parts = json.loads(said.stdout)["parts"]
    return {one["name"].rpartition("/")[2]: one["found"] for one in parts}


def missed(nodes: RealNodes, wanted: dict[str, str]) -> dict[str, str]:
    """Part -> what doctor says of it instead."""
    found = told(nodes)
    return {part: found.get(part, "") for part, words in wanted.items()
            if words not in found.get(part, "")}  # fmt: skip


def by_helm(nodes: RealNodes) -> str:
    """What the pod of `helm test` has said, however it ended."""
    with contextlib.suppress(HelmError):
        nodes.helm(NAMESPACE).test(NAME, timeout=300)
    [pod] = nodes.pods(NAMESPACE, "test")
    said = " ".join(nodes.log(pod, "doctor").split())
    # Of a test that failed it stays until the next one, and no uninstall takes it.
    nodes.core.delete_namespaced_pod(pod.metadata.name, NAMESPACE)
    return said


def events(nodes: RealNodes) -> str:
    """What Kubernetes says of the release."""
    return " ".join(
        one.message
        for namespace in (NAMESPACE, COLLECTORS)
        for one in nodes.core.list_namespaced_event(namespace).items
    )
