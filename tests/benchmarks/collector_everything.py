"""What the collector costs with every source on: GPUs, ranks, network, NCCL, torch, pods, XIDs.

Made up are GPUs, ranks, the /sys of ten 400G ports and 112 processors, ethtool's drivers,
/proc/net/dev, and all that `collector_surroundings` serves; the rest of /proc and the cgroups are
this machine's. There is no hwmon, and no DCGM, dcgm-exporter, capture or emulated GPU: those stand
in for NVML.
LOCKSTEP_BENCH_SECONDS shortens both parts (100 s: ten scrapers at 1 Hz make 1,000 requests).
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

from lockstep.collector.contract import metrics as m
from tests.benchmarks.collector import SCRAPERS, SECONDS, SELDOM_SECONDS, SETTLE_SECONDS, scrape
from tests.benchmarks.collector_node import GPUS, ROOT, START_SECONDS, Node, get, quantile

SOURCES = (
    "rank_ring", "cgroup", "schedstat", "nvml", "nccl_ras", "flight_recorder", "xid", "kmsg",
    "pod_resources", "allocation", "nccl_inspector", "procfs", "diskstats", "infiniband",
    "infiniband_errors", "netdev", "ethtool", "softnet", "tcp", "vmstat", "cgroup_tree", "thermal",
    "thermal_throttle", "kernel_clock", "identity", "own_process",
)  # fmt: skip
PATIENCE_SECONDS = 60.0
GOALS = {
    "series_dropped": 0.0,
    "source_errors": 0.0,
    "client_p99_ms": 5.0,
    "cpu_percent_one_scrape_a_10_s": 2.0,
    "resident_mb": 100.0,
}


def main() -> dict[str, float]:
    """Measure it; the load of the machine is one of the figures."""
    load = os.getloadavg()[0]
    with _node() as node:
        _until_all_is_up(node)
        time.sleep(SETTLE_SECONDS)
        figures = _serving(node) | _seldom(node)
        series = node.series()
        _check(series)
    return {
        "load_1m_before": load,
        "series": float(len(series)),
        "series_dropped": _total(series, m.SERIES_DROPPED),
        "source_errors": _total(series, m.SOURCE_ERRORS),
        **figures,
        "load_1m_after": os.getloadavg()[0],
    }


@contextlib.contextmanager
def _node() -> Iterator[Node]:
    """The collector with everything around it, in other processes than its own."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        around = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.collector_surroundings", str(folder),
             str(os.getpid())], stdin=subprocess.PIPE, cwd=ROOT,
        )  # fmt: skip
        stack.callback(_end, around)
        deadline = time.monotonic() + START_SECONDS
        while not (folder / "ready").exists():
            if around.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the servers around the collector did not start")
            time.sleep(0.02)
        flags = {
            "--sys": folder / "sys", "--kmsg": folder / "kmsg", "--state-dir": folder / "state",
            "--pod-resources": folder / "kubelet.sock", "--inspector-dir": folder / "inspector",
            "--ras": f"127.0.0.1:{(folder / 'ready').read_text()}", "--ras-polling": "always",
        }  # fmt: skip
        arguments = [str(part) for flag in flags.items() for part in flag]
        program = ("tests.benchmarks.collector_program", str(folder / "proc/net/dev"))
        with Node(GPUS, None, *arguments, program=program) as node:
            for dump in (folder / "dumps").iterdir():
                dump.replace(node.folder / dump.name)
            yield node


def _end(process: subprocess.Popen[bytes]) -> None:
    """It ends with its standard input, or is ended."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _serving(node: Node) -> dict[str, float]:
    """Ten keep-alive scrapers at 1 Hz that ask as Prometheus does."""
    cpu, began = node.cpu(), time.monotonic()
    with ThreadPoolExecutor(SCRAPERS) as pool:
        phases = [index / SCRAPERS for index in range(SCRAPERS)]
        client = [one for one, _ in chain(*pool.map(partial(scrape, node), phases))]
    cpu, wall = node.cpu() - cpu, time.monotonic() - began
    return {
        "requests": float(len(client)),
        "client_p50_ms": 1e3 * quantile(client, 0.5),
        "client_p99_ms": 1e3 * quantile(client, 0.99),
        "cpu_percent_ten_scrapers_at_1_hz": 100 * cpu / wall,
    }


def _seldom(node: Node) -> dict[str, float]:
    """1 Hz sampling and one scrape a 10 s."""
    connection = node.connect()
    before = _total(node.series(), m.GPU_XID_ERRORS)
    cpu, began = node.cpu(), time.monotonic()
    for _ in range(max(2, int(SECONDS / SELDOM_SECONDS))):
        get(connection)
        time.sleep(SELDOM_SECONDS)
    cpu, wall = node.cpu() - cpu, time.monotonic() - began
    connection.close()
    assert _total(node.series(), m.GPU_XID_ERRORS) > before, "no XID came while it was measured"
    return {
        "cpu_percent_one_scrape_a_10_s": 100 * cpu / wall,
        "resident_mb": node.resident(),
        "proportional_mb": node.proportional(),
    }


def _until_all_is_up(node: Node) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _down(series := node.series()) and time.monotonic() < deadline:
        time.sleep(0.5)
    _check(series)


def _check(series: dict[str, float]) -> None:
    """Every source is up, and the page tells of what it read."""
    down = _down(series)
    assert not down, f"not up: {', '.join(down)}"
    names = {name.partition("{")[0] for name in series}
    for metric in (m.GPU_XID_ERRORS, m.NCCL_COMMUNICATORS, m.NCCL_FR_DUMP_AGE, m.RANK_UP):
        assert metric.name in names, f"the page has no {metric.name}"
    assert any('pod="gpt-7"' in name for name in series), "the page names no pod"


def _down(series: dict[str, float]) -> list[str]:
    return [one for one in SOURCES if series.get(f'{m.SOURCE_UP.name}{{source="{one}"}}') != 1]


def _total(series: dict[str, float], metric: m.Metric) -> float:
    start = f"{metric.name}{{"
    return sum(value for name, value in series.items() if name.startswith(start))
