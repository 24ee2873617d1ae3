"""Whether the collector's memory stays flat: 100,000 pages and thousands of real scrapes.

LOCKSTEP_BENCH_PAGES lessens the number of pages.
"""

import http.client
import os
from pathlib import Path

from collector.config import Address, Config
from tests.benchmarks.collector_node import exporter_of

PAGES = int(os.environ.get("LOCKSTEP_BENCH_PAGES", "100000"))
WARM_UP, SCRAPES = 100, 5000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def main() -> dict[str, float]:
    """Resident megabytes after start, after a warm-up, and at the end; all in this one process."""
    config = Config(listen=Address("127.0.0.1", 0), series_cap=10_000, lockstep_dir=Path("/none"))
    sampler, exporter = exporter_of(config)
    server = exporter.serve()
    sampler.start()
    server.start()
    sampler.wait_ready()
    exporter.page()
    figures = {"at_start_mb": _resident()}
    _scraped(server.address, WARM_UP)
    highest = 0.0
    for number in range(PAGES):
        exporter.page()
        if number == PAGES // 100:
            figures["after_one_percent_mb"] = _resident()
        if number % 1000 == 0:
            highest = max(highest, _resident())
    figures["after_pages_mb"] = _resident()
    _scraped(server.address, SCRAPES)
    figures["after_scrapes_mb"] = _resident()
    server.stop()
    sampler.stop()
    grown = figures["after_scrapes_mb"] - figures["after_one_percent_mb"]
    return (
        {"pages": float(PAGES), "scrapes": float(SCRAPES)}
        | figures
        | {
            "highest_mb": max(highest, figures["after_scrapes_mb"]),
            "grown_since_one_percent_mb": grown,
        }
    )


def _scraped(address: tuple[str, int], count: int) -> None:
    connection = http.client.HTTPConnection(*address, timeout=10)
    for number in range(count):
        packed = {"Accept-Encoding": "gzip"} if number % 2 else {}
        connection.request("GET", "/metrics", headers=packed)
        connection.getresponse().read()
    connection.close()


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 1e6
