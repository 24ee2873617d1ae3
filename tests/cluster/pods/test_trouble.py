"""Values and nodes that contradict each other: pod, doctor and `helm test` say one sentence."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from helm_python import HelmError

from tests.cluster.pods.real_nodes import PATIENCE, RealNodes, until
from tests.cluster.pods.release import (
    COLLECTORS,
    NAME,
    NAMESPACE,
    RUNS,
    put_back,
    upgrade,
)

pytestmark = [
    pytest.mark.pods,
    pytest.mark.sweep(sample=0),  # at night: every change replaces pods
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
RINGS, REFUSING = "/run/lockstep", "localhost:5000"
REFUSES = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Registry(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="registry"')
        self.end_headers()
    do_HEAD = do_GET
HTTPServer(("127.0.0.1", 5000), Registry).serve_forever()
"""


@contextlib.contextmanager
def refusing_registry(nodes: RealNodes, missing: str) -> Iterator[None]:
    """On every node one that lets nobody in; the nodes have its images but for one part's."""
    servers, parts = [], [one for one in ("collector", "watch", "nodes", "dashboard")
                          if one != missing]  # fmt: skip
    names = [f"{REFUSING}/lockstep-{part}:0.1.0" for part in parts]
    try:
        for node in nodes.names:
            first = (nodes.kubeconfig.parent / node / "first").read_text().strip()
            servers.append(subprocess.Popen(
                ["nsenter", "-t", first, "-n", sys.executable, "-c", REFUSES],
                stderr=subprocess.DEVNULL,
            ))  # fmt: skip
            for name in names:
                nodes.containerd(node, "images", "tag", "--force",
                                 name.replace(":5000", ""), name)  # fmt: skip
        yield
    finally:
        for server in servers:
            server.kill()
            server.wait()
        for node in nodes.names:
            nodes.containerd(node, "images", "rm", *names)


@contextlib.contextmanager
def file_in_place_of(nodes: RealNodes, node: str, folder: str) -> Iterator[None]:
    """What mounts the folder from then on finds a file."""
    nodes.inside(node, "mv", folder, f"{folder}.away")
    nodes.inside(node, "touch", folder)
    try:
        yield
    finally:
        nodes.inside(node, "rm", folder)
        nodes.inside(node, "mv", f"{folder}.away", folder)


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


def by_helm(nodes: RealNodes) -> str:
    """What the pod of `helm test` has said, however it ended."""
    with contextlib.suppress(HelmError):
        nodes.helm(NAMESPACE).test(NAME, timeout=300)
    [pod] = nodes.pods(NAMESPACE, "test")
    return " ".join(nodes.log(pod, "doctor").split())


def test_a_release_that_runs_passes_helm_test(release: RealNodes):
    nodes = release.helm(NAMESPACE)

    nodes.test(NAME, timeout=300)  # or it raises

    assert [] == release.pods(NAMESPACE, "test")
    assert [] == [found for found in told(release).values() if "ready" not in found]


def test_what_contradicts_the_cluster_is_told_by_pods_doctor_and_helm_test(release: RealNodes):
    node = release.names[1]
    with (
        put_back(release),
        refusing_registry(release, missing="dashboard"),
        file_in_place_of(release, node, RINGS),
    ):
        upgrade(release, {
            "images": {"registry": REFUSING}, "helmTest": {"waitSeconds": 5},
            "watch": {"persistence": {"enabled": True, "existingClaim": "nobodys"}},
        })  # fmt: skip
        wanted = {
            "lockstep-dashboard": f"the registry refuses image {REFUSING}/lockstep-dashboard:0.1.0",
            "lockstep-collector": f"{RINGS} of node {node} is not a directory",
            "lockstep-watch": f"there is no claim nobodys in namespace {NAMESPACE}",
        }

        def missed() -> dict[str, str]:
            found = told(release)
            return {part: found.get(part, "") for part, words in wanted.items()
                    if words not in found.get(part, "")}  # fmt: skip

        until(lambda: not missed(), PATIENCE, missed)
        said = by_helm(release)

        assert [] == [words for words in wanted.values() if words not in said], said
        events = " ".join(
            one.message
            for namespace in (NAMESPACE, COLLECTORS)
            for one in release.core.list_namespaced_event(namespace).items
        )
        for words in ("no basic auth credentials", f"{RINGS} is not a directory", '"nobodys" not'):
            assert words in events
