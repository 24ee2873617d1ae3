"""The collector of a node with eight GPUs that do not exist: 2,500 series, new values a second.

`python -m tests.benchmarks.collector_node` serves them from the real sampler, exporter and host
sources, prints its address, and on end of input the server's time of each request in seconds.
"""

import itertools
import json
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

from collector.__main__ import answer_quickly
from collector.clock import SystemClock
from collector.collectors import Feed, feeds
from collector.config import Address, Config
from collector.contract.metrics import Metric, Sample, gpu, training
from collector.exporter import Exporter
from collector.exporter.server import PageServer
from collector.sampler import Sampler

SERIES = 2500
GPUS = 8
HOST = (
    "procfs", "diskstats", "softnet", "tcp", "vmstat", "cgroup_tree", "thermal", "kernel_clock",
    "identity", "own_process",
)  # fmt: skip


@dataclass(frozen=True)
class Tick:
    """What the GPUs say: a number that changes."""

    number: int


class Ticking:
    """Source of Tick."""

    name = "nvml"

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def available(self) -> bool:
        return True

    def read(self) -> Tick:
        return Tick(next(self._numbers))


def labelled(count: int) -> list[tuple[Metric, tuple[str, ...]]]:
    """So many series of the contract: GPUs and ranks, with as many labels as it takes."""
    rows = [row for row in vars(gpu).values() if isinstance(row, Metric)]
    ranks = [row for row in vars(training).values() if isinstance(row, Metric)]
    found: dict[tuple[str, tuple[str, ...]], tuple[Metric, tuple[str, ...]]] = {}
    for turn in range(100):
        for index, row in itertools.product(range(GPUS), [*rows, *ranks]):
            own = {
                "gpu": str(index), "uuid": f"GPU-{index:08x}-1111-2222-3333-444444444444",
                "run": "default.gpt-175b.0123abcd", "rank": str(index),
            }  # fmt: skip
            labels = tuple(own.get(name, f"{name}-{turn}") for name in row.labels)
            found.setdefault((row.name, labels), (row, labels))
            if len(found) == count:
                return list(found.values())
    raise AssertionError(f"the contract gives {len(found)} series")


class Values:
    """Tick to samples; every value changes every second, as counters and temperatures do."""

    def __init__(self, count: int) -> None:
        self._series = labelled(count)

    def __call__(self, tick: Tick) -> list[Sample]:
        return [
            metric(1e6 + 1.37 * index + 0.731 * tick.number, *labels)
            for index, (metric, labels) in enumerate(self._series)
        ]


def sampler_of(config: Config, series: int) -> Sampler:
    """The real host feeds and the GPUs that do not exist; about SERIES series in all."""
    clock = SystemClock()
    host = feeds(replace(config, sources=HOST), clock)
    return Sampler([Feed(Ticking(), Values(series), config.fast_period), *host], clock, config.ttl)


def exporter_of(config: Config) -> tuple[Sampler, Exporter]:
    """As the collector's program makes it, with a page of SERIES series."""
    sampler = sampler_of(config, 1)
    sampler.start()
    sampler.wait_ready()
    exporter = Exporter(config, sampler, SystemClock())
    own = sum(not line.startswith("#") for line in exporter.page().splitlines()) + 1
    sampler.stop()
    sampler = sampler_of(config, SERIES - own)
    return sampler, Exporter(config, sampler, SystemClock())


class Timed(PageServer):
    """Notes the time from the first line of a request to the last byte of its answer."""

    times: list[float]
    _began = threading.local()

    def enter(self) -> None:
        self._began.at = time.perf_counter()
        super().enter()

    def leave(self) -> None:
        super().leave()
        self.times.append(time.perf_counter() - self._began.at)


def main() -> None:
    """Serve until the input ends."""
    config = Config(listen=Address("127.0.0.1", 0), series_cap=10_000, lockstep_dir=Path("/none"))
    sampler, exporter = exporter_of(config)
    server = exporter.serve()
    server.__class__ = Timed
    server.times = []
    sampler.start()
    server.start()
    sampler.wait_ready()
    answer_quickly()
    _say(list(server.address))
    sys.stdin.read()
    server.stop()
    sampler.stop()
    _say(server.times)


def _say(what: list[object]) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
