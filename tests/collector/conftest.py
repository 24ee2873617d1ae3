"""A machine that does not exist: its clock, procfs, cgroups, rings and simulated GPU."""

import importlib.util
import json
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.config import Config
from lockstep.collector.contract import ring
from lockstep.collector.contract.words import GROUPS, OPS, PHASES, RANK_STATES

NOW = 1000.0


def _beside(name: str) -> Any:
    """A module of this folder: test files are imported alone, from no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


network_node = _beside("network_node")


@dataclass
class FakeClock:
    """Stands still unless someone sleeps."""

    now: float = NOW
    unix: float = 1_800_000_000.0

    def wall(self) -> float:
        return self.unix

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.unix += seconds


@dataclass
class RingImage:
    """The bytes of a ring file, packed from the contract's structs and not by the writer."""

    rank: int = 0
    world: int = 4
    run: str = "gpt-1"
    node: str = "node-0"
    uuid: str = "GPU-0"
    pid: int = 100
    gpu: int = 0
    attempt: int = 0
    pp: int = 0
    version: int = ring.VERSION
    magic: bytes = ring.MAGIC
    start_wall_ns: int = 1_799_999_000_000_000_000
    wall_minus_monotonic_ns: int = 1_799_999_000_000_000_000
    clock_offset_ns: int = 7
    guard: int = 2
    state: str = "running"
    heartbeat_ns: int = round((NOW - 0.25) * 1e9)
    round_trip_ns: int = 250_000
    progress_ns: int = round((NOW - 0.125) * 1e9)
    steps: int = 12
    step_ns: int = 50_000_000
    loss: float = 2.5
    groups: tuple[str, ...] = GROUPS
    used: int = 2
    enqueued: int = 24
    completed: int = 23
    open: tuple[int, int, int] | None = None
    tags: tuple[str, ...] = ("grads.0",)
    values: tuple[tuple[bytes, float], ...] = ()
    exchange: ring.Exchange | None = None
    ops: list[tuple[Any, ...]] = field(default_factory=list)
    step_records: list[tuple[Any, ...]] = field(default_factory=list)

    def op(self, op: str, step: int, start: int, end: int, **more: Any) -> None:
        group = more.get("group", ring.LOCAL_GROUP)
        self.ops.append((
            OPS.index(op), group, more.get("flags", 0), step, more.get("sequence", 0),
            more.get("tag", ring.NO_TAG), 0, more.get("size", 0), start, end, len(self.ops) + 1,
        ))  # fmt: skip

    def step(
        self, step: int, start: int, wall: int, loss: float = 2.5, tags: int = 0,
        *, known: bool = True,
    ) -> None:  # fmt: skip
        phases = [wall // len(PHASES)] * len(PHASES)
        own = wall // 4 if known else ring.OWN_UNKNOWN_NS
        wait = wall - own if known else ring.OWN_UNKNOWN_NS
        guard = len(self.step_records) + 1
        self.step_records.append(
            (step, start, wall, wall // 2, own, *phases, tags, 4, 256, 1e9, loss, guard)
            if self.version == 1
            else (step, tags, start, wall, wall // 2, own, wait, *phases, 256, 1e9, loss, 4, guard)
        )

    def training(self, steps: int, first: int = 0, late: int = 0) -> "RingImage":
        """Steps of 50 ms with a forward pass, a backward pass and one collective each."""
        base = round(NOW * 1e9)
        for step in range(first, first + steps):
            start = base + step * self.step_ns + late
            self.op("forward-compute", step, start, start + 10_000_000)
            self.op("backward-compute", step, start + 10_000_000, start + 20_000_000)
            self.op(
                "dp-all-reduce", step, start + 20_000_000, start + 40_000_000,
                group=1, sequence=step + 1, tag=0, size=4096,
            )  # fmt: skip
            self.step(step, start, 50_000_000)
        return self

    def bytes(self) -> bytes:
        data = bytearray(ring.FILE_BYTES)
        ring.IDENTITY.pack_into(
            data, ring.IDENTITY_OFFSET, self.magic, self.version, ring.HEADER_BYTES,
            self.run.encode(), self.node.encode(), self.uuid.encode(),
            self.rank, self.world, self.rank, self.attempt, self.pid, self.rank, self.pp, 0, 0, 0,
            self.gpu, 0, self.start_wall_ns, self.wall_minus_monotonic_ns, self.clock_offset_ns,
            100, ring.OP_CAPACITY, ring.STEP_CAPACITY, ring.OP_RECORD.size, ring.STEP_RECORD.size,
        )  # fmt: skip
        ring.STATE.pack_into(data, ring.STATE_OFFSET, RANK_STATES.index(self.state))  # type: ignore[arg-type]
        ring.HEARTBEAT.pack_into(data, ring.HEARTBEAT_OFFSET, self.heartbeat_ns)
        ring.ROUND_TRIP.pack_into(data, ring.ROUND_TRIP_OFFSET, self.round_trip_ns)
        ring.GUARD.pack_into(data, ring.GUARD_OFFSET, self.guard)
        for place, value in enumerate(self.values):
            ring.VALUE.pack_into(data, ring.VALUES_OFFSET + place * ring.VALUE.size, *value)
        if self.exchange is not None:
            data[ring.EXCHANGE_OFFSET : ring.HEADER_BYTES] = exchange_bytes(self.exchange)
        op, group, since = self.open or (0, 0, 0)
        ring.LIVE.pack_into(
            data, ring.LIVE_OFFSET, len(self.ops), len(self.step_records), self.steps, 3, op,
            group, 0, self.enqueued if self.open else 0, since, self.progress_ns,
        )  # fmt: skip
        phases = [self.steps * self.step_ns // len(PHASES)] * len(PHASES)
        ring.COUNTERS.pack_into(
            data, ring.COUNTERS_OFFSET, self.steps, self.steps * self.step_ns,
            self.steps * self.step_ns // 2, self.steps * self.step_ns // 4, self.steps * 4,
            self.steps * 256, self.steps * 1e9, self.loss, *phases,
        )  # fmt: skip
        for index, name in enumerate(self.groups):
            struct.pack_into("16s", data, ring.GROUP_NAMES_OFFSET + index * 16, name.encode())
            if index < self.used:
                ring.GROUP_COUNTERS.pack_into(
                    data, ring.GROUP_COUNTERS_OFFSET + index * ring.GROUP_COUNTERS.size,
                    150_000_000, self.completed, self.enqueued, self.completed,
                )  # fmt: skip
        for index, name in enumerate(self.tags):
            struct.pack_into("32s", data, ring.TAG_NAMES_OFFSET + index * 32, name.encode())
        for number, record in enumerate(self.ops):
            offset = ring.OPS_OFFSET + number % ring.OP_CAPACITY * ring.OP_RECORD.size
            ring.OP_RECORD.pack_into(data, offset, *record)
        for number, record in enumerate(self.step_records):
            offset = ring.STEPS_OFFSET + number % ring.STEP_CAPACITY * ring.STEP_RECORD.size
            layout = ring.STEP_RECORDS.get(self.version, ring.STEP_RECORD)
            layout.pack_into(data, offset, *record)
        return bytes(data)


def exchange_bytes(told: ring.Exchange) -> bytes:
    """From ring.EXCHANGE_OFFSET to the end of the header."""
    data = bytearray(ring.HEADER_BYTES - ring.EXCHANGE_OFFSET)
    ring.EXCHANGE.pack_into(data, 0, *told[:3])
    offset = ring.EXCHANGE.size
    for group in told.groups:
        ring.EXCHANGE_GROUP.pack_into(data, offset, *group)
        offset += ring.EXCHANGE_GROUP.size
    offset = ring.EXCHANGE.size + ring.MAX_PARTNERS * ring.EXCHANGE_GROUP.size
    for peer in told.peers:
        ring.EXCHANGE_PEER.pack_into(data, offset, *peer)
        offset += ring.EXCHANGE_PEER.size
    return bytes(data)


class Machine:
    """Trees of a machine under a temporary folder."""

    def __init__(self, root: Path, clock: FakeClock) -> None:
        self.clock = clock
        self.proc, self.sys, self.rings = root / "proc", root / "sys", root / "rings"
        for folder in (self.proc, self.sys, self.rings):
            folder.mkdir()

    def file(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def process(self, pid: int, state: str = "R", name: str = "python", cgroup: str = "/") -> None:
        fields = " ".join(["0"] * 10 + ["250", "50"] + ["0"] * 8 + ["1000"])
        self.file(self.proc / str(pid) / "stat", f"{pid} ({name}) {state} {fields} 0\n")
        self.file(self.proc / str(pid) / "statm", "9000 1000 500 1 0 8000 0\n")
        self.file(self.proc / str(pid) / "cgroup", f"3:cpu,cpuacct:{cgroup}\n0::/\n")

    def end_process(self, pid: int) -> None:
        for name in ("stat", "statm", "cgroup"):
            (self.proc / str(pid) / name).unlink()
        (self.proc / str(pid)).rmdir()

    def throttled(self, cgroup: str, nanoseconds: int) -> None:
        self.file(
            self.sys / "fs/cgroup/cpu" / cgroup.lstrip("/") / "cpu.stat",
            f"nr_periods 10\nnr_throttled 3\nthrottled_time {nanoseconds}\n",
        )

    def ring(self, image: RingImage, folder: str = ".", name: str | None = None) -> Path:
        path = self.rings / folder / (name or ring.file_name(image.rank))
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_name(f".{path.name}")  # a sampler may read while we write
        whole.write_bytes(image.bytes())
        return whole.replace(path)

    def gpu(self, state: dict[str, Any], folder: str = ".") -> Path:
        return self.file(self.rings / folder / f"gpu-{state['gpu']}.json", json.dumps(state))

    def host(self) -> None:
        self.file(
            self.proc / "stat",
            "cpu  1000 20 300 40000 50 6 70 8 0 0\ncpu0 500 10 150 20000 25 3 35 4 0 0\n"
            "cpu1 500 10 150 20000 25 3 35 4 0 0\nintr 12345 0 0\nctxt 99\nbtime 1799000000\n",
        )
        self.file(self.proc / "loadavg", "0.50 1.25 2.00 3/400 5000\n")
        self.file(
            self.proc / "meminfo",
            "MemTotal:       16000000 kB\nMemFree:         1000000 kB\n"
            "MemAvailable:    8000000 kB\nCached: 2000000 kB\nSwapTotal: 0 kB\n"
            "SwapFree: 0 kB\nDirty: 300 kB\nWriteback: 40 kB\n"
            "Shmem:            500000 kB\nHugePages_Total:       0\n",
        )
        for resource in ("cpu", "io", "memory"):
            self.file(
                self.proc / "pressure" / resource,
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n"
                "full avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n",
            )
        network_node.traffic(self, "eth0")
        network_node.interface(self, "eth0")
        network_node.rdma_port(self, "mlx5_0", "eth0")
        self.file(
            self.proc / "diskstats",
            "   7       0 loop0 9 9 9 9 9 9 9 9 9 9 9 0 0 0 0 0 0\n"
            " 259       0 nvme0n1 100 5 2000 1500 50 6 4000 2500 3 3250 4000 0 0 0 0 0 0\n"
            " 259       1 nvme0n1p1 9 9 9 9 9 9 9 9 9 9 9 0 0 0 0 0 0\n",
        )
        self.file(
            self.proc / "net/softnet_stat",
            "00000100 00000001 00000002" + " 00000000" * 9 + " 00000000 00000000 00000000\n"
            "00000010 00000000 00000003" + " 00000000" * 9 + " 00000001 00000000 00000000\n",
        )
        self.file(
            self.proc / "net/snmp",
            "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
            "Tcp: RtoAlgorithm MaxConn InSegs OutSegs RetransSegs\nTcp: 1 -1 5000 4000 30\n",
        )
        self.file(
            self.proc / "net/netstat",
            "TcpExt: SyncookiesSent TCPTimeouts TCPSynRetrans\nTcpExt: 0 7 8\n"
            "IpExt: InOctets\nIpExt: 99\n",
        )
        self.file(self.proc / "vmstat", "nr_free_pages 12\nnuma_miss 11\noom_kill 2\n")
        zone = self.sys / "class/thermal/thermal_zone0"
        self.file(zone / "type", "x86_pkg_temp\n")
        self.file(zone / "temp", "61500\n")
        processor = self.sys / "devices/system/cpu/cpu0"
        self.file(processor / "topology/physical_package_id", "0\n")
        self.file(processor / "topology/core_id", "0\n")
        for level, count in (("core", 3), ("package", 4)):
            counts = processor / "thermal_throttle"
            self.file(counts / f"{level}_throttle_count", f"{count}\n")
            self.file(counts / f"{level}_throttle_total_time_ms", "1500\n")
        kernel = self.proc / "sys/kernel"
        self.file(kernel / "hostname", "gpu-07\n")
        self.file(kernel / "osrelease", "6.1.0-lockstep\n")
        self.file(kernel / "random/boot_id", "00000000-1111-2222-3333-444444444444\n")
        self.file(
            self.proc / "self/stat",
            "42 (python) S 1 42 42 0 -1 4194304 900 0 0 0 250 50 0 0 20 0 3 0 500 1000000 2048 0\n",
        )
        self.file(self.proc / "self/statm", "250 2048 900 1 0 700 0\n")

    def config(self, **more: Any) -> Config:
        # Not this machine's.
        kmsg, kubelet = self.proc.parent / "kmsg", self.proc.parent / "kubelet.sock"
        paths = {
            "proc": self.proc, "sys": self.sys, "lockstep_dir": self.rings, "kmsg": kmsg,
            "pod_resources": kubelet,
        }  # fmt: skip
        # Nor what its NCCL says, and where its torch leaves dumps.
        nccl = {"ras": (), "flight_recorder": str(self.proc.parent / "nccl_trace_rank_")}
        return Config(**(paths | nccl | more))


@pytest.fixture(scope="session")
def nvml_mock(request: pytest.FixtureRequest) -> Any:
    """The module that builds and drives our own libnvidia-ml; skips without a compiler."""
    path = Path(__file__).parent / "nvml_mock" / "mock.py"
    spec = importlib.util.spec_from_file_location("nvml_mock", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    try:
        module.folder = module.build(request.config.rootpath / ".cache" / "nvml_mock")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return module


@pytest.fixture
def nvml(nvml_mock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A machine with two H100s behind our libnvidia-ml; processes started from here see it."""
    mock = nvml_mock.NvmlMock(nvml_mock.folder, tmp_path / "nvml-state")
    mock.plug(2)
    for name, value in mock.environment.items():
        monkeypatch.setenv(name, value)
    yield mock
    mock.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def machine(tmp_path: Path, clock: FakeClock) -> Machine:
    return Machine(tmp_path, clock)


@pytest.fixture(name="network_node")
def network_node_module() -> Any:
    """The module that builds the network of a node."""
    return network_node


@pytest.fixture
def image() -> type[RingImage]:
    return RingImage


@pytest.fixture
def gpu_state() -> Callable[..., dict[str, Any]]:
    def state(**more: Any) -> dict[str, Any]:
        return {
            "gpu": 0, "uuid": "GPU-0", "model": "Simulated H100", "driver": "simulated",
            "time_ns": round((NOW - 0.5) * 1e9), "pid": 100, "utilization_ratio": 0.875,
            "memory_used_bytes": 4e9, "memory_total_bytes": 8e10, "temperature_celsius": 71.5,
            "slowdown_limit_celsius": 90.0, "shutdown_limit_celsius": 95.0, "power_watts": 512.25,
            "power_limit_watts": 700.0, "power_limit_default_watts": 700.0,
            "energy_joules": 12345.5, "sm_clock_hertz": 1.335e9, "sm_clock_max_hertz": 1.98e9,
            "clock_event_seconds": {"hw_thermal": 3.25, "sw_power_cap": 0.0},
            "clock_event_active": ["hw_thermal"],
            "ecc_errors": {"corrected/volatile": 3.0, "uncorrected/volatile": 0.0},
            "remapped_rows": {"uncorrectable": 1.0}, "row_remap_pending": 1.0,
            "row_remap_failed": 0.0, "pcie_width": 4.0, "pcie_width_max": 16.0,
            "pcie_generation": 5.0, "pcie_generation_max": 5.0, "pcie_replay": 7.0,
            "nvlink_up": {"0": 1.0, "1": 0.0}, "nvlink_errors": {"all/replay": 12.0},
            "xid_errors": {"63": 1.0}, "xid_last": {"63": 1.75e9},
        } | more  # fmt: skip

    return state
