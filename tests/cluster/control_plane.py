"""A real Kubernetes API on the loopback: API server, controllers, scheduler, hollow nodes.

Hollow nodes are upstream's kubemark: the true code of the kubelet with a runtime that runs nothing.
No container runs here. The binaries come from tests/cluster/build.sh.
"""

import contextlib
import json
import os
import secrets
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lockstep.terminal.processes import die_with_parent
from lockstep.workloads.launch.joining.reachable import free_port

VERSION = "1.20.2"
KEPT = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "lockstep" / f"kubernetes-{VERSION}"
)  # fmt: skip
BINARIES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubemark")
READY_SECONDS = 90.0
GROUPS = ("system:serviceaccounts", "system:authenticated")


def missing() -> str:
    """Why there is no control plane here, as a reason for a skip; empty = there is one."""
    absent = [name for name in BINARIES if not os.access(KEPT / name, os.X_OK)]
    if absent:
        return f"no {', '.join(absent)}: tests/cluster/build.sh was not run, or failed"
    return ""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """One that runs.

    Attributes:
        url: Of the API server.
        folder: Where its files and logs lie.
        nodes: Names of the hollow nodes.
        tokens: `admin`, and `<namespace>:<service account>` -> its bearer token.
        pids: Of its processes, by name.
    """

    url: str
    folder: Path
    nodes: tuple[str, ...]
    tokens: Mapping[str, str]
    pids: dict[str, int]

    def kubeconfig(self, who: str = "admin") -> Path:
        """A kubeconfig of `admin`, or of a service account."""
        path = self.folder / f"{who.replace(':', '-')}.kubeconfig"
        if not path.exists():
            path.write_text(json.dumps(_kubeconfig(self.folder, self.url, self.tokens[who])))
            path.chmod(0o600)
        return path

    def get(self, path: str) -> bytes:
        """What the API server answers to its administrator."""
        return _get(self.url + path, self.tokens["admin"])


@contextlib.contextmanager
def control_plane(
    folder: Path, nodes: int = 4, accounts: Sequence[str] = (), gpus: int = 8
) -> Iterator[ControlPlane]:
    """One with so many hollow nodes, ready; everything that was started ends with it.

    Args:
        folder: An empty folder.
        nodes: How many.
        accounts: `<namespace>:<service account>` that get a token.
        gpus: `nvidia.com/gpu` that each node is said to have; 0 = none.
    """
    ports = iter(_free_ports(5 + 2 * nodes))
    etcd, peers, api, manager, scheduler = (next(ports) for _ in range(5))
    url = f"https://127.0.0.1:{api}"
    tokens = {who: secrets.token_hex(16) for who in ("admin", *accounts)}
    _write_keys(folder, url, tokens)
    names = tuple(f"hollow-{number}" for number in range(nodes))
    admin = folder / "admin.kubeconfig"
    started: dict[str, subprocess.Popen[bytes]] = {}

    def start(name: str, *command: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            started[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=folder, start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid(), signal.SIGKILL),
            )  # fmt: skip

    try:
        start(
            "etcd", "etcd", "--data-dir=etcd", f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-cluster=default=http://127.0.0.1:{peers}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}", "--unsafe-no-fsync",
        )  # fmt: skip
        start(
            "kube-apiserver", str(KEPT / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{etcd}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={api}", "--cert-dir=certs",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-signing-key-file=sa.key", "--service-account-key-file=sa.pub",
            "--authorization-mode=RBAC,Node", "--token-auth-file=tokens.csv",
            "--allow-privileged=true", "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount",
        )  # fmt: skip
        _until(started, lambda: _get(f"{url}/readyz", tokens["admin"]) == b"ok")
        start(
            "kube-controller-manager", str(KEPT / "kube-controller-manager"),
            f"--kubeconfig={admin}", "--leader-elect=false",
            "--service-account-private-key-file=sa.key",
            "--controllers=*,-csrsigning,-csrapproving", "--bind-address=127.0.0.1", "--port=0",
            f"--secure-port={manager}",
        )  # fmt: skip
        start(
            "kube-scheduler", str(KEPT / "kube-scheduler"), f"--kubeconfig={admin}",
            "--leader-elect=false", "--port=0", f"--secure-port={scheduler}",
            "--bind-address=127.0.0.1",
        )  # fmt: skip
        for name in names:
            start(
                name, str(KEPT / "kubemark"), "--morph=kubelet", f"--name={name}",
                f"--kubeconfig={admin}", f"--kubelet-port={next(ports)}",
                f"--kubelet-read-only-port={next(ports)}",
                "--node-labels=nvidia.com/gpu.present=true",
            )  # fmt: skip
        _until(started, lambda: _ready(url, tokens["admin"]) == set(names))
        for name in names if gpus else ():
            _advertise(url, tokens["admin"], name, gpus)
        yield ControlPlane(
            url, folder, names, tokens, {name: each.pid for name, each in started.items()}
        )
    finally:
        _end(started)


def _write_keys(folder: Path, url: str, tokens: Mapping[str, str]) -> None:
    for command in (
        ("genrsa", "-out", "sa.key", "2048"), ("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
    ):  # fmt: skip
        subprocess.run(("openssl", *command), cwd=folder, check=True, capture_output=True)
    lines = [f'{tokens["admin"]},admin,admin,"system:masters"']
    for who, token in tokens.items():
        namespace, _, _ = who.partition(":")
        if who != "admin":
            groups = ",".join((*GROUPS, f"system:serviceaccounts:{namespace}"))
            lines.append(f'{token},system:serviceaccount:{who},{who},"{groups}"')
    (folder / "tokens.csv").write_text("\n".join(lines) + "\n")
    (folder / "admin.kubeconfig").write_text(json.dumps(_kubeconfig(folder, url, tokens["admin"])))


def _kubeconfig(folder: Path, url: str, token: str) -> Mapping[str, object]:
    # The API server writes it as it starts, with the authority that signed it.
    authority = str(folder / "certs" / "apiserver.crt")
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "t",
        "clusters": [{"name": "t", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "t", "context": {"cluster": "t", "user": "u"}}],
    }  # fmt: skip


def _ready(url: str, token: str) -> set[str]:
    found = set()
    for node in json.loads(_get(f"{url}/api/v1/nodes", token))["items"]:
        states = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
        if states.get("Ready") == "True":
            found.add(node["metadata"]["name"])
    return found


def _advertise(url: str, token: str, node: str, gpus: int) -> None:
    """As the documentation of extended resources does it by hand."""
    path = "/status/capacity/nvidia.com~1gpu"
    _get(
        f"{url}/api/v1/nodes/{node}/status", token,
        json.dumps([{"op": "add", "path": path, "value": str(gpus)}]).encode(),
    )  # fmt: skip


def _get(url: str, token: str, patch: bytes | None = None) -> bytes:
    # Its certificate is its own; the token goes no further than the loopback.
    context = ssl._create_unverified_context()
    request = urllib.request.Request(
        url, patch, {"Authorization": f"Bearer {token}"}, method="PATCH" if patch else "GET"
    )
    if patch:
        request.add_header("Content-Type", "application/json-patch+json")
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        return bytes(answer.read())


def _until(started: Mapping[str, subprocess.Popen[bytes]], said: Callable[[], bool]) -> None:
    until = time.monotonic() + READY_SECONDS
    while True:
        with contextlib.suppress(OSError):
            if said():
                return
        gone = [name for name, each in started.items() if each.poll() is not None]
        if gone or time.monotonic() > until:
            raise RuntimeError(f"the control plane does not start; gone: {gone or 'none'}")
        time.sleep(0.1)


def _end(started: Mapping[str, subprocess.Popen[bytes]]) -> None:
    for each in reversed(started.values()):
        each.send_signal(signal.SIGTERM)
    for each in started.values():
        try:
            each.wait(5)
        except subprocess.TimeoutExpired:
            each.kill()
            each.wait()


def _free_ports(count: int) -> list[int]:
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)
