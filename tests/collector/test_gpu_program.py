"""The whole collector as a process, over a libnvidia-ml of our own: how soon the page tells."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.contract import metrics as m

pytest.importorskip("pynvml")
SLACK = 1.5
"""Seconds that this machine may be late because others use it."""


class Collector:
    """A running collector and its page."""

    def __init__(self, folder: Path) -> None:
        where = folder / "address"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "collector", "--listen", "127.0.0.1:0", "--announce", str(where),
             "--lockstep-dir", str(folder)],
            stderr=subprocess.PIPE,
        )  # fmt: skip
        while not where.exists():
            assert self.process.poll() is None
            time.sleep(0.02)
        self.url = f"http://{where.read_text().strip()}/metrics"

    def page(self) -> dict[tuple[str, tuple[str, ...]], float]:
        with urllib.request.urlopen(self.url, timeout=5) as response:
            assert response.status == 200
            text = response.read().decode()
        return {
            (sample.name, tuple(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def until(self, holds: Callable[[dict], bool], seconds: float = 30.0) -> float:
        began = time.monotonic()
        while not holds(self.page()):
            assert time.monotonic() - began < seconds
            time.sleep(0.05)
        return time.monotonic() - began


@pytest.fixture
def collector(nvml, tmp_path) -> Iterator[Collector]:
    one = Collector(tmp_path)
    yield one
    nvml.close()
    one.process.send_signal(signal.SIGTERM)
    _, errors = one.process.communicate(timeout=15)
    assert b"Traceback" not in errors


def up(page: dict) -> dict[str, float]:
    return {labels[1]: value for (name, labels), value in page.items() if name == m.GPU_UP.name}


def test_lost_new_and_stalled_gpus_are_told_in_time(nvml, collector):
    collector.until(lambda page: up(page) == {"GPU-0": 1, "GPU-1": 1})

    nvml.gpu(1).every_rc = 15
    lost = collector.until(lambda page: up(page) == {"GPU-0": 1, "GPU-1": 0})
    nvml.gpu(1).every_rc = 0
    collector.until(lambda page: up(page) == {"GPU-0": 1, "GPU-1": 1})

    nvml.plug(3)
    new = collector.until(lambda page: up(page) == {"GPU-0": 1, "GPU-1": 1, "GPU-2": 1})

    nvml.partition(2, 2)
    mig = collector.until(lambda page: {"MIG-2-0", "MIG-2-1"} <= up(page).keys())

    nvml.state.count = 2
    gone = collector.until(lambda page: up(page) == {"GPU-0": 1, "GPU-1": 1})
    assert not [labels for _, labels in collector.page() if "GPU-2" in labels]

    nvml.gpu(0).hang = 1
    stalled = collector.until(lambda page: page[m.GPU_STALLED.name, ("0", "GPU-0")] == 1)
    page = collector.page()
    assert page[m.SOURCE_STALLED.name, ("nvml",)] == 0
    assert page[m.GPU_POWER.name, ("1", "GPU-1")] == 655.25

    assert lost <= 2 + SLACK
    assert max(new, mig, gone) <= 5 + SLACK
    assert stalled <= 5 + SLACK


@pytest.mark.slow
def test_a_hang_in_the_global_lock_leaves_the_page_and_marks_the_source(nvml, collector):
    collector.until(lambda page: up(page) == {"GPU-0": 1, "GPU-1": 1})
    nvml.state.lock_hang = 1
    stalled = collector.until(lambda page: page[m.SOURCE_STALLED.name, ("nvml",)] == 1)
    began = time.monotonic()
    page = collector.page()
    answer = time.monotonic() - began
    collector.until(lambda page: page.get((m.SOURCE_ERRORS.name, ("nvml", "killed")), 0) >= 1)
    nvml.state.lock_hang = 0
    collector.until(lambda page: up(page) == {"GPU-0": 1, "GPU-1": 1})

    assert stalled <= 5 + SLACK
    assert answer < 1
    assert page[m.SOURCE_UP.name, ("procfs",)] == 1
    assert collector.page()[m.SOURCE_STALLED.name, ("nvml",)] == 0
    assert os.path.exists(f"/proc/{collector.process.pid}")
