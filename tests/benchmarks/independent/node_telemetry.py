"""What a host tells of itself: processors, pressure, disks, Ethernet and InfiniBand."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.benchmarks.independent.faults import NETWORK_FAULTS
from tests.benchmarks.independent.telemetry import Scene, counted, intervals
from tests.benchmarks.simulated.arrays import Floats, Generator
from tests.benchmarks.simulated.samples import Samples

Add = Callable[[str, str, npt.ArrayLike], None]
"""Metric, labels, values."""
ETHERNET = 1.25e10
INFINIBAND = 5e10
"""Bytes a second of a port."""


@dataclass
class Host:
    """(scrapes,) each.

    Attributes:
        busy: Share of processors that others use; cpu_pressure and io_pressure shares of time.
        loss: Packets a second; pause share of time in which peers ask to wait; wait ticks a second.
        slower: Times by which ports are slower than they should be, 0 is not at all.
        downs: How often a port was down so far; symbol_errors a second.
        rail: The adapter that all this is about; None is all of them.
    """

    busy: Floats
    cpu_pressure: Floats
    io_pressure: Floats
    loss: Floats
    pause: Floats
    slower: Floats
    downs: Floats
    symbol_errors: Floats
    wait: Floats
    rail: int | None = None


def tell(rng: Generator, scene: Scene, samples: Samples) -> None:
    """All series of all nodes; some node is busy, and some loses packets, at no cost."""
    nodes = scene.world.layout.nodes
    busy = int(rng.integers(nodes)) if rng.random() < 0.2 else -1
    lossy = int(rng.integers(nodes)) if rng.random() < 0.25 else -1
    scene.decoys |= {"noisyhost": busy, "retrans": lossy}
    for node in range(nodes):
        _tell_one(rng, scene, samples, node, busy=node == busy, lossy=node == lossy)


def _tell_one(
    rng: Generator, scene: Scene, samples: Samples, node: int, busy: bool, lossy: bool
) -> None:
    world, times, name = scene.world, scene.times[node], scene.names[node]

    def add(metric: str, labels: str, values: npt.ArrayLike) -> None:
        samples.add(name, -1, -1, metric, labels, times, values)

    add(
        "node_info",
        f'boot_id="b{node:03d}",emulated="false",hostname="{name}",kernel="5.15.0-1062"',
        1,
    )
    add("build_info", 'python="3.11.9",version="0.1.0"', 1)
    processors = 96 if world.layout.per_node == 4 else 192
    usual = world.layout.per_node * rng.uniform(2, 6) / processors
    host = _host(rng, scene, node, busy, lossy)
    _write_host(rng, scene, times, host, usual, processors, add)
    ethernet = world.fabric == "eth"
    traffic = scene.plan.parameters * 2 / max(world.step_seconds, 0.1) * 0.2
    alive = (times < scene.stopped).astype(float)
    of_eth0 = traffic if ethernet else 2e6
    _write_ethernet(rng, times, host, of_eth0 * alive, ethernet, lossy, add)
    if ethernet:
        labels = 'device="eth0",direction="receive",priority="3"'
        add("net_pfc_pause_total", labels, counted(rng, times, host.pause * 1e4, 0))
        add("net_pfc_pause_seconds_total", labels, np.cumsum(host.pause * intervals(times)))
    else:
        for adapter in range(world.adapters):
            _write_infiniband(rng, times, host, adapter, traffic * alive, add)


def _host(rng: Generator, scene: Scene, node: int, busy: bool, lossy: bool) -> Host:
    """What faults, decoys and coincidences make of its sensors."""
    world, times = scene.world, scene.times[node]
    count = len(times)
    zero = np.zeros(count)
    extra = zero + rng.uniform(0.1, 0.3) if busy else zero
    host = Host(
        busy=extra, cpu_pressure=np.full(count, 0.003), io_pressure=np.full(count, 0.002),
        loss=zero, pause=np.full(count, 0.0005), slower=zero, downs=zero,
        symbol_errors=np.full(count, 1e-6), wait=np.full(count, 2e3 * rng.random()),
    )  # fmt: skip
    for fault in scene.faults:
        if not fault.touches(node) or not fault.visible:
            continue
        shown = scene.shown(fault, times)
        if fault.kind in NETWORK_FAULTS:
            host.rail = fault.rail
        if fault.kind == "hostcpu":
            host.busy = host.busy + shown * rng.uniform(0.4, 0.7)
            host.cpu_pressure = host.cpu_pressure + shown * rng.uniform(0.1, 0.6)
        elif fault.kind == "data":
            host.io_pressure = host.io_pressure + shown * rng.uniform(0.05, 0.4)
        elif fault.kind == "ckpt":
            writing = scene.noise.checkpoint_steps[scene.step_at(times)]
            host.io_pressure = host.io_pressure + shown * writing * 0.4
        elif fault.kind == "nic_rate" and fault.times is not None:
            host.slower = np.where(shown > 0, fault.times, 0)
            host.symbol_errors = host.symbol_errors + shown * 0.02
        elif fault.kind == "nic_loss":
            host.loss = shown * rng.uniform(5, 400)
        elif fault.kind == "nic_flap":
            moments = scene.last_word[fault.events]
            host.downs = np.searchsorted(moments, times).astype(float)
            host.symbol_errors = host.symbol_errors + shown * 0.05
            host.loss = host.loss + shown * 0.3
        elif fault.kind == "congestion":
            host.pause = host.pause + shown * rng.uniform(0.1, 0.4)
            host.wait = host.wait + shown * rng.uniform(1e6, 3e7)
    if lossy:
        host.loss = host.loss + rng.uniform(0.05, 0.6)
    chance = scene.noise.coincidence
    if chance is not None and chance.sensor == "port" and world.node[chance.rank] == node:
        since = times > scene.last_word[chance.step]
        host.symbol_errors = host.symbol_errors + since * 0.02
        host.loss = host.loss + since * 2
    return host


def _write_host(
    rng: Generator, scene: Scene, times: Floats, host: Host, usual: float, processors: int,
    add: Add,
) -> None:  # fmt: skip
    count, passed = len(times), intervals(times)
    used = np.clip(usual + host.busy + 0.01 * rng.normal(0, 1, count), 0.005, 0.97)
    for mode, share in (
        ("user", used * 0.8), ("system", used * 0.2), ("idle", 1 - used - 0.01),
        ("iowait", np.minimum(host.io_pressure, 0.01)), ("softirq", np.full(count, 0.002)),
    ):  # fmt: skip
        before = rng.uniform(1e4, 1e6)
        seconds = before + np.cumsum(np.maximum(share, 0) * passed * processors)
        add("host_cpu_seconds_total", f'mode="{mode}"', seconds)
    add("host_cpus", "", processors)
    add("load_average", 'window="1m"', used * processors * rng.uniform(0.9, 1.1, count))
    add("load_average", 'window="5m"', used * processors)
    for resource, share in (
        ("cpu", host.cpu_pressure), ("io", host.io_pressure), ("memory", np.full(count, 1e-5)),
    ):  # fmt: skip
        stalled = np.cumsum(share * passed * rng.gamma(4, 0.25, count))
        add("pressure_stalled_seconds_total", f'resource="{resource}",scope="some"', stalled)
    full = np.cumsum(host.io_pressure * 0.6 * passed)
    add("pressure_stalled_seconds_total", 'resource="io",scope="full"', full)
    add("cpu_throttled_seconds_total", "", 0)
    add("host_memory_total_bytes", "", 2e12)
    add("host_memory_available_bytes", "", 1.4e12 + rng.normal(0, 1e9, count))
    add("oom_kills_total", "", 0)
    saving = 2e9 * scene.noise.checkpoint_steps[scene.step_at(times)]
    read = np.cumsum(rng.gamma(2, 5e6, count) * passed)
    add("disk_bytes_total", 'device="nvme0n1",direction="read"', read)
    written = np.cumsum((rng.gamma(2, 3e6, count) + saving) * passed)
    add("disk_bytes_total", 'device="nvme0n1",direction="write"', written)
    disk = np.cumsum((0.01 + host.io_pressure * 0.8) * passed)
    add("disk_busy_seconds_total", 'device="nvme0n1"', disk)
    celsius = np.round(58 + rng.normal(0, 1.5, count))
    add("host_temperature_celsius", 'type="x86_pkg_temp",zone="0"', celsius)
    for kind in ("nic_module", "nic_transmit", "pcie_aer", "nic_hot", "hung_task", "oom"):
        told = np.zeros(count)
        if kind == "nic_module" and host.downs.any():
            told = host.downs * (rng.random() < 0.4)
        add("kernel_events_total", f'kind="{kind}",severity="warning"', told)


def _write_ethernet(
    rng: Generator, times: Floats, host: Host, traffic: Floats, carries: bool, lossy: bool, add: Add
) -> None:
    """TCP and eth0; faults of links show here where Ethernet carries the training."""
    count, passed = len(times), intervals(times)
    segments = np.cumsum(rng.gamma(4, 200, count) * passed)
    add("tcp_segments_total", 'direction="transmit"', segments)
    again = 0.02 + host.loss * (carries or lossy)
    add("tcp_retransmitted_segments_total", "", counted(rng, times, again))
    late = 0.0005 + host.loss * 0.01 * carries
    add("tcp_timeouts_total", "", counted(rng, times, late, 3))
    add("net_up", 'device="eth0"', 1.0)
    slower = np.where(host.slower > 0, ETHERNET / np.maximum(host.slower, 1), ETHERNET)
    speed = slower if carries else ETHERNET
    add("net_speed_bytes_per_second", 'device="eth0"', speed)
    add("net_carrier_changes_total", 'device="eth0"', 2 + 2 * host.downs * carries)
    for direction in ("transmit", "receive"):
        labels = f'device="eth0",direction="{direction}"'
        add("net_bytes_total", labels, np.cumsum(traffic * rng.gamma(20, 0.05, count) * passed))
        errors = counted(rng, times, host.symbol_errors * carries * 10, 0)
        add("net_errors_total", labels, errors)
        drops = counted(rng, times, host.loss * 0.05 * carries, 0)
        add("net_drops_total", labels, drops)


def _write_infiniband(
    rng: Generator, times: Floats, host: Host, adapter: int, traffic: Floats, add: Add,
) -> None:  # fmt: skip
    count, zero = len(times), np.zeros(len(times))
    device = f'device="mlx5_{adapter}"'
    port = f'{device},port="1"'
    hit = host.rail is None or host.rail == adapter
    slower, downs, loss = (host.slower, host.downs, host.loss) if hit else (zero, zero, zero)
    add(
        "ib_info",
        f'board_id="MT_0000000838",{device},firmware="28.39.1002",hca_type="MT4129",'
        f'link_layer="InfiniBand",netdev="",numa="0",pci_bus_id="0000:{0x40 + adapter:02x}:00.0",'
        'port="1"',
        1,
    )
    add("ib_port_state_id", port, 4)
    add("ib_port_physical_state_id", port, 5)
    rate = np.where(slower > 0, INFINIBAND / np.maximum(slower, 1), INFINIBAND)
    add("ib_port_rate_bytes_per_second", port, rate)
    for direction in ("transmit", "receive"):
        before = rng.uniform(1e12, 1e15)
        bytes_a_second = traffic * rng.gamma(30, 1 / 30, count)
        moved = before + np.cumsum(bytes_a_second * intervals(times))
        add("ib_port_data_bytes_total", f'{device},direction="{direction}",port="1"', moved)
    waited = counted(rng, times, host.wait, 0) % 2**32  # the register has 32 bits
    add("ib_port_xmit_wait_total", port, waited)
    symbols = host.symbol_errors if hit else np.full(count, 1e-6)
    recoveries = host.symbol_errors * 0.2 if hit else zero
    registers = {
        "symbol_error": counted(rng, times, symbols, 0),
        "link_downed": downs,
        "link_error_recovery": counted(rng, times, recoveries, 0) + downs,
        "port_rcv_errors": counted(rng, times, loss * 0.02, 0),
        "port_xmit_discards": counted(rng, times, 0, 0),
        "local_link_integrity_errors": zero,
        "excessive_buffer_overrun_errors": zero,
    }
    for kind, values in registers.items():
        add("ib_port_errors_total", f'{device},kind="{kind}",port="1"', values)
    going_down = np.gradient(downs) > 0 if count > 1 else zero
    for kind, a_second in (
        ("out_of_sequence", loss), ("packet_seq_err", loss * 0.7),
        ("local_ack_timeout_err", loss * 0.05 + going_down * 0.3 if count > 1 else loss),
        ("rnr_nak_retry_err", zero), ("np_cnp_sent", host.pause * 20),
        ("rp_cnp_handled", host.pause * 20),
    ):  # fmt: skip
        labels = f'{device},kind="{kind}",port="1"'
        add("rdma_hw_counters_total", labels, counted(rng, times, a_second))
