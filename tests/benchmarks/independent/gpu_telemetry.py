"""What a GPU tells of itself, as series."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tests.benchmarks.independent.gpu_state import Device, Hardware, device_of
from tests.benchmarks.independent.telemetry import Scene, counted, intervals
from tests.benchmarks.simulated.arrays import Bools, Floats, Generator
from tests.benchmarks.simulated.samples import Samples

XIDS = (
    ("119", "fatal"), ("120", "fatal"), ("140", "fatal"), ("48", "fatal"), ("64", "fatal"),
    ("74", "fatal"), ("79", "fatal"), ("95", "fatal"), ("63", "info"), ("13", "warning"),
    ("31", "warning"), ("94", "warning"),
)  # fmt: skip
Add = Callable[[str, str, npt.ArrayLike], None]
"""Metric without `gpu_`, labels, values."""


def tell(rng: Generator, scene: Scene, hardware: Hardware, rank: int, samples: Samples) -> None:
    """All series of the GPU of a rank."""
    device = device_of(rng, scene, hardware, rank)
    count = len(device.times)
    unsteady = device.clock + rng.normal(0, 6e6, count)
    clock = np.round(np.clip(unsteady, 210e6, hardware.hottest) / 15e6) * 15e6
    dead = device.times >= scene.stopped
    idle = 95 + rng.normal(0, 3, count)
    device.watts = np.where(dead, idle, device.watts) + rng.normal(0, 8, count)
    device.celsius = np.where(dead, device.celsius - 12, device.celsius)
    if scene.stop is not None:
        clock = np.where(dead, min(hardware.hottest, hardware.clock), clock)
    if not scene.plan.without_gpu:
        _write(rng, scene, hardware, device, clock, dead, samples)


def _write(
    rng: Generator, scene: Scene, hardware: Hardware, device: Device, clock: Floats, dead: Bools,
    samples: Samples,
) -> None:  # fmt: skip
    world, times, count = scene.world, device.times, len(device.times)
    node, gpu = scene.names[world.node[device.rank]], int(world.local[device.rank])
    newer, address = world.newer_gpu, f"{0x18 + gpu * 8:02x}:00.0"

    def add(metric: str, labels: str, values: npt.ArrayLike) -> None:
        samples.add(node, gpu, -1, f"gpu_{metric}", labels, times, values)

    add(
        "info",
        'cuda="12.4",driver="550.54.15",firmware="550.54.15",mig_mode="off",'
        f'minor="{gpu}",model="{world.gpu}",numa="{gpu // 4}",pci_bus_id="00000000:{address}",'
        'serial="",simulated="false",vbios="96.00.74.00.01"',
        1,
    )
    add("up", "", 1)
    for sensor, celsius in (("gpu", device.celsius), ("memory", device.memory_celsius)):
        read = np.round(celsius + rng.normal(0, 0.5, count))
        add("temperature_celsius", f'sensor="{sensor}"', read)
    add("temperature_limit_celsius", 'limit="slowdown"', 90.0 if newer else 92.0)
    add("temperature_limit_celsius", 'limit="gpu_max"', 87.0 if newer else 85.0)
    add("power_watts", "", np.clip(device.watts, 60, hardware.power * 1.05))
    add("power_limit_watts", 'kind="enforced"', device.limit)
    add("power_limit_watts", 'kind="default"', hardware.power)
    add("clock_hertz", 'domain="sm"', clock)
    add("clock_max_hertz", 'domain="sm"', hardware.hottest)
    add("clock_hertz", 'domain="mem"', 2619e6 if newer else 1593e6)
    # A rank that hangs in a collective keeps its GPU busy.
    hanging = np.where(rng.random(count) < 0.9, 1.0, 0.0)
    working = np.clip(1 - rng.exponential(0.02, count), 0, 1)
    add("utilization_ratio", "", np.where(dead, hanging, working))
    tensor = 0.5 * hardware.busy[device.rank] * (1 + 0.05 * rng.normal(0, 1, count))
    add("tensor_active_ratio", "", np.where(dead, 0.0, np.clip(tensor, 0, 1)))
    used = 6.5e10 + rng.normal(0, 2e7, count) + 1e9 * rng.random()
    add("memory_used_bytes", "", used)
    add("memory_total_bytes", "", 8.5e10)
    _write_throttling(rng, device, dead, add)
    _write_errors(rng, device, newer, add)
    if hardware.each_link:
        for link in range(18 if newer else 12):
            add("nvlink_up", f'link="{link}"', 1.0 - (link < device.links_down))
    for kind, rate in (
        ("replay", device.link_replay_rate), ("recovery", device.link_recovery_rate),
        ("crc_flit", device.link_replay_rate * 0.5),
    ):  # fmt: skip
        add("nvlink_errors_total", f'kind="{kind}",link="all"', counted(rng, times, rate, 0))
    _write_xids(device, address, add)


def _write_throttling(rng: Generator, device: Device, dead: Bools, add: Add) -> None:
    passed = intervals(device.times)
    thermal = device.throttled["sw_thermal"] + device.throttled["hw_thermal"]
    for reason, share in device.throttled.items():
        active = np.where(dead, 0, np.clip(share, 0, 1))
        before = rng.uniform(0, 3000) * (reason == "sw_power_cap")
        told, of_time = reason, active
        if reason == "hw_slowdown":  # counters have heat as a whole in its place
            told, of_time = "thermal", np.clip(thermal, 0, 1) * ~dead
        seconds = before + np.cumsum(of_time * passed)
        add("clock_event_seconds_total", f'reason="{told}"', seconds)
        now = rng.random(len(active)) < active
        add("clock_event_active", f'reason="{reason}"', now.astype(float))


def _write_errors(rng: Generator, device: Device, newer: bool, add: Add) -> None:
    times = device.times
    before = int(rng.integers(0, 3) * (rng.random() < 0.1))
    corrected = counted(rng, times, device.ecc_rate, before)
    add("ecc_errors_total", 'counter="volatile",type="corrected"', corrected)
    ever = corrected + int(rng.integers(0, 40))
    add("ecc_errors_total", 'counter="aggregate",type="corrected"', ever)
    for counter in ("volatile", "aggregate"):
        labels = f'counter="{counter}",type="uncorrected"'
        add("ecc_errors_total", labels, device.uncorrected)
    add("remapped_rows", 'cause="correctable"', np.floor(device.remapped * 0.3))
    add("remapped_rows", 'cause="uncorrectable"', device.remapped)
    add("row_remap_pending", "", device.remap_pending)
    add("row_remap_failed", "", 0)
    add("pcie_link_width", "", device.bus_width)
    add("pcie_link_width_max", "", 16)
    add("pcie_link_generation", "", device.bus_generation)
    add("pcie_link_generation_max", "", 5 if newer else 4)
    add("pcie_replay_total", "", counted(rng, times, device.replay_rate))
    errors = counted(rng, times, device.bus_error_rate, 0)
    add("pcie_errors_total", 'kind="correctable"', errors)


def _write_xids(device: Device, address: str, add: Add) -> None:
    """A counter of each XID, and when it was last, a second after it happened."""
    for xid, severity in XIDS:
        moments = np.array(sorted(device.xids.get(xid, [])))
        seen = np.searchsorted(moments + 1, device.times)
        place = f'pci_bus_id="0000:{address}",severity="{severity}"'
        add("xid_errors_total", f'{place},source="nvml",xid="{xid}"', seen)
        if seen.any():
            last = np.where(seen > 0, moments[np.maximum(seen - 1, 0)], np.nan)
            add("xid_last_timestamp_seconds", f'{place},xid="{xid}"', last)
