"""The page beside prometheus_client, and the host's part beside Debian's node_exporter, in turns.

LOCKSTEP_BENCH_SECONDS shortens the run.
"""

import contextlib
import http.client
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import prometheus_client
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from lockstep.collector.contract.metrics import METRICS, Sample
from lockstep.collector.exporter.page import Renderer
from lockstep.workloads.launch.joining.reachable import free_port
from tests.benchmarks.collector_node import Node, cpu_of, get, quantile, resident_of

SECONDS = float(os.environ.get("LOCKSTEP_BENCH_SECONDS", "100"))
RENDERS = 100
PROGRAM = "prometheus-node-exporter"
PARTS = (
    "cpu", "meminfo", "loadavg", "pressure", "diskstats", "softnet", "netdev", "netstat", "vmstat",
    "thermal_zone", "timex", "uname", "stat",
)  # fmt: skip
OURS = (
    "procfs", "diskstats", "softnet", "tcp", "netdev", "vmstat", "cgroup_tree", "thermal",
    "thermal_throttle", "kernel_clock", "identity", "own_process",
)  # fmt: skip


def main() -> dict[str, float]:
    """Measure both."""
    return _rendering() | _host()


class _Peer(Collector):
    """The families of a page for prometheus_client."""

    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        yield from self._families


def _rendering() -> dict[str, float]:
    """The whole page of a node, all of it new; its families in prometheus_client."""
    with Node() as node:
        time.sleep(3)
        connection = node.connect()
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
    families = list(text_string_to_metric_families(text))
    samples = [
        Sample(METRICS[one.name], tuple(map(str, one.labels.values())), one.value)
        for family in families for one in family.samples if one.name in METRICS
    ]  # fmt: skip
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Peer(families))
    renderer = Renderer()
    times: dict[str, list[float]] = {"page": [], "prometheus_client": []}
    for _ in range(RENDERS):
        for name, call in (
            ("page", lambda: renderer.render([list(samples)])),
            ("prometheus_client", lambda: prometheus_client.generate_latest(registry)),
        ):
            began, wall = time.thread_time(), time.perf_counter()
            call()
            times[name].append(time.perf_counter() - wall)
            times.setdefault(f"{name}_cpu", []).append(time.thread_time() - began)
    figures = {f"{name}_p50_ms": 1e3 * quantile(each, 0.5) for name, each in times.items()}
    peer, ours = figures["prometheus_client_cpu_p50_ms"], figures["page_cpu_p50_ms"]
    return {"series": float(len(samples))} | figures | {"prometheus_client_over_ours": peer / ours}


def _host() -> dict[str, float]:
    """The host's page beside node_exporter's, one scrape a second each."""
    program = shutil.which(PROGRAM)
    if program is None:
        return {}
    ports = [free_port(), free_port()]
    commands = {
        "node_exporter": [
            program, f"--web.listen-address=127.0.0.1:{ports[0]}", "--collector.disable-defaults",
            "--web.max-requests=0", *(f"--collector.{part}" for part in PARTS),
        ],
        "our_host_part": [
            sys.executable, "-m", "lockstep.collector", "--listen", f"127.0.0.1:{ports[1]}",
            "--sources", ",".join(OURS),
        ],
    }  # fmt: skip
    figures: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        running = {}
        for (name, command), port in zip(commands.items(), ports, strict=True):
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            running[name] = (process.pid, connection)
        time.sleep(4)
        cpu = {name: cpu_of(pid) for name, (pid, _) in running.items()}
        times: dict[str, list[float]] = {name: [] for name in running}
        for _ in range(max(5, int(SECONDS / 5))):
            for name, (_, connection) in running.items():
                began = time.perf_counter()
                get(connection)
                times[name].append(time.perf_counter() - began)
            time.sleep(1)
        for name, (pid, _) in running.items():
            figures[f"{name}_client_p50_ms"] = 1e3 * quantile(times[name], 0.5)
            figures[f"{name}_client_p99_ms"] = 1e3 * quantile(times[name], 0.99)
            spent = cpu_of(pid) - cpu[name]
            figures[f"{name}_cpu_ms_per_second"] = 1e3 * spent / len(times[name])
            figures[f"{name}_resident_mb"] = resident_of(pid)
    return figures
