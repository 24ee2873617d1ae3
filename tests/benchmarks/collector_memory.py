"""Whether the collector's memory stays flat: 100,000 real scrapes from several connections.

LOCKSTEP_BENCH_SCRAPES lessens their number.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from tests.benchmarks.collector_node import GPUS, Node, get

SCRAPES = int(os.environ.get("LOCKSTEP_BENCH_SCRAPES", "100000"))
CONNECTIONS = 4
WARM_UP_SCRAPES, SLOW_PERIOD, SETTLE_SECONDS = 2000, "5s", 12.0
"""What is read seldom is read twice before the first figure, and often while it is scraped."""
GOALS = {"grown_mb": 2.0, "resident_mb_highest": 80.0}


def main() -> dict[str, float]:
    """Resident megabytes of all processes after start, after a warm-up, and at the end."""
    with Node(GPUS, None, "--slow-period", SLOW_PERIOD) as node:
        start = node.resident()
        time.sleep(SETTLE_SECONDS)
        _scrape(node, WARM_UP_SCRAPES)
        before = node.resident()
        highest, began = before, time.monotonic()
        parts = 10
        for _ in range(parts):
            _scrape(node, SCRAPES // parts)
            highest = max(highest, node.resident())
        wall, after = time.monotonic() - began, node.resident()
    return {
        "scrapes": float(SCRAPES),
        "scrapes_per_second": SCRAPES / wall,
        "resident_mb_at_start": start,
        "resident_mb_before": before,
        "resident_mb_after": after,
        "resident_mb_highest": highest,
        "grown_mb": after - before,
    }


def _scrape(node: Node, count: int) -> None:
    def some(_: int) -> None:
        connection = node.connect()
        for _ in range(count // CONNECTIONS):
            get(connection)
        connection.close()

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(some, range(CONNECTIONS)))
