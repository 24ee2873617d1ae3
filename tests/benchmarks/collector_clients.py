"""Scrapes by 12 clients at once, each over a connection that it keeps, as Prometheus does.

It needs nothing but the collector's program, so that two versions can be compared: run it in the
working tree of each, in turns. LOCKSTEP_BENCH_SECONDS shortens it.
"""

import http.client
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CLIENTS = 12
SECONDS = float(os.environ.get("LOCKSTEP_BENCH_SECONDS", "20"))
PAUSE_SECONDS = 0.01
START_SECONDS = 60.0
SOURCES = "rank_ring,procfs,diskstats,vmstat,own_process"
GOALS = {"p99_ms": 50.0}


def main() -> dict[str, float]:
    """Milliseconds that a scrape takes its client, and the CPU of the collector for one."""
    with tempfile.TemporaryDirectory() as folder:
        announced = Path(folder) / "address"
        command = [
            *(
                sys.executable,
                "-m",
                "lockstep.collector",
                "--listen",
                "127.0.0.1:0",
                "--sources",
                SOURCES,
            ),
            *("--lockstep-dir", folder, "--announce", str(announced)),
        ]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + START_SECONDS
            while not announced.exists():
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError("the collector does not start")
                time.sleep(0.05)
            host, _, port = announced.read_text().strip().rpartition(":")
            before = _cpu(process.pid)
            with ThreadPoolExecutor(CLIENTS) as pool:
                found = list(pool.map(lambda _: _scrapes(host, int(port)), range(CLIENTS)))
            spent = _cpu(process.pid) - before
        finally:
            process.terminate()
            process.wait(20)
    times = sorted(one for each in found for one in each)
    return {
        "scrapes": float(len(times)),
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(0.99 * len(times))],
        "cpu_ms_a_scrape": 1e3 * spent / len(times),
    }


def _scrapes(host: str, port: int) -> list[float]:
    times = []
    connection = http.client.HTTPConnection(host, port, timeout=30)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        began = time.perf_counter()
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        if answer.status != http.client.OK or not answer.read():
            raise RuntimeError(f"a scrape was answered with {answer.status}")
        times.append(time.perf_counter() - began)
        time.sleep(PAUSE_SECONDS)
    connection.close()
    return times


def _cpu(pid: int) -> float:
    """Seconds of CPU so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
