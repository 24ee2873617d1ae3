"""Sources of the host that read one kernel file each: right numbers, or counted and absent."""

import contextlib
import ctypes
import errno
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import SourceError
from lockstep.collector.samples import host, network, ranks
from lockstep.collector.sources.host import cgroup_tree, kernel_clock
from lockstep.collector.sources.host.cgroup_tree import CgroupTree
from lockstep.collector.sources.host.diskstats import Diskstats
from lockstep.collector.sources.host.identity import Identity
from lockstep.collector.sources.host.kernel_clock import KernelClock, Timex
from lockstep.collector.sources.host.thermal import ThermalZones
from lockstep.collector.sources.host.vmstat import Vmstat
from lockstep.collector.sources.network.softnet import SoftnetStat
from lockstep.collector.sources.network.tcp import TcpCounters

PROPERTY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
FILES = {
    "diskstats": ("proc/diskstats", lambda one: Diskstats(one.proc)),
    "softnet": ("proc/net/softnet_stat", lambda one: SoftnetStat(one.proc)),
    "snmp": ("proc/net/snmp", lambda one: TcpCounters(one.proc)),
    "netstat": ("proc/net/netstat", lambda one: TcpCounters(one.proc)),
    "vmstat": ("proc/vmstat", lambda one: Vmstat(one.proc)),
    "temp": ("sys/class/thermal/thermal_zone0/temp", lambda one: ThermalZones(one.sys)),
    "type": ("sys/class/thermal/thermal_zone0/type", lambda one: ThermalZones(one.sys)),
    "cpu.stat": ("sys/fs/cgroup/cpu/cpu.stat", lambda one: CgroupTree(one.sys)),
}


@pytest.fixture
def host_machine(machine):
    machine.host()
    machine.throttled("/", 3_500_000_000)
    return machine


def test_disks_are_in_bytes_and_seconds_without_partitions(host_machine):
    (disk,) = Diskstats(host_machine.proc).read().disks

    assert disk.device == "nvme0n1"
    assert disk.bytes == (2000 * 512, 4000 * 512)
    assert disk.operations == (100, 50)
    assert disk.seconds == (1.5, 2.5)
    assert (disk.busy_seconds, disk.in_flight) == (3.25, 3)


def test_disks_that_do_nothing_are_the_very_same_reading(host_machine):
    source = Diskstats(host_machine.proc)
    first, second = source.read(), source.read()
    path = host_machine.proc / "diskstats"
    path.write_text(path.read_text().replace("nvme0n1 100", "nvme0n1 101"))

    assert first is second
    assert [101] == [disk.operations[0] for disk in source.read().disks]


def test_softnet_is_summed_over_processors(host_machine):
    softnet = SoftnetStat(host_machine.proc).read()

    assert (softnet.processed, softnet.dropped, softnet.squeezed) == (0x110, 1, 5)


def test_a_wrap_of_one_processor_does_not_let_the_sum_fall(host_machine):
    source, path = SoftnetStat(host_machine.proc), host_machine.proc / "net/softnet_stat"
    text = path.read_text()
    path.write_text(text.replace("00000100", "fffffff0"))
    before = source.read().processed
    path.write_text(text.replace("00000100", "00000010"))

    assert source.read().processed == before + 0x20


def test_a_processor_that_goes_offline_keeps_its_count(host_machine):
    source, path = SoftnetStat(host_machine.proc), host_machine.proc / "net/softnet_stat"
    before = source.read()
    first, second = path.read_text().splitlines(keepends=True)
    path.write_text(second)
    without = source.read()
    path.write_text(first + second)

    assert before == without == source.read()


def test_tcp_has_the_kernels_counts(host_machine):
    values = {
        (sample.metric, sample.labels): sample.value
        for sample in network.collect_tcp(TcpCounters(host_machine.proc).read())
    }

    assert values == {
        (m.TCP_SEGMENTS, ("receive",)): 5000,
        (m.TCP_SEGMENTS, ("transmit",)): 4000,
        (m.TCP_RETRANSMITTED, ()): 30,
        (m.TCP_SYN_RETRANSMITS, ()): 8,
        (m.TCP_TIMEOUTS, ()): 7,
    }


def test_names_in_another_order_are_looked_up_anew(host_machine):
    source = TcpCounters(host_machine.proc)
    source.read()
    (host_machine.proc / "net/snmp").write_text(
        "Tcp: RetransSegs InSegs OutSegs\nTcp: 31 5001 4001\n"
    )

    assert {"InSegs": 5001, "OutSegs": 4001, "RetransSegs": 31} | {
        "TCPSynRetrans": 8, "TCPTimeouts": 7
    } == source.read().counts  # fmt: skip


def test_one_bad_tcp_file_leaves_the_other(host_machine):
    (host_machine.proc / "net/netstat").write_text("TcpExt: TCPTimeouts\nTcpExt: many\n")
    reading = TcpCounters(host_machine.proc).read()

    assert reading.counts == {"InSegs": 5000, "OutSegs": 4000, "RetransSegs": 30}
    assert [one.reason for one in reading.rejected] == ["content"]


def test_a_kernel_without_numa_counts_gives_the_rest(host_machine):
    (host_machine.proc / "vmstat").write_text("oom_kill 4\n")

    assert (4, None) == (
        (reading := Vmstat(host_machine.proc).read()).oom_kills,
        reading.numa_misses,
    )


def test_a_zone_that_does_not_answer_is_left_out_alone(host_machine):
    zone = host_machine.sys / "class/thermal/thermal_zone1"
    host_machine.file(zone / "type", "acpitz\n")
    reading = ThermalZones(host_machine.sys).read()

    assert [("0", "x86_pkg_temp", 61.5)] == list(reading.zones)
    assert [one.reason for one in reading.rejected] == ["missing"]


def test_a_machine_without_zones_says_so(machine):
    source = ThermalZones(machine.sys)

    assert not source.available()
    assert "no thermal zone under" in source.why_not()


def test_throttling_is_summed_over_the_tree_from_the_first_reading_on(host_machine):
    host_machine.throttled("/kubepods/pod1", 1_000_000_000)
    source = CgroupTree(host_machine.sys)
    first = source.read().seconds
    host_machine.throttled("/kubepods/pod1", 1_500_000_000)
    host_machine.throttled("/", 3_600_000_000)

    assert (0, pytest.approx(0.6)) == (first, source.read().seconds)


def test_a_restart_does_not_count_again_what_removed_groups_had_counted(host_machine):
    source = CgroupTree(host_machine.sys)
    source.read()
    host_machine.throttled("/pod1", 90_000_000_000)
    before = source.read().seconds

    # Prometheus takes a fall for a reset, and what is told then for new.
    assert (90, 0) == (before, CgroupTree(host_machine.sys).read().seconds)


def test_a_group_that_ends_takes_nothing_away_and_a_new_one_adds(host_machine):
    source = CgroupTree(host_machine.sys)
    source.read()
    host_machine.throttled("/pod1", 1_000_000_000)
    first = source.read().seconds
    pod = host_machine.sys / "fs/cgroup/cpu/pod1"
    (pod / "cpu.stat").unlink()
    pod.rmdir()
    second = source.read().seconds
    host_machine.throttled("/pod1", 250_000_000)

    assert (1, 1, 1.25) == (first, second, source.read().seconds)


def test_a_group_that_cannot_be_read_once_is_not_counted_twice(host_machine):
    source = CgroupTree(host_machine.sys)
    path = host_machine.sys / "fs/cgroup/cpu/cpu.stat"
    text = path.read_text()
    path.write_bytes(b"\xff\n")
    assert [one.reason for one in source.read().rejected] == ["content"]
    path.write_text(text)
    right = source.read().seconds
    path.write_bytes(b"\xff\n")
    source.read()
    host_machine.throttled("/", 3_750_000_000)

    assert (0, pytest.approx(0.25)) == (right, source.read().seconds)


def test_groups_that_cannot_be_listed_once_are_not_counted_twice(host_machine, monkeypatch):
    host_machine.throttled("/pod1", 9_000_000_000)
    source = CgroupTree(host_machine.sys)
    source.read()
    with monkeypatch.context() as without_descriptors:
        refused = OSError(errno.EMFILE, "Too many open files")
        without_descriptors.setattr(cgroup_tree.os, "scandir", Mock(side_effect=refused))
        during = source.read()
    host_machine.throttled("/pod1", 9_500_000_000)

    assert (0, ["io"]) == (during.seconds, [one.reason for one in during.rejected])
    assert 0.5 == source.read().seconds


def test_groups_beyond_the_bound_are_counted_from_when_they_are_seen(host_machine, monkeypatch):
    monkeypatch.setattr(cgroup_tree, "MAX_GROUPS", 2)
    for pod in ("a", "b"):
        host_machine.throttled(f"/{pod}", 1_000_000_000)
    source = CgroupTree(host_machine.sys)
    assert ["too_many"] == [one.reason for one in source.read().rejected]
    gone = host_machine.sys / "fs/cgroup/cpu/a"
    (gone / "cpu.stat").unlink()
    gone.rmdir()
    seen = source.read().seconds
    host_machine.throttled("/b", 1_500_000_000)

    assert (0, 0.5) == (seen, source.read().seconds)


def test_version_2_counts_microseconds(machine):
    root = machine.sys / "fs/cgroup"
    machine.file(root / "cgroup.controllers", "cpu io\n")
    machine.file(root / "cpu.stat", "usage_usec 5\ncore_sched.force_idle_usec 0\n")
    source = CgroupTree(machine.sys)
    source.read()
    machine.file(root / "job/cpu.stat", "usage_usec 5\nthrottled_usec 2500000\n")

    reading = source.read()
    assert [m.CPU_THROTTLED(2.5)] == list(ranks.collect_node_throttling(reading))
    assert () == reading.rejected


@settings(PROPERTY)
@given(cut=st.integers(0, 60))
def test_a_group_whose_file_is_cut_counts_right_or_not_at_all(host_machine, cut):
    source = CgroupTree(host_machine.sys)
    path = host_machine.sys / "fs/cgroup/cpu/cpu.stat"
    host_machine.throttled("/", 3_500_000_000)
    source.read()
    host_machine.throttled("/", 4_500_000_000)
    whole = path.read_text()
    path.write_text(whole[:cut])
    during = source.read().seconds
    path.write_text(whole)

    assert during == (1.0 if cut >= len(whole) else 0.0)
    assert 1.0 == source.read().seconds


def test_the_kernels_clock_is_in_seconds():
    nano = KernelClock(lambda: Timex(offset=-2500, maxerror=1250, status=0x2000)).read()
    micro = KernelClock(lambda: Timex(offset=1000, maxerror=1250, status=0x40)).read()

    assert (nano.offset, nano.max_error, nano.synchronized) == (-2.5e-6, 1.25e-3, True)
    assert (micro.offset, micro.synchronized) == (1e-3, False)


def test_this_machines_clock_answers():
    assert 208 == ctypes.sizeof(Timex)
    assert 0 <= KernelClock().read().max_error < 1e6


def test_a_sandbox_that_forbids_the_clock_is_named(monkeypatch):
    class Refusing:
        def adjtimex(self, _):
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(kernel_clock.ctypes, "CDLL", lambda *_, **__: Refusing())

    with pytest.raises(SourceError, match="adjtimex: Operation not permitted"):
        KernelClock().read()


def test_the_boot_has_a_name_and_a_time(host_machine):
    samples = list(host.collect_identity(Identity(host_machine.proc, None).read()))

    assert m.BOOT_TIME(1799000000) in samples
    assert m.BOOT_INFO(1, "00000000-1111-2222-3333-444444444444") in samples


def numbers(value) -> list:
    """All numbers inside a reading."""
    if isinstance(value, (int, float)):
        return [value]
    if isinstance(value, dict):
        return [number for one in value.values() for number in numbers(one)]
    if isinstance(value, (tuple, list)):
        return [number for one in value for number in numbers(one)]
    names = getattr(type(value), "__dataclass_fields__", {})
    return [number for name in names for number in numbers(getattr(value, name))]


@pytest.mark.sweep
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "content", [b"", b"\n", b"9" * 3_000_000, b"\0" * 99, b"a b c\n", b"1e5\n"]
)
def test_what_is_no_number_is_named_and_never_raised(host_machine, name, content):
    path, make = FILES[name]
    good = numbers(make(host_machine).read())
    (host_machine.proc.parent / path).write_bytes(content)
    source = make(host_machine)

    try:
        reading, reason = source.read(), "content"
    except SourceError as error:
        reading, reason = None, error.reason

    assert reason in ("content", "encoding")
    assert set(numbers(reading)) <= {*good, 0}


@pytest.mark.sweep
@pytest.mark.parametrize("name", FILES)
@settings(PROPERTY)
@given(data=st.data())
def test_a_file_cut_anywhere_gives_right_numbers_or_none(host_machine, name, data):
    path, make = FILES[name]
    file = host_machine.proc.parent / path
    whole = file.read_bytes()
    right = numbers(make(host_machine).read())

    file.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        found = numbers(make(host_machine).read())
    except SourceError:
        found = []
    finally:
        file.write_bytes(whole)

    if name == "softnet":  # a sum over the processors that are there
        assert all(one <= most for one, most in zip(found, right, strict=False))
    else:
        assert set(found) <= {*right, 0}


@pytest.mark.parametrize("name", FILES)
@settings(PROPERTY)
@given(content=st.binary(max_size=300))
def test_noise_is_counted_and_never_raises(host_machine, name, content):
    path, make = FILES[name]
    file = host_machine.proc.parent / path
    whole = file.read_bytes()
    file.write_bytes(content)
    with contextlib.suppress(SourceError):
        make(host_machine).read()
    file.write_bytes(whole)
