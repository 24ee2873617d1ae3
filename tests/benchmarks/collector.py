"""The cost of the collector's page: serving, rendering, CPU; peers beside it in the same run.

LOCKSTEP_BENCH_SECONDS shortens the run (100 s: ten scrapers at 1 Hz make 1,000 requests).
"""

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import prometheus_client
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from collector.config import Config
from collector.contract.metrics import METRICS, Kind, Sample
from collector.exporter.page import Renderer
from tests.benchmarks.collector_node import SERIES, exporter_of

SCRAPERS = 10
SECONDS = float(os.environ.get("LOCKSTEP_BENCH_SECONDS", "100"))
RENDERS = 200
NODE_EXPORTER = "prometheus-node-exporter"
NODE_EXPORTER_PARTS = (
    "cpu", "meminfo", "loadavg", "pressure", "diskstats", "softnet", "netdev", "netstat", "vmstat",
    "thermal_zone", "timex", "uname", "stat",
)  # fmt: skip


def main() -> dict[str, float]:
    """Measure everything; the load of the machine is one of the figures."""
    figures = {"load_1m_before": os.getloadavg()[0], "series": float(SERIES)}
    figures |= _rendering()
    figures |= _serving()
    figures |= _idling()
    figures |= _host_part()
    return figures | {"load_1m_after": os.getloadavg()[0]}


def quantile(times: list[float], share: float) -> float:
    """The smallest time that so many do not exceed."""
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def _rendering() -> dict[str, float]:
    """Snapshot to page, and prometheus_client on the same samples, in turns."""
    sampler, _ = exporter_of(Config(series_cap=10_000, lockstep_dir=Path("/none")))
    sampler.start()
    sampler.wait_ready()
    samples = tuple(sample for part in sampler.snapshot() for sample in part)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Peer(samples))
    whole, renderer = Renderer(), Renderer()
    times: dict[str, list[float]] = {"page": [], "snapshot_to_page": [], "prometheus_client": []}
    for _ in range(RENDERS):
        for name, call in (
            ("page", lambda: whole.render([list(samples)])),
            ("snapshot_to_page", lambda: renderer.render(sampler.snapshot())),
            ("prometheus_client", lambda: prometheus_client.generate_latest(registry)),
        ):
            began = time.thread_time()
            wall = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - wall)
            times.setdefault(f"{name}_cpu", []).append(time.thread_time() - began)
    sampler.stop()
    figures = {f"{name}_p50_ms": 1e3 * quantile(each, 0.5) for name, each in times.items()}
    figures["snapshot_to_page_p99_ms"] = 1e3 * quantile(times["snapshot_to_page"], 0.99)
    peer, ours = figures["prometheus_client_cpu_p50_ms"], figures["page_cpu_p50_ms"]
    return figures | {"prometheus_client_over_ours": peer / ours}


class _Peer(Collector):
    """The same samples for prometheus_client."""

    def __init__(self, samples: tuple[Sample, ...]) -> None:
        self._families: dict[str, list[Sample]] = {}
        for sample in samples:
            self._families.setdefault(sample.metric.name, []).append(sample)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for name, samples in self._families.items():
            row = METRICS[name]
            kind = CounterMetricFamily if row.kind is Kind.COUNTER else GaugeMetricFamily
            family = kind(name, row.help, labels=row.labels)
            for sample in samples:
                family.add_metric(sample.labels, sample.value)
            yield family


def _serving() -> dict[str, float]:
    """Ten keep-alive scrapers at 1 Hz."""
    with _node() as (address, process):
        client: list[float] = []
        threads = [
            threading.Thread(target=_scrape, args=(address, index / SCRAPERS, client))
            for index in range(SCRAPERS)
        ]
        cpu = _cpu(process.pid)
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cpu, wall = _cpu(process.pid) - cpu, time.monotonic() - began
        rest, _ = process.communicate(timeout=20)
        server = json.loads(rest)
    return {
        "requests": float(len(client)),
        "server_p50_ms": 1e3 * quantile(server, 0.5),
        "server_p99_ms": 1e3 * quantile(server, 0.99),
        "client_p50_ms": 1e3 * quantile(client, 0.5),
        "client_p99_ms": 1e3 * quantile(client, 0.99),
        "cpu_percent_ten_scrapers_at_1_hz": 100 * cpu / wall,
    }


def _idling() -> dict[str, float]:
    """1 Hz sampling and one scrape a 10 s."""
    with _node() as (address, process):
        time.sleep(5)  # start-up is not what it costs to run
        cpu, began = _cpu(process.pid), time.monotonic()
        connection = http.client.HTTPConnection(*address, timeout=10)
        for _ in range(max(2, int(SECONDS / 20))):
            _get(connection)
            time.sleep(10)
        cpu, wall = _cpu(process.pid) - cpu, time.monotonic() - began
        rss = _rss(process.pid)
        process.communicate(timeout=20)
    return {"cpu_percent_one_scrape_a_10_s": 100 * cpu / wall, "resident_mb": rss / 1e6}


def _host_part() -> dict[str, float]:
    """The host's page beside Debian's node_exporter, one scrape a second each, in turns."""
    program = shutil.which(NODE_EXPORTER)
    if program is None:
        return {}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    parts = [f"--collector.{part}" for part in NODE_EXPORTER_PARTS]
    commands = {
        "node_exporter": [
            program, f"--web.listen-address=127.0.0.1:{port}", "--collector.disable-defaults",
            "--web.max-requests=0", *parts,
        ],
        "our_host_part": [
            sys.executable, "-m", "collector", "--listen", f"127.0.0.1:{port + 1}",
            "--lockstep-dir", "/none",
        ],
    }  # fmt: skip
    figures: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        running = {}
        for index, (name, command) in enumerate(commands.items()):
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            running[name] = (process, ("127.0.0.1", port + index))
        time.sleep(3)
        connections = {
            name: http.client.HTTPConnection(*address, timeout=10)
            for name, (_, address) in running.items()
        }
        cpu = {name: _cpu(process.pid) for name, (process, _) in running.items()}
        times: dict[str, list[float]] = {name: [] for name in running}
        for _ in range(max(10, int(SECONDS / 4))):
            for name, connection in connections.items():
                began = time.perf_counter()
                _get(connection)
                times[name].append(time.perf_counter() - began)
            time.sleep(1)
        for name, (process, _) in running.items():
            spent = _cpu(process.pid) - cpu[name]
            figures[f"{name}_client_p50_ms"] = 1e3 * quantile(times[name], 0.5)
            figures[f"{name}_client_p99_ms"] = 1e3 * quantile(times[name], 0.99)
            figures[f"{name}_cpu_ms_per_second"] = 1e3 * spent / len(times[name])
            figures[f"{name}_resident_mb"] = _rss(process.pid) / 1e6
    return figures


@contextlib.contextmanager
def _node() -> Iterator[tuple[tuple[str, int], subprocess.Popen[bytes]]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.collector_node"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        host, port = json.loads(process.stdout.readline())
        yield (host, port), process
    finally:
        process.kill()
        process.wait()


def _scrape(address: tuple[str, int], phase: float, times: list[float]) -> None:
    connection = http.client.HTTPConnection(*address, timeout=10)
    due = time.monotonic() + phase
    for _ in range(int(SECONDS)):
        time.sleep(max(0.0, due - time.monotonic()))
        began = time.perf_counter()
        _get(connection)
        times.append(time.perf_counter() - began)
        due += 1.0
    connection.close()


def _get(connection: http.client.HTTPConnection) -> bytes:
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200
    return body


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _cpu(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss(pid: int) -> float:
    return int(_stat(pid)[21]) * float(os.sysconf("SC_PAGE_SIZE"))
