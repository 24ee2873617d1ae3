"""Debian's node_exporter and our host sources say the same about the same files."""

import contextlib
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lockstep.collector.clock import SystemClock
from lockstep.collector.exporter.page import Renderer
from lockstep.collector.registry import feeds
from lockstep.collector.sampler.sampler import Sampler

pytestmark = pytest.mark.prometheus

PARTS = (
    "cpu", "meminfo", "loadavg", "pressure", "diskstats", "softnet", "netdev", "netstat", "vmstat",
    "thermal_zone", "stat",
)  # fmt: skip
SAME = {
    "node_cpu_seconds_total": ("lockstep_host_cpu_seconds_total", "mode"),
    "node_memory_MemTotal_bytes": ("lockstep_host_memory_total_bytes", None),
    "node_memory_MemAvailable_bytes": ("lockstep_host_memory_available_bytes", None),
    "node_memory_Dirty_bytes": ("lockstep_memory_dirty_bytes", None),
    "node_disk_io_time_seconds_total": ("lockstep_disk_busy_seconds_total", "device"),
    "node_disk_io_now": ("lockstep_disk_operations_in_flight", "device"),
    "node_softnet_processed_total": ("lockstep_softnet_processed_total", None),
    "node_softnet_dropped_total": ("lockstep_softnet_dropped_total", None),
    "node_softnet_times_squeezed_total": ("lockstep_softnet_time_squeezed_total", None),
    "node_netstat_Tcp_RetransSegs": ("lockstep_tcp_retransmitted_segments_total", None),
    "node_netstat_TcpExt_TCPTimeouts": ("lockstep_tcp_timeouts_total", None),
    "node_vmstat_oom_kill": ("lockstep_oom_kills_total", None),
    "node_thermal_zone_temp": ("lockstep_host_temperature_celsius", "type"),
    "node_boot_time_seconds": ("lockstep_boot_time_seconds", None),
}
PAIRED = {
    "node_disk_{}_bytes_total": ("lockstep_disk_bytes_total", ("read", "written")),
    "node_disk_{}s_completed_total": ("lockstep_disk_operations_total", ("read", "write")),
    "node_disk_{}_time_seconds_total": ("lockstep_disk_time_seconds_total", ("read", "write")),
    "node_network_{}_bytes_total": ("lockstep_net_bytes_total", ("receive", "transmit")),
    "node_network_{}_drop_total": ("lockstep_net_drops_total", ("receive", "transmit")),
    "node_network_{}_errs_total": ("lockstep_net_errors_total", ("receive", "transmit")),
}


def summed(page: str, name: str, label: str | None, **where: str) -> dict[str, float]:
    """Values of a metric by one label, summed over all others."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in (name, f"{name}_total") and where.items() <= sample.labels.items():
                key = sample.labels[label] if label else ""
                found[key] = found.get(key, 0) + sample.value
    return found


@pytest.fixture
def pages(machine, tmp_path):
    """(node_exporter's page, ours) of the same fake machine."""
    program = shutil.which("prometheus-node-exporter")
    if program is None:
        pytest.skip("prometheus-node-exporter is not installed")
    machine.host()
    for resource in ("cpu", "io", "memory"):
        assert (machine.proc / "pressure" / resource).exists()
    machine.file(machine.sys / "class/thermal/thermal_zone0/policy", "step_wise\n")
    clock = SystemClock()
    sampler = Sampler(feeds(machine.config(), clock), clock, 5.0)
    sampler.start()
    sampler.wait_ready()
    ours = Renderer().render(sampler.snapshot())
    sampler.stop()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [
            program, f"--web.listen-address={address}", f"--path.procfs={machine.proc}",
            f"--path.sysfs={machine.sys}", "--collector.disable-defaults",
            "--no-collector.netdev.netlink",
            *(f"--collector.{part}" for part in PARTS),
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        theirs = ""
        for _ in range(300):
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as response:
                    theirs = response.read().decode()
                break
            time.sleep(0.1)
        yield theirs, ours
    finally:
        process.terminate()
        process.wait(240)


def test_both_read_the_same_numbers(pages):
    theirs, ours = pages
    expected, found = {}, {}
    for name, (own, label) in SAME.items():
        expected[name] = summed(theirs, name, label)
        found[name] = summed(ours, own, label)
    for pattern, (own, words) in PAIRED.items():
        for word, direction in zip(words, ("read", "write"), strict=True):
            name = pattern.format(word)
            wanted = word if pattern.startswith("node_network") else direction
            expected[name] = {
                key: value for key, value in summed(theirs, name, "device").items() if key != "lo"
            }
            found[name] = summed(ours, own, "device", direction=wanted)

    assert {} == {
        name: (theirs, found[name])
        for name, theirs in expected.items()
        if found[name] != pytest.approx(theirs)
    }
    assert all(expected.values())
