"""Two nodes that run containers: sizes of images, `helm install` to all Ready, uninstall.

Nodes and images are made first and are not counted: as on a cluster that is there.
"""

import json
import os
import subprocess
import time
import warnings
from pathlib import Path

from tests.cluster.pods.real_nodes import RealNodes, is_ready, left, missing, real_nodes, until
from tests.cluster.pods.release import COLLECTORS, all_ready, install, uninstall
from tests.cluster.pods.release import left as left_of

PARTS = ("collector", "watch", "dashboard", "nodes", "workloads")
BASE = "docker.io/library/python:3.11.11-slim-bookworm"
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep" / "images"
GOALS = {
    "install to all Ready on two nodes (s)": 20.0,
    "uninstall until nothing is there (s)": 20.0,
    "objects left after uninstall": 0.0,
    "traces of the nodes after they are taken down": 0.0,
    "collector above its base (MB)": 60.0,
    "watch above its base (MB)": 350.0,
    "dashboard above its base (MB)": 450.0,
    "workloads above its base, without CUDA (MB)": 1000.0,
}


def main() -> dict[str, float]:
    """The figures.

    Raises:
        SystemExit: There are no such nodes here.
    """
    if reason := missing():
        raise SystemExit(reason)
    warnings.filterwarnings("ignore", "Unverified HTTPS request")
    with real_nodes(2) as nodes:
        figures = {**_sizes(), **_installed(nodes)}
    figures["traces of the nodes after they are taken down"] = float(len(left().split("\n")) - 1)
    return figures


def _sizes() -> dict[str, float]:
    base = _bytes(BASE)
    found = {"base (MB)": base / 1e6}
    for part in PARTS:
        name = f"{part} above its base{', without CUDA' if part == 'workloads' else ''} (MB)"
        found[name] = (_bytes(f"localhost/lockstep-{part}:0.1.0") - base) / 1e6
    return found


def _bytes(image: str) -> float:
    """All layers, not compressed."""
    store = ("--root", KEPT / "store", "--runroot", KEPT / "run", "--storage-driver", "overlay",
             "--storage-opt", "overlay.skip_mount_home=true")  # fmt: skip
    said = subprocess.run(
        ["buildah", *store, "images", "--json", image], check=True, capture_output=True, text=True
    ).stdout
    [found] = json.loads(said)
    number, unit = found["size"].split()
    return float(number) * {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit.upper()]


def _installed(nodes: RealNodes) -> dict[str, float]:
    # Twice: the first time every page of the images is read from the disk.
    for _ in range(2):
        begun = time.monotonic()
        install(nodes)
        until(lambda: 2 == sum(map(is_ready, nodes.pods(COLLECTORS, "collector"))), 300)
        collectors = time.monotonic() - begun
        until(lambda: all_ready(nodes), 300)
        everything = time.monotonic() - begun
        begun = time.monotonic()
        uninstall(nodes)
        until(lambda: [] == left_of(nodes), 300)
        gone = time.monotonic() - begun
    return {
        "install to collectors Ready on two nodes (s)": collectors,
        "install to all Ready on two nodes (s)": everything,
        "uninstall until nothing is there (s)": gone,
        "objects left after uninstall": float(len(left_of(nodes))),
    }
