"""Two nodes that run containers: sizes of images, `helm install` to all Ready, a run, uninstall.

Nodes and images are made first and are not counted: as on a cluster that is there. The run has a
slow rank from the 2,200th step on and is scraped every 5 s; onset is the step's count on the page
of its collector, which is asked five times a second.
"""

import json
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

from lockstep.collector.contract.kubernetes import HEALTHY
from lockstep.workloads.spec import Layout, RunSpec
from tests.cluster.pods.real_nodes import (
    RealNodes,
    is_ready,
    left,
    missing,
    page,
    real_nodes,
    series,
    until,
)
from tests.cluster.pods.release import COLLECTORS, VALUES, Prometheus, all_ready, install, uninstall
from tests.cluster.pods.release import left as left_of
from tests.cluster.pods.runs import (
    begun,
    conditions,
    launching,
    mpi_operator,
    plain_jobs,
    pods_of,
    ranks,
)

PARTS = ("collector", "watch", "dashboard", "nodes", "workloads")
BASE = "docker.io/library/python:3.11.11-slim-bookworm"
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep" / "images"
SCRAPE_SECONDS, STEP_SECONDS, ONSET, STEPS = 5, 0.1, 2200, 3200
"""What is usual is learned from 40 scrapes."""
GOALS = {
    "a rank's series after its pod runs (s)": 5.0,
    "onset to the node's condition at 5 s scrapes (s)": 60.0,
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
        figures = {**_sizes(), **_installed(nodes), **_run(nodes)}
    figures["traces of the nodes after they are taken down"] = float(len(left().split("\n")) - 1)
    return figures


def _sizes() -> dict[str, float]:
    base = _bytes(BASE)
    found = {"base (MB)": base / 1e6}
    for part in PARTS:
        name = f"{part} above its base{', without CUDA' if part == 'workloads' else ''} (MB)"
        found[name] = (_bytes(f"localhost/lockstep-{part}:0.2.0") - base) / 1e6
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


def _run(nodes: RealNodes) -> dict[str, float]:
    interval = {
        "watch": {**VALUES["watch"], "interval": SCRAPE_SECONDS},
        "monitoring": {**VALUES["monitoring"], "interval": f"{SCRAPE_SECONDS}s"},
    }
    install(nodes, {**VALUES, **interval})
    until(lambda: all_ready(nodes), 300)
    first = _first_series(nodes)
    # Of four ranks: two have no majority, and the sequential test judges neither.
    words = ("--ranks-per-node=2", f"--device-seconds={STEP_SECONDS}", f"--steps={STEPS}",
             "--timeout=3000", f"--fault=compute:rank=2,factor=2,from={ONSET}")  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        Prometheus(nodes, SCRAPE_SECONDS),
        mpi_operator(nodes),
        launching(nodes, Path(folder, "run"), *words) as run,
    ):
        name = begun(nodes, run)
        node = ranks(nodes, name)[1]
        [collector] = [
            pod for pod in nodes.pods(COLLECTORS, "collector") if pod.spec.node_name == node
        ]

        def told() -> list[float]:
            found = series(page(collector, 9410), "lockstep_train_steps_total")
            return [value for labels, value in found if labels["run"] == name]

        until(lambda: max(told(), default=0) >= ONSET or run.poll() is not None, 1500)
        condition = until(lambda: conditions(nodes, node).get(HEALTHY) == "False", 600)
    uninstall(nodes)
    until(lambda: [] == left_of(nodes), 300)
    return {
        "a rank's series after its pod runs (s)": first,
        "onset to the node's condition at 5 s scrapes (s)": condition,
    }


def _first_series(nodes: RealNodes) -> float:
    """From a pod that runs to its rank on the page of its node: seconds, of the later of two.

    Of Jobs whose pods are the ranks: an MPIJob's wait for the launcher first.
    """
    spec = RunSpec("gpt-20260101t000000-a1b2", "gpt", Layout(2, 1, 2), 50, 0)
    pages = {pod.spec.node_name: pod for pod in nodes.pods(COLLECTORS, "collector")}
    running: dict[int, float] = {}
    told: dict[int, float] = {}

    def both() -> bool:
        now = time.monotonic()
        for rank, node in ranks(nodes, spec.run).items():
            running.setdefault(rank, now)
            found = series(page(pages[node], 9410), "lockstep_rank_up")
            if any(labels["run"] == spec.run for labels, _ in found):
                told.setdefault(rank, time.monotonic())
        return len(told) == spec.layout.nodes

    with plain_jobs(nodes, spec):
        until(both, 300)
        until(lambda: not ranks(nodes, spec.run), 300)
    until(lambda: not pods_of(nodes, spec.run), 300)
    return max(told[rank] - running[rank] for rank in told)
