"""Values and nodes that contradict each other: pod, doctor and `helm test` say one sentence."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helm_python import HelmError
from kubernetes import client

from tests.cluster.pods.conftest import Launched
from tests.cluster.pods.real_nodes import PATIENCE, RealNodes, is_ready, page, series, until
from tests.cluster.pods.release import (
    COLLECTORS,
    NAME,
    NAMESPACE,
    RUNS,
    Prometheus,
    findings_folder,
    installed_anew,
    put_back,
    shared_folder,
    upgrade,
)

pytestmark = [
    pytest.mark.pods,
    pytest.mark.sweep(sample=0),  # at night: every change replaces pods
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
RINGS, REFUSING = "/run/lockstep", "localhost:5000"
MEGABYTES = 8
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


@contextlib.contextmanager
def small_volumes(nodes: RealNodes, *places: tuple[str, Path]) -> Iterator[Callable[[], None]]:
    """Memory of so many megabytes where nodes mount a folder; what is yielded fills it.

    What fills it cannot reach the disk: nothing is written where there is no mount of its own.
    """
    made: list[tuple[str, str]] = []

    def fill() -> None:
        for node, folder in made:
            nodes.inside(node, "mountpoint", "-q", folder)
            amount = f"head -c {MEGABYTES}M /dev/zero >{folder}/ballast"
            nodes.inside(node, "sh", "-c", f"{amount} 2>/dev/null || true")

    try:
        for node, folder in places:
            options = f"size={MEGABYTES}m,mode=1777"
            nodes.inside(node, "mount", "-t", "tmpfs", "-o", options, "lockstep-full", str(folder))
            made.append((node, str(folder)))
        yield fill
    finally:
        for node, folder in made:
            nodes.inside(node, "umount", "-l", folder)


def scaled(nodes: RealNodes, replicas: int) -> None:
    """So many pods of watch, all Ready."""
    apps = client.AppsV1Api(nodes.api)
    change = {"spec": {"replicas": replicas}}
    apps.patch_namespaced_deployment("lockstep-watch", NAMESPACE, change)
    chosen = {"label_selector": "app.kubernetes.io/component=watch"}

    def there() -> bool:
        # Also one that still ends: its mounts go last, and take away what is mounted over them.
        pods = nodes.core.list_namespaced_pod(NAMESPACE, **chosen).items
        return len(pods) == replicas and all(map(is_ready, pods))

    until(there, PATIENCE)


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
    said = " ".join(nodes.log(pod, "doctor").split())
    # Of a test that failed it stays until the next one, and no uninstall takes it.
    nodes.core.delete_namespaced_pod(pod.metadata.name, NAMESPACE)
    return said


def prometheus_is_up(watch: Any) -> bool:
    """By the page of watch."""
    return [1.0] == [
        value for _, value in series(page(watch, 9411), "lockstep_analyzer_prometheus_up")
    ]


def test_a_release_that_runs_passes_helm_test(release: RealNodes):
    nodes = release.helm(NAMESPACE)

    nodes.test(NAME, timeout=300)  # or it raises

    assert [] == release.pods(NAMESPACE, "test")
    assert [] == [found for found in told(release).values() if "ready" not in found]


def missed(nodes: RealNodes, wanted: dict[str, str]) -> dict[str, str]:
    """Part -> what doctor says of it instead."""
    found = told(nodes)
    return {part: found.get(part, "") for part, words in wanted.items()
            if words not in found.get(part, "")}  # fmt: skip


def events(nodes: RealNodes) -> str:
    """What Kubernetes says of the release."""
    return " ".join(
        one.message
        for namespace in (NAMESPACE, COLLECTORS)
        for one in nodes.core.list_namespaced_event(namespace).items
    )


def test_what_contradicts_the_cluster_is_told_by_pods_doctor_and_helm_test(release: RealNodes):
    node, claim = release.names[1], f"there is no claim nobodys in namespace {NAMESPACE}"
    wanted = {
        "lockstep-collector": f"{RINGS} of node {node} is not a directory",
        "lockstep-watch": claim,
        "lockstep-dashboard": claim,  # it reads there what watch writes
    }
    with installed_anew(release), file_in_place_of(release, node, RINGS):
        upgrade(release, {
            "helmTest": {"waitSeconds": 5},
            "collector": {"maxUnavailable": "100%", "cleaner": {"age": "25h"}},
            "watch": {"persistence": {"enabled": True, "existingClaim": "nobodys"}},
        })  # fmt: skip
        until(lambda: not missed(release, wanted), PATIENCE, lambda: missed(release, wanted))
        said = by_helm(release)

        assert [] == [words for words in wanted.values() if words not in said], said
        for words in (f"{RINGS} is not a directory", '"nobodys" not'):
            assert words in events(release)


def test_a_registry_that_refuses_is_told_by_pods_doctor_and_helm_test(release: RealNodes):
    wanted = {
        "lockstep-dashboard": f"the registry refuses image {REFUSING}/lockstep-dashboard:0.1.0"
    }
    with put_back(release), refusing_registry(release, missing="dashboard"):
        upgrade(release, {"images": {"registry": REFUSING}, "helmTest": {"waitSeconds": 5}})
        until(lambda: not missed(release, wanted), PATIENCE, lambda: missed(release, wanted))

        assert wanted["lockstep-dashboard"] in by_helm(release)
        assert "401 Unauthorized" in events(release)  # containerd's words


def test_a_full_claim_of_findings_is_said_and_watch_goes_on(
    prometheus: Prometheus, release: RealNodes
):
    scaled(release, 0)
    try:
        with small_volumes(release, (release.names[0], findings_folder(release))) as fill:
            scaled(release, 1)
            [pod] = release.pods(NAMESPACE, "watch")
            until(lambda: prometheus_is_up(pod), PATIENCE)
            fill()
            failures = "lockstep_analyzer_state_write_failures_total"
            until(
                lambda: sum(value for _, value in series(page(pod, 9411), failures)) > 0, PATIENCE
            )
            said = release.log(pod, "watch").splitlines()
            [full] = [line for line in said if "No space left" in line]  # once, not each second
            assert "the state cannot be saved in /var/lib/lockstep/state" in full
            assert is_ready(release.pods(NAMESPACE, "watch")[0])
            scaled(release, 0)
    finally:
        scaled(release, 1)


def test_a_full_claim_of_runs_ends_a_run_with_a_sentence(
    operator: None, release: RealNodes, launched: Launched
):
    places = [(node, shared_folder(release)) for node in release.names]
    with small_volumes(release, *places) as fill:
        fill()
        with launched("--steps=300", "--timeout=300") as run:
            said, errors = run.communicate(timeout=400)
    assert 70 == run.returncode, (said, errors)
    assert "failed" == json.loads(said)["ending"]
    assert f"cannot write /runs/{run.name}: No space left on device" in errors, (said, errors)
    assert "Traceback" not in errors
    until(lambda: not release.pods(RUNS), PATIENCE)
