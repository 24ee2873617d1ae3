"""`lockstep watch` over 500 nodes of 8 GPUs, scraped every 5 s by a real Prometheus.

The watch runs on one core, the pages and Prometheus on the others. First nothing is wrong; then one
rank becomes slower by half, so that the cycles of the second part diagnose it and write an archive.
Seconds of a cycle are of the wall; CPU is that of the whole process by cycle. WATCH_NODES in the
environment makes the fleet smaller.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.watch_pages import Cluster, served

NODES = int(os.environ.get("WATCH_NODES", "500"))
INTERVAL = 5.0
HEALTHY_CYCLES, SLOW_CYCLES = 50, 15
"""A stream learns for 40 checks before it is judged."""
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
            time.sleep(4 * INTERVAL)
            with _watch(folder, url) as (page, process):
                healthy = _cycles(page, HEALTHY_CYCLES)
                cluster.slow[SLOW_RANK] = FACTOR
                slow = _cycles(page, SLOW_CYCLES)
                last = _read(page)
                peak = _peak_megabytes(process)
    every = [*healthy, *slow]
    return {
        "ranks": 8.0 * NODES,
        "cycle_seconds_healthy": sum(one for one, _ in healthy) / len(healthy),
        "cycle_seconds_slow": sum(one for one, _ in slow) / len(slow),
        "cycle_seconds_worst": max(one for one, _ in every[1:]),
        "cycle_seconds_first": every[0][0],
        "cycle_cpu_seconds": sum(cpu for _, cpu in every) / len(every),
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
    (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML too
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/db",
        f"--web.listen-address={own}", "--log.level=error",
    ]  # fmt: skip
    with subprocess.Popen(command) as process:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://{own}/-/ready", timeout=5).close()
                    break
                time.sleep(0.1)
            yield f"http://{own}"
        finally:
            process.terminate()


@contextlib.contextmanager
def _watch(folder: Path, url: str) -> Iterator[tuple[str, int]]:
    """(address of its page, process)."""
    command = [
        "taskset", "-c", CORE, sys.executable, "-m", "lockstep", "watch", "--prometheus", url,
        "--out", str(folder / "findings"), "--state", str(folder / "state"),
        "--interval", str(INTERVAL), "--listen", "127.0.0.1:0",
        "--announce", str(folder / "address"),
    ]  # fmt: skip
    with subprocess.Popen(command) as process:
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
        time.sleep(0.5)
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
