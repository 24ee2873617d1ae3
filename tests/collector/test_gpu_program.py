"""The whole collector as a process, over a libnvidia-ml of our own: how soon the page tells."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lockstep.collector.contract import metrics as m
from tests.benchmarks.collector_node import Node
from tests.machine import slowness

pytestmark = pytest.mark.timed

pytest.importorskip("pynvml")
SLACK = 1.5
"""Seconds that three programs side by side may be late, of a machine that does nothing else."""
PATIENCE = 120.0
"""Seconds for what is not judged by its time: three programs start at once on a busy machine."""


class Collector:
    """A running collector and its page."""

    def __init__(self, folder: Path, nvml: Any) -> None:
        where = folder / "address"
        self.nvml = nvml
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lockstep.collector", "--listen", "127.0.0.1:0",
             "--announce", str(where), "--lockstep-dir", str(folder)],
            env=os.environ | nvml.environment, stderr=subprocess.PIPE,
        )  # fmt: skip
        while not where.exists():
            assert self.process.poll() is None
            time.sleep(0.02)
        self.url = f"http://{where.read_text().strip()}/metrics"

    def page(self) -> dict[tuple[str, tuple[str, ...]], float]:
        with urllib.request.urlopen(self.url, timeout=PATIENCE) as response:
            assert response.status == 200
            text = response.read().decode()
        return {
            (sample.name, tuple(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def until(self, holds: Callable[[dict], bool], seconds: float = PATIENCE) -> float:
        began = time.monotonic()
        while not holds(self.page()):
            assert time.monotonic() - began < seconds
            time.sleep(0.05)
        return time.monotonic() - began

    def end(self) -> None:
        self.nvml.close()
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=PATIENCE)
        assert b"Traceback" not in errors


def up(page: dict) -> dict[str, float]:
    return {labels[1]: value for (name, labels), value in page.items() if name == m.GPU_UP.name}


def xids(page: dict) -> list[float]:
    return [value for (name, _), value in page.items() if name == m.GPU_XID_ERRORS.name]


def comes_and_goes(collector: Collector) -> dict[str, Any]:
    """Seconds until the page told; what of the GPU that is gone is left."""
    nvml = collector.nvml
    both = {"GPU-0": 1, "GPU-1": 1}
    collector.until(lambda page: up(page) == both)
    nvml.gpu(1).every_rc = 15
    lost = collector.until(lambda page: up(page) == both | {"GPU-1": 0})
    nvml.gpu(1).every_rc = 0
    collector.until(lambda page: up(page) == both)
    nvml.plug(3)
    new = collector.until(lambda page: up(page) == both | {"GPU-2": 1})
    nvml.partition(2, 2)
    mig = collector.until(lambda page: {"MIG-2-0", "MIG-2-1"} <= up(page).keys())
    nvml.state.count = 2
    gone = collector.until(lambda page: up(page) == both | {"GPU-2": 0})
    left = {name for name, labels in collector.page() if "GPU-2" in labels}
    return {"lost": lost, "new": new, "mig": mig, "gone": gone, "left": left}


def hangs_alone(collector: Collector) -> dict[str, Any]:
    """Seconds until the page told of an XID and of a GPU that hangs, and that page."""
    gpu = collector.nvml.gpu(0)
    collector.until(lambda page: up(page) == {"GPU-0": 1, "GPU-1": 1} and gpu.registrations > 0)
    collector.nvml.happens(0, 31)
    xid = collector.until(lambda page: any(xids(page)))
    gpu.hang = 1
    stalled = collector.until(lambda page: page[m.GPU_STALLED.name, ("0", "GPU-0")] == 1)
    return {"xid": xid, "one": stalled, "page_of_one": collector.page()}


def all_hang(collector: Collector) -> dict[str, Any]:
    """Seconds until the page told of a hang in the global lock, that page, and the one after."""
    collector.until(lambda page: up(page) == {"GPU-0": 1, "GPU-1": 1})
    collector.nvml.state.lock_hang = 1
    stalled = collector.until(lambda page: page[m.SOURCE_STALLED.name, ("nvml",)] == 1)
    began = time.monotonic()
    page = collector.page()
    answer = time.monotonic() - began
    collector.nvml.state.lock_hang = 0
    collector.until(lambda page: up(page) == {"GPU-0": 1, "GPU-1": 1})
    after = collector.page()
    return {"all": stalled, "page_of_all": page, "answer": answer, "page_after": after}


@pytest.fixture(scope="module")
def told(nvml_mock, tmp_path_factory) -> dict[str, Any]:
    """Three machines side by side, because most of it is waiting."""

    def played(scenario: Callable[[Collector], dict[str, Any]]) -> dict[str, Any]:
        folder = base / scenario.__name__
        folder.mkdir()
        mock = nvml_mock.NvmlMock(nvml_mock.folder, folder / "nvml-state")
        mock.plug(2)
        collector = Collector(folder, mock)
        try:
            return scenario(collector)
        finally:
            collector.end()

    # Here: whoever asks pytest first for a folder clears them all, so threads must not.
    base = tmp_path_factory.mktemp("machines")
    with slowness() as machine, ThreadPoolExecutor() as pool:
        ended = pool.map(played, (comes_and_goes, hangs_alone, all_hang))
        return dict(chain(*(one.items() for one in ended))) | {"slower": machine.factor}


def test_lost_and_new_gpus_and_mig_devices_are_told_in_time(told):
    assert told["lost"] <= (2 + SLACK) * told["slower"]
    assert max(told[what] for what in ("new", "mig", "gone")) <= (5 + SLACK) * told["slower"]
    # Its XIDs stay, also at 0: the driver may log that it is lost after it has gone.
    assert {m.GPU_UP.name, m.GPU_STALLED.name, m.GPU_XID_ERRORS.name} == told["left"]


def test_an_xid_that_only_nvml_tells_is_on_the_page_within_a_second(told):
    assert told["xid"] <= (1 + SLACK) * told["slower"]


def test_a_gpu_that_hangs_is_told_in_time_and_keeps_no_other_off_the_page(told):
    page = told["page_of_one"]

    assert told["one"] <= (5 + SLACK) * told["slower"]
    assert 0 == page[m.SOURCE_STALLED.name, ("nvml",)]
    assert 655.25 == page[m.GPU_POWER.name, ("1", "GPU-1")]


def test_a_hang_in_the_global_lock_leaves_the_page_and_marks_the_source(told):
    assert told["all"] <= (5 + SLACK) * told["slower"]
    assert told["answer"] < 1 * told["slower"]
    assert 1 == told["page_of_all"][m.SOURCE_UP.name, ("procfs",)]
    assert 0 == told["page_after"][m.SOURCE_STALLED.name, ("nvml",)]


def test_the_node_that_benchmarks_measure_serves_its_page_and_notes_the_time_of_each(
    tmp_path: Path,
) -> None:
    times = tmp_path / "times.json"
    with Node(gpus=1, times=times) as node:
        deadline = time.monotonic() + PATIENCE
        asked = 1
        while not any(name.startswith("lockstep_rank_up") for name in node.series()):
            assert time.monotonic() < deadline
            asked += 1

    noted = json.loads(times.read_text())
    assert asked == len(noted)
    assert min(noted) > 0
