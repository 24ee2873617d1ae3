"""What a host tells of itself: its sources, processors, memory, pressure, disks, kernel."""

import numpy as np

from tests.benchmarks.foreign import kinds
from tests.benchmarks.foreign.scene import Node
from tests.benchmarks.foreign.streams import code_of
from tests.benchmarks.simulated.arrays import Floats
from tests.benchmarks.simulated.samples import labels

PROCESSORS = 96
MEMORY = 2.1e12
"""Bytes."""
DISK = "nvme0n1"
KERNEL_EVENTS = (
    ("oom", "warning"), ("hung_task", "warning"), ("pcie_aer", "warning"), ("nic_health", "fatal"),
    ("machine_check", "fatal"), ("nic_module", "warning"),
)  # fmt: skip


def tell(node: Node) -> None:
    """All series of a host but those of its ports."""
    _tell_sources(node)
    _tell_node(node)
    _tell_processors(node)
    _tell_memory(node)
    if not node.scene.lacks(kinds.PRESSURE):
        _tell_pressure(node)
    if not node.scene.lacks(kinds.DISK):
        _tell_disk(node)
    for kind, severity in KERNEL_EVENTS:
        node.add("kernel_events_total", labels(kind=kind, severity=severity), 0)


def _tell_sources(node: Node) -> None:
    scene = node.scene
    infiniband = scene.scenario.communication.fabric == "ib"
    for source, there in (
        ("rank_ring", True),
        ("schedstat", not scene.lacks(kinds.RUN_QUEUE)),
        ("cgroup", True),
        ("nvml", not scene.lacks(kinds.GPU)),
        ("procfs", True),
        ("infiniband", infiniband),
        ("infiniband_errors", infiniband and not scene.lacks(kinds.PORT_ERRORS)),
        ("netdev", True),
        ("tcp", True),
        ("diskstats", not scene.lacks(kinds.DISK)),
        ("xid", not scene.lacks(kinds.GPU)),
        ("kmsg", True),
    ):
        node.add("source_up", labels(source=source), float(there))
        node.add("source_available", labels(source=source), float(there))


def _tell_node(node: Node) -> None:
    scene = node.scene
    boot = code_of(f"boot{scene.scenario.seed}{node.number}")
    node.add(
        "node_info",
        labels(
            hostname=node.name, kernel="5.15.0-1053", emulated="false",
            boot_id=f"{boot:08x}-0000-4000-8000-000000000000",
        ),
        1,
    )  # fmt: skip
    node.add("build_info", labels(version="0.1.0", python="3.11.7"), 1)
    node.add("boot_time_seconds", "", scene.begin - 86400 * 9)
    node.add("clock_synchronized", "", 1)
    node.add("clock_offset_seconds", "", 0)
    node.add("clock_max_error_seconds", "", 0.02)


def _waiting_for_disk(node: Node) -> Floats:
    """(steps,) seconds more of reading."""
    waiting: Floats = (node.scene.timeline.disk[:, node.number] - 1) * node.scene.mean_wall
    return waiting


def _tell_processors(node: Node) -> None:
    scene, elapsed = node.scene, node.elapsed
    left = scene.timeline.host[:, node.number]
    others = node.total((1 / left - 1) * scene.mean_wall * 20)
    user = elapsed * len(node.ranks) * 1.6 + others
    idle = np.maximum.accumulate(np.maximum(0, elapsed * PROCESSORS - user * 1.12))
    waiting = elapsed * 0.05
    for mode, seconds in (
        ("user", 9e5 + user),
        ("system", 1e5 + user * 0.12),
        ("idle", 6e7 + idle),
        ("iowait", 2e3 + waiting + node.total(_waiting_for_disk(node))),
    ):
        node.add("host_cpu_seconds_total", labels(mode=mode), seconds)
    node.add("host_cpus", "", PROCESSORS)
    unsteady = scene.rng.normal(0, 0.6, len(node.times))
    load = 12 + 30 * (1 / left[node.now] - 1) + unsteady
    node.add("load_average", labels(window="1m"), load)


def _tell_memory(node: Node) -> None:
    taken = np.minimum(1, node.scene.timeline.memory[:, node.number][node.now])
    free = 0.62 - 0.58 * taken
    node.add("host_memory_total_bytes", "", MEMORY)
    unsteady = node.scene.rng.normal(0, 0.004, len(node.times))
    node.add("host_memory_available_bytes", "", MEMORY * (free + unsteady))


def _tell_pressure(node: Node) -> None:
    timeline, number = node.scene.timeline, node.number
    for resource, share in (
        ("cpu", (1 / timeline.host[:, number] - 1) * 0.5),
        ("io", np.minimum(0.8, (timeline.disk[:, number] - 1) * 0.3)),
        ("memory", np.minimum(0.8, timeline.memory[:, number] * 0.3)),
    ):
        stalled = node.total(share * node.scene.mean_wall)
        some = 500 + node.elapsed * 0.002 + stalled
        full = 100 + 0.4 * stalled * (resource != "cpu")
        for scope, seconds in (("some", some), ("full", full)):
            name = labels(resource=resource, scope=scope)
            node.add("pressure_stalled_seconds_total", name, seconds)


def _tell_disk(node: Node) -> None:
    elapsed = node.elapsed
    writing = node.total(node.scene.timeline.phases["checkpoint"][:, node.ranks].max(1))
    reading = node.total(_waiting_for_disk(node) * 0.5)
    written = 8e11 + elapsed * 1e6 + writing * 8e8
    for metric, direction, values in (
        ("bytes", "write", written),
        ("bytes", "read", 2e12 + elapsed * 2e8),
        ("busy_seconds", None, 4000 + elapsed * 0.08 + writing * 0.9 + reading),
        ("time_seconds", "read", 9000 + elapsed * 0.2 + reading * 4),
        ("time_seconds", "write", 900 + elapsed * 0.02 + writing * 3),
    ):
        way = {} if direction is None else {"direction": direction}
        node.add(f"disk_{metric}_total", labels(device=DISK, **way), values)
