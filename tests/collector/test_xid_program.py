"""XIDs through the whole collector: a process, its page, its state folder, its end."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LINE = "3,{},900000000000000,-;NVRM: Xid (PCI:0000:65:00): 31, pid=1, name=a, MMU Fault\n"
COUNTED = 'pci_bus_id="0000:65:00.0",xid="31",source="kmsg",severity="warning"} {}\n'
PATIENCE_SECONDS = 120.0
"""For what takes half a second on an idle machine."""


class Node:
    """A collector that reads one log, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.log, self.address = folder / "kmsg", folder / "address"
        self.log.touch()
        self.command = [
            sys.executable, "-m", "lockstep.collector", "--listen", "127.0.0.1:0",
            "--state-dir", str(folder / "state"), "--announce", str(self.address),
        ]  # fmt: skip
        self.environment = os.environ | {
            "LOCKSTEP_PATHS_KMSG": str(self.log), "LOCKSTEP_COLLECTOR_SOURCES": "xid,kmsg",
        }  # fmt: skip

    @contextmanager
    def running(self, end: signal.Signals = signal.SIGTERM) -> Iterator[None]:
        self.address.unlink(missing_ok=True)
        process = subprocess.Popen(self.command, env=self.environment, stderr=subprocess.DEVNULL)
        try:
            waited(self.address.exists)
            yield
        finally:
            process.send_signal(end)
            process.wait(timeout=PATIENCE_SECONDS)

    def append(self, *sequences: int) -> None:
        with self.log.open("a") as log:
            log.writelines(LINE.format(sequence) for sequence in sequences)

    def page(self) -> str:
        url = f"http://{self.address.read_text().strip()}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as response:
            return response.read().decode()

    def shows(self, count: int) -> bool:
        return COUNTED.replace("{}", str(count)) in self.page()


def waited(condition) -> float:
    """Seconds until it held."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > PATIENCE_SECONDS:
            pytest.fail("it did not come to pass")
        time.sleep(0.02)
    return time.monotonic() - began


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_every_xid_is_on_the_page_once_over_an_end_and_a_crash(node):
    node.append(1, 2)
    with node.running():
        assert node.shows(2)  # what happened before the collector started
        node.append(3)
        waited(lambda: node.shows(3))
    node.append(4)  # what happens while it is away
    with node.running(signal.SIGKILL):
        assert node.shows(4)
        node.append(5)
        waited(lambda: node.shows(5))
    with node.running():
        assert node.shows(5)


def test_an_xid_that_nvml_and_the_kernel_log_tell_is_one_on_the_page(node, nvml):
    node.environment |= nvml.environment | {"LOCKSTEP_COLLECTOR_SOURCES": "nvml,xid,kmsg"}
    place, named = nvml.gpu(1).bus_id.decode(), 'lockstep_gpu_xid_errors_total{gpu="1"'
    with node.running():
        waited(lambda: nvml.gpu(0).registrations and nvml.gpu(1).registrations)
        now = round(time.clock_gettime(time.CLOCK_MONOTONIC_RAW) * 1e6)  # as the kernel stamps
        nvml.happens(1, 31)
        nvml.happens(1, 13)  # this one the log does not tell, and NVML not the last one
        with node.log.open("a") as log:
            log.write(f"3,1,{now},-;NVRM: Xid (PCI:{place}): 31, pid=1, name=a\n")
            log.write(f"3,2,{now},-;NVRM: Xid (PCI:{place}): 79, pid=1, name=a\n")
        counted = (
            'xid="79",source="kmsg",severity="fatal"} 1',
            'xid="13",source="nvml",severity="warning"} 1',
        )
        waited(lambda: all(one in node.page() for one in counted))
        lines = [line for line in node.page().splitlines() if line.startswith(named)]
        told = [line for line in lines if not line.endswith("} 0")]

    assert 3 == len(told)
    assert all(line.endswith("} 1") for line in told)
