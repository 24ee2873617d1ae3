"""`lockstep watch` over 500 nodes of 8 GPUs, scraped every 5 s by a real Prometheus.

The watch runs on one core, the pages and Prometheus on the others. One rank has become slower by
half shortly before the watch begins, so that its cycles diagnose it and it writes an archive. The
first cycle also judges what was recorded before: it stands alone. Seconds are of the wall; CPU is
that of the whole process, its page and its archives included. WATCH_NODES in the environment makes
the fleet smaller.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks import prometheus_server
from tests.benchmarks.watch_pages import Cluster, served

NODES = int(os.environ.get("WATCH_NODES", "500"))
INTERVAL = 5.0
LEARNED = 50
"""Checks that are there when the watch begins: a stream learns for 40 before it is judged."""
SLOW_CHECKS = 6
"""The last of them, in which one rank is slow."""
CYCLE_COUNT = 6
SLOW_RANK, FACTOR = 1234 % (8 * NODES), 1.5
CORE = "0"
GOALS = {"cycle_seconds_worst": 5.0, "peak_megabytes": 300.0, "slow_rank_missed": 0.0}
CYCLES, SECONDS, CPU = (
    f"lockstep_analyzer_{name}"
    for name in ("cycles_total", "cycle_duration_seconds", "cpu_seconds_total")
)


def main() -> dict[str, float]:
    if shutil.which("prometheus") is None or shutil.which("taskset") is None:
        raise SystemExit("the benchmark needs Debian's package prometheus, and taskset")
    cluster = Cluster(NODES)
    with TemporaryDirectory() as name:
        folder = Path(name)
        targets = folder / "targets.json"
        targets.write_text("[]")
        with served(cluster, targets), prometheus(folder, targets, INTERVAL) as url:
            time.sleep((LEARNED - SLOW_CHECKS) * INTERVAL)
            cluster.slow[SLOW_RANK] = FACTOR
            time.sleep(SLOW_CHECKS * INTERVAL)
            with _watch(folder, url) as (page, process):
                every = _cycles(page, CYCLE_COUNT)
                last = _read(page)
                peak = _peak_megabytes(process)
    return {
        "ranks": 8.0 * NODES,
        "cycle_seconds": sum(one for one, _ in every[1:]) / len(every[1:]),
        "cycle_seconds_worst": max(one for one, _ in every[1:]),
        "cycle_seconds_first": every[0][0],
        "cycle_cpu_seconds": sum(cpu for _, cpu in every[1:]) / len(every[1:]),
        "cycle_cpu_seconds_worst": max(cpu for _, cpu in every[1:]),
        "peak_megabytes": peak,
        "page_megabytes": len(last) / 1e6,
        "slow_rank_missed": float(not re.search(rf'active{{[^}}]*rank="{SLOW_RANK}"', last)),
        "load_average": os.getloadavg()[0],
    }


@contextlib.contextmanager
def prometheus(folder: Path, targets: Path, interval: float) -> Iterator[str]:
    """URL of one that scrapes what the file `targets` names."""
    every = f"{round(interval * 1000)}ms"
    discovery = [{"files": [str(targets)], "refresh_interval": "1s"}]
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every},
        "scrape_configs": [{"job_name": "lockstep-collector", "file_sd_configs": discovery}],
    }
    with prometheus_server.prometheus(folder, config) as (url, _):
        yield url


@contextlib.contextmanager
def _watch(folder: Path, url: str) -> Iterator[tuple[str, int]]:
    """(address of its page, process)."""
    command = [
        "taskset", "-c", CORE, sys.executable, "-m", "lockstep", "watch", "--prometheus", url,
        "--out", str(folder / "findings"), "--state", str(folder / "state"),
        "--interval", str(INTERVAL), "--listen", "127.0.0.1:0",
        "--announce", str(folder / "address"),
    ]  # fmt: skip
    # As in deploy/standalone/systemd/lockstep-watch.service.
    with subprocess.Popen(command, env={**os.environ, "MALLOC_ARENA_MAX": "2"}) as process:
        try:
            while not (folder / "address").exists():
                time.sleep(0.2)
                if process.poll() is not None:
                    raise RuntimeError("watch ended")
            yield f"http://{(folder / 'address').read_text().strip()}/metrics", process.pid
        finally:
            process.terminate()


def _cycles(page: str, count: int) -> list[tuple[float, float]]:
    """(wall seconds, CPU seconds) of the next cycles."""
    found: list[tuple[float, float]] = []
    begun, cpu = _of(_read(page), CYCLES), _of(_read(page), CPU)
    while len(found) < count:
        time.sleep(1.0)
        text = _read(page)
        if _of(text, CYCLES) > begun:
            # Near the end of its interval: the cycle is over, and what it left to do as well.
            time.sleep(0.8 * INTERVAL)
            text = _read(page)
            found.append((_of(text, SECONDS), _of(text, CPU) - cpu))
            begun, cpu = _of(text, CYCLES), _of(text, CPU)
    return found


def _read(page: str) -> str:
    text: str = urllib.request.urlopen(page, timeout=60).read().decode()
    return text


def _of(text: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _peak_megabytes(process: int) -> float:
    text = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) / 1e3 if found else 0.0
