"""A driver that hangs or crashes under the real collector: what is told, and what still comes."""

import contextlib
import itertools
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.contract import metrics as m
from tests.attack.collector_program import Collector, running
from tests.benchmarks.collector_node import ROOT, mock_module

pytest.importorskip("pynvml")
pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="our libnvidia-ml needs gcc"),
]

GPUS = 16
TOLD_SECONDS = 8.0
"""A GPU is stalled after 3 s, read each second; the rest is for other work on this machine."""
CRASHES = 4


@pytest.fixture
def node(tmp_path) -> Iterator[tuple[Any, Collector]]:
    """Our libnvidia-ml with 16 GPUs, and a collector on it."""
    module = mock_module()
    mock = module.NvmlMock(module.build(ROOT / ".cache/nvml_mock"), tmp_path / "state")
    mock.plug(GPUS)
    rings = tmp_path / "rings"
    rings.mkdir()
    with running(rings, sources="nvml,procfs", environment=mock.environment) as one:
        one.until(lambda page: len(up(page)) == GPUS and all(up(page).values()))
        yield mock, one
        mock.close()


def up(page: dict[Any, float]) -> dict[str, float]:
    return {labels[0]: value for (name, labels), value in page.items() if name == m.GPU_UP.name}


def power(page: dict[Any, float]) -> dict[str, float]:
    return {labels[0]: value for (name, labels), value in page.items() if name == m.GPU_POWER.name}


def errors(page: dict[Any, float]) -> dict[str, float]:
    """By reason."""
    return {
        dict(zip(m.SOURCE_ERRORS.labels, labels, strict=True))["reason"]: value
        for (name, labels), value in page.items()
        if name == m.SOURCE_ERRORS.name
    }


def asker(collector: Collector) -> int | None:
    """The process that asks the driver."""
    for task in Path(f"/proc/{collector.process.pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                return int(child)
    return None


def test_one_of_sixteen_gpus_that_hangs_is_told_soon_and_the_others_go_on(node):
    mock, collector = node
    mock.gpu(5).hang = 1
    told = collector.until(lambda page: page.get((m.GPU_STALLED.name, ("5", "GPU-5"))) == 1)
    for index in range(GPUS):
        mock.gpu(index).field[186] = 111_000 + index
    others = {str(index) for index in range(GPUS)} - {"5"}
    fresh = collector.until(
        lambda page: {gpu for gpu, watts in power(page).items() if 111 <= watts < 112} == others
    )
    page = collector.page()
    mock.gpu(5).hang = 0
    collector.until(lambda page: all(up(page).values()))

    assert told < TOLD_SECONDS
    assert fresh < TOLD_SECONDS
    assert {"5": 0} == {gpu: value for gpu, value in up(page).items() if not value}
    assert [0.0] == [value for (name, _), value in page.items() if name == m.SOURCE_RESTARTS.name]


def test_a_driver_process_that_crashes_again_and_again_is_counted_logged_and_held_back(node):
    _, collector = node
    assert 0 == collector.page()[m.SOURCE_RESTARTS.name, ("nvml",)]
    times = []
    for crash in range(1, CRASHES + 1):
        end = time.monotonic() + 40
        while (child := asker(collector)) is None:
            assert time.monotonic() < end
            time.sleep(0.05)
        os.kill(child, signal.SIGSEGV)
        times.append(time.monotonic())
        seen = (m.SOURCE_RESTARTS.name, ("nvml",))
        collector.until(lambda page, crash=crash, seen=seen: page[seen] == crash)

    # An error is counted with the reading that follows the restart.
    collector.until(lambda page: errors(page).get("crashed") == CRASHES)
    lines = [line for line in collector.log().splitlines() if "crashed" in line]
    assert CRASHES == len(lines)
    assert all("signal 11 (SIGSEGV)" in line for line in lines)
    waits = [later - before for before, later in itertools.pairwise(times)]
    assert waits[0] > 1  # then 2 s, then 4 s, whatever else the machine does
    assert waits[-1] > 4
    collector.until(lambda page: len(up(page)) == GPUS and all(up(page).values()), 60)
