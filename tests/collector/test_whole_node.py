"""A node of eight GPUs with all it has to say: it fits on the page, and nothing is dropped."""

import time
from collections import Counter

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.config import Address
from lockstep.collector.contract import metrics as m
from lockstep.collector.exporter.exporter import Exporter
from lockstep.collector.registry import NAMES, feeds
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.samples.monitor import collect_build
from lockstep.collector.sources.network.ethtool import source as ethtool

pytest.importorskip("pynvml")
GPUS, GROUPS_USED, PORTS, DISKS = 8, 4, 10, 10
INSTEAD_OF_NVML = {"replay", "simulated", "dcgm", "dcgm_exporter"}
EVERY_PLACE_OF_ECC = 0xFF


@pytest.fixture
def node(machine, image, nvml, network_node, monkeypatch):
    """Eight H100, a rank on each, eight ports of 400G for computing and two for storage."""
    machine.host()
    (machine.sys / "class/infiniband/mlx5_0/device").unlink()  # it is built again
    netdevs = network_node.node_8x400g(machine)
    nics = network_node.FakeNics(dict.fromkeys([*netdevs, "eno1"], network_node.mlx5_statistics()))
    monkeypatch.setattr(ethtool, "Kernel", nics.open)
    machine.file(
        machine.proc / "diskstats",
        "".join(
            f" 259 {number} nvme{number}n1 100 5 2000 1500 50 6 4000 2500 3 3250 4000 0 0 0 0 0 0\n"
            for number in range(DISKS)
        ),
    )
    machine.file(machine.proc / "self/schedstat", "1 2 3\n")
    machine.throttled("/train", 2_500_000_000)
    nvml.plug(GPUS)
    now = time.monotonic_ns()
    for rank in range(GPUS):
        nvml.gpu(rank).ecc_location_present = EVERY_PLACE_OF_ECC
        pid = 100 + rank
        machine.process(pid, cgroup="/train")
        machine.file(machine.proc / f"{pid}/schedstat", "5000000000 125000000 91\n")
        machine.ring(image(
            rank=rank, world=GPUS, pid=pid, gpu=rank, uuid=f"GPU-{rank}", used=GROUPS_USED,
            heartbeat_ns=now, progress_ns=now, open=(15, 1, now),
            round_trip_ns=0,  # over InfiniBand no TCP connection carries data
        ).training(6))  # fmt: skip
    return machine


@pytest.fixture
def page(node) -> str:
    clock = SystemClock()
    names = tuple(name for name in NAMES if name not in INSTEAD_OF_NVML)
    config = node.config(listen=Address("127.0.0.1", 0), sources=names, fast_period=0.5, ttl=600.0)
    own = collect_build("0.1.0", "3.11")
    sampler = Sampler(feeds(config, clock), clock, config.ttl, own)
    sampler.start()
    try:
        sampler.wait_ready()
        exporter = Exporter(config, sampler, clock)
        deadline = time.monotonic() + 60
        # Activity is the difference of two readings; who holds a GPU, of two sources.
        late = (m.GPU_TENSOR_ACTIVE.name, m.GPU_ALLOCATION_INFO.name, m.GPU_XID_ERRORS.name)
        while any((text := exporter.page()).count(f"\n{name}{{") < GPUS for name in late):
            assert time.monotonic() < deadline, "the page is not whole"
            time.sleep(0.1)
    finally:
        sampler.stop()
    return text


def test_all_that_a_node_of_eight_gpus_says_fits_on_its_page(page):
    series = [line for line in page.splitlines() if not line.startswith("#")]
    names = Counter(line.partition("{")[0].partition(" ")[0] for line in series)

    assert 18 * GPUS == names[m.GPU_NVLINK_UP.name]
    assert GROUPS_USED * GPUS == names[m.TRAIN_COLLECTIVES.name]
    assert 2 * PORTS == names[m.IB_DATA.name]
    assert 2 * (PORTS + 1) == names[m.NET_PAUSE.name]
    assert DISKS == names[m.DISK_BUSY.name]
    assert 0 == names[m.SERIES_DROPPED.name]
    assert 2500 >= len(series)  # the cap: nothing was dropped, as the line above says
