"""Nodes that run containers, made by nodes.sh, and what tests ask of them."""

import contextlib
import fcntl
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from helm_python import Config
from kubernetes import client, config

HERE = Path(__file__).parent
SCRIPT, IMAGES = HERE / "nodes.sh", HERE / "images.sh"
PATIENCE = 240.0
"""Seconds, of a machine on which others work, too; goals are measured by `benchmarks pods`."""
UP_SECONDS, IMAGES_SECONDS, ALONE_SECONDS = 480, 540, 420
WORK = Path(os.environ.get("LOCKSTEP_NODES", "/tmp/lockstep-nodes"))
REGISTRY = "localhost"


def missing() -> str:
    """Why there are no such nodes here, as a reason for a skip; empty = there can be."""
    said = subprocess.run([SCRIPT, "unasked"], capture_output=True, text=True, check=False).stdout
    return "; ".join(said.split("\n")[:3]).strip("; ")


class RealNodes:
    """Two nodes, Ready.

    Attributes:
        kubeconfig: Of the administrator.
        names: Of the nodes.
        core: Pods, nodes and what else there is of the core API.
        stay: Somebody made them by hand: what is on them is taken away after the tests.
    """

    def __init__(self, kubeconfig: Path, count: int, *, stay: bool = False) -> None:
        self.stay = stay
        self.kubeconfig = kubeconfig
        self.names = tuple(f"node-{number}" for number in range(count))
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings)
        self.api = client.ApiClient(settings)
        self.core = client.CoreV1Api(self.api)

    def helm(self, namespace: str) -> Config:
        """Helm, as the administrator."""
        return Config(kubeconfig_path=str(self.kubeconfig), namespace=namespace)

    def power_off(self, node: str) -> None:
        """Nothing of the node says goodbye."""
        _script("node_down", node.rpartition("-")[2])

    def power_on(self, node: str) -> None:
        """It starts, with what was on its disk; until it is Ready."""
        _script("node_up", node.rpartition("-")[2])
        until(lambda: node in self.ready(), 120)

    def ready(self) -> set[str]:
        """Names of the nodes that are Ready."""
        return {
            node.metadata.name
            for node in self.core.list_node().items
            if any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)
        }

    def pods(self, namespace: str, part: str = "") -> list[Any]:
        """Pods that nobody deletes, of a part of the release."""
        chosen = f"app.kubernetes.io/component={part}" if part else ""
        found = self.core.list_namespaced_pod(namespace, label_selector=chosen).items
        return [pod for pod in found if pod.metadata.deletion_timestamp is None]

    def inside(self, node: str, *command: str) -> str:
        """What a command says in the namespaces of the node, as root; /proc is of its processes."""
        first = (self.kubeconfig.parent / node / "first").read_text().strip()
        return subprocess.run(
            ["nsenter", "-t", first, "-n", "-m", "-p", *command],
            check=True, capture_output=True, text=True, timeout=60,
        ).stdout  # fmt: skip

    def containerd(self, node: str, *words: str) -> str:
        """What `ctr` says of the images and containers of the node's kubelet."""
        return self.inside(node, "ctr", "--namespace", "k8s.io", *words)

    def log(self, pod: Any, container: str) -> str:
        """What a pod has said."""
        return str(self.core.read_namespaced_pod_log(
            pod.metadata.name, pod.metadata.namespace, container=container
        ))  # fmt: skip

    def root(self, node: str) -> Path:
        """The node's file system, seen from outside."""
        work = self.kubeconfig.parent
        return Path(f"/proc/{(work / node / 'first').read_text().strip()}/root")


def is_ready(pod: Any) -> bool:
    """Whether all containers of a pod are."""
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ())


def page(pod: Any, port: int, path: str = "/metrics") -> str:
    """What a pod serves; nothing where it does not answer. Pods are reached from this machine."""
    url = f"http://{pod.status.pod_ip}:{port}{path}"
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as told:
        return str(told.read().decode())
    return ""


def series(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    """Labels and value of every series of a name on a page."""
    found = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
    return [(dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)) for labels, value in found]


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """Nobody else's tests begin to use nodes of this machine; False = others had them too long."""
    with open(f"{WORK}.lock", "w") as lock:
        deadline = time.monotonic() + ALONE_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    yield False
                    return
                time.sleep(1)
            else:
                yield True
                return


@contextlib.contextmanager
def real_nodes(count: int = 2) -> Iterator[RealNodes]:
    """Images as the tree is now, and nodes that have them; nothing is left of these afterwards."""
    subprocess.run([IMAGES], check=True, timeout=IMAGES_SECONDS, stdout=subprocess.DEVNULL)
    try:
        said = _script("up", str(count))
        yield RealNodes(Path(said.strip().rpartition("=")[2]), count)
    finally:
        _script("down")


def running() -> RealNodes | None:
    """Nodes that somebody made by hand (`nodes.sh up`): tests take these, and leave them there."""
    kubeconfig = WORK / "admin.kubeconfig"
    if not kubeconfig.exists():
        return None
    count = len(list(kubeconfig.parent.glob("node-[0-9]")))
    return RealNodes(kubeconfig, count, stay=True)


def left() -> str:
    """What there is of nodes on this machine, a line each."""
    return _script("left")


def until(
    true: Callable[[], Any], seconds: float = 60.0, why: Callable[[], object] = lambda: ""
) -> float:
    """Wait for it, and say how long that was, in seconds.

    Raises:
        TimeoutError: It did not become true in time; with what `why` says then.
    """
    begun = time.monotonic()
    while not true():
        if time.monotonic() - begun > seconds:
            raise TimeoutError(f"not in {seconds:g} s: {why()}")
        time.sleep(0.2)
    return time.monotonic() - begun


def _script(*words: str) -> str:
    done = subprocess.run(
        [SCRIPT, *words], capture_output=True, text=True, timeout=UP_SECONDS, check=False,
        env=dict(os.environ),
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"nodes.sh {words[0]}: {done.stderr[-2000:]}")
    return done.stdout
