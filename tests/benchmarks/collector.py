"""What the collector costs while it serves: the real program, eight GPUs on our libnvidia-ml.

CPU and memory are those of all its processes. The driver is not subtracted: a call of our library
reads some memory and returns, which is less than calling it costs.
LOCKSTEP_BENCH_SECONDS shortens the run (100 s: ten scrapers at 1 Hz make 1,000 requests).
"""

import gzip
import json
import os
import random
import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

from lockstep.collector.contract import metrics as m
from tests.benchmarks.collector_node import THROTTLED_REASON, Node, get, quantile

SCRAPERS = 10
SECONDS = float(os.environ.get("LOCKSTEP_BENCH_SECONDS", "100"))
SETTLE_SECONDS = 5.0
"""Start-up is not what it costs to run."""
SELDOM_SECONDS = 10.0
GPUS_AND_HOST = (
    "nvml", "procfs", "diskstats", "netdev", "softnet", "tcp", "vmstat", "cgroup_tree", "thermal",
    "thermal_throttle", "kernel_clock", "identity", "own_process",
)  # fmt: skip
"""Sources of GPUs and host, without ranks, NCCL, pods, XIDs and RDMA."""
GOALS = {
    "server_p99_ms": 5.0,
    "client_p99_ms": 5.0,
    "snapshot_to_page_p99_ms": 5.0,
    "cpu_percent_gpus_and_host": 1.0,
    "cpu_percent_one_scrape_a_10_s": 2.0,
    "resident_mb": 80.0,
    "throttled_seconds_lost": 1e-6,
}
_DURATION = re.compile(rf"^{m.SCRAPE_DURATION.name} (\S+)$".encode(), re.MULTILINE)


def main() -> dict[str, float]:
    """Measure both; the load of the machine is one of the figures."""
    figures = {"load_1m_before": os.getloadavg()[0]}
    figures |= _serving()
    figures |= _gpus_and_host()
    figures |= _seldom()
    return figures | {"load_1m_after": os.getloadavg()[0]}


def _serving() -> dict[str, float]:
    """Ten keep-alive scrapers at 1 Hz that ask as Prometheus does."""
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder) / "times.json"
        with Node(times=noted) as node:
            time.sleep(SETTLE_SECONDS)
            series = len(node.series())
            cpu, began = node.cpu(), time.monotonic()
            with ThreadPoolExecutor(SCRAPERS) as pool:
                phases = [index / SCRAPERS for index in range(SCRAPERS)]
                scrapes = list(chain(*pool.map(partial(scrape, node), phases)))
            cpu, wall = node.cpu() - cpu, time.monotonic() - began
        server = json.loads(noted.read_text())[1:]  # the first was ours
    client = [seconds for seconds, _ in scrapes]
    rendered = [
        float(found[1])
        for body in {body for _, body in scrapes}
        if (found := _DURATION.search(gzip.decompress(body)))
    ]
    return {
        "series": float(series),
        "requests": float(len(client)),
        "pages": float(len(rendered)),
        "server_p50_ms": 1e3 * quantile(server, 0.5),
        "server_p99_ms": 1e3 * quantile(server, 0.99),
        "client_p50_ms": 1e3 * quantile(client, 0.5),
        "client_p99_ms": 1e3 * quantile(client, 0.99),
        "snapshot_to_page_p50_ms": 1e3 * quantile(rendered, 0.5),
        "snapshot_to_page_p99_ms": 1e3 * quantile(rendered, 0.99),
        "cpu_percent_ten_scrapers_at_1_hz": 100 * cpu / wall,
    }


def _gpus_and_host() -> dict[str, float]:
    """1 Hz sampling and one scrape a 10 s of GPUs and host alone."""
    with Node(8, None, "--sources", ",".join(GPUS_AND_HOST)) as node:
        time.sleep(SETTLE_SECONDS)
        connection = node.connect()
        cpu, began = node.cpu(), time.monotonic()
        for _ in range(max(1, int(SECONDS / 25))):
            time.sleep(SELDOM_SECONDS)
            get(connection)
        cpu, wall = node.cpu() - cpu, time.monotonic() - began
        connection.close()
    return {"cpu_percent_gpus_and_host": 100 * cpu / wall}


def _seldom() -> dict[str, float]:
    """1 Hz sampling and one scrape a 10 s, while the driver holds the GPUs back now and then."""
    dice = random.Random(1)
    with Node() as node:
        time.sleep(SETTLE_SECONDS)
        connection = node.connect()
        before, added = _throttled(node), 0.0
        cpu, calls, began = node.cpu(), node.mock.state.calls, time.monotonic()
        for _ in range(max(1, int(SECONDS / 25))):
            get(connection)
            over = time.monotonic() + SELDOM_SECONDS
            while time.monotonic() < over:
                nanoseconds = dice.randrange(100_000_000)
                node.throttle(nanoseconds)
                added += nanoseconds / 1e9
                time.sleep(0.1)
        cpu, wall = node.cpu() - cpu, time.monotonic() - began
        calls = node.mock.state.calls - calls
        resident, proportional = node.resident(), node.proportional()
        time.sleep(3)  # until the last of it was read
        after = _throttled(node)
        connection.close()
    lost = max(abs(added - (after[gpu] - before[gpu])) for gpu in before)
    return {
        "cpu_percent_one_scrape_a_10_s": 100 * cpu / wall,
        "driver_calls_per_second": calls / wall,
        "resident_mb": resident,
        "proportional_mb": proportional,
        "throttled_seconds": added,
        "throttled_seconds_lost": lost,
    }


def _throttled(node: Node) -> dict[str, float]:
    """Seconds by series of one reason, a GPU each."""
    reason = f'reason="{THROTTLED_REASON}"'
    return {
        name: value for name, value in node.series().items()
        if name.startswith(m.GPU_CLOCK_EVENT_SECONDS.name) and reason in name
    }  # fmt: skip


def scrape(node: Node, phase: float) -> list[tuple[float, bytes]]:
    """One scraper's seconds and bodies."""
    found = []
    connection = node.connect()
    due = time.monotonic() + phase
    for _ in range(int(SECONDS)):
        time.sleep(max(0.0, due - time.monotonic()))
        began = time.perf_counter()
        body = get(connection)
        found.append((time.perf_counter() - began, body))
        due += 1.0
    connection.close()
    return found
