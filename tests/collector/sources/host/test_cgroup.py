import pytest

from lockstep.collector.readings.source import RankProcess
from lockstep.collector.sources.host.cgroup import Cgroups
from lockstep.collector.sources.host.schedstat import Schedstat

RANK = RankProcess("gpt-1", 0, 100)


@pytest.fixture
def cgroups(machine):
    return Cgroups(machine.proc, machine.sys, lambda: [RANK])


def seconds(cgroups: Cgroups) -> list[float]:
    return [value for _, value in cgroups.read().seconds]


def test_version_1_counts_nanoseconds(machine, cgroups):
    machine.process(100, cgroup="/train")
    machine.throttled("/train", 2_500_000_000)

    assert seconds(cgroups) == [2.5]


def test_version_2_counts_microseconds(machine, cgroups):
    machine.process(100)
    machine.file(machine.proc / "100/cgroup", "0::/train\n")
    machine.file(machine.sys / "fs/cgroup/train/cpu.stat", "usage_usec 9\nthrottled_usec 2500000\n")

    assert seconds(cgroups) == [2.5]


def test_the_root_of_version_2_has_no_quota(machine, cgroups):
    machine.process(100)
    machine.file(machine.proc / "100/cgroup", "0::/\n")
    machine.file(machine.sys / "fs/cgroup/cpu.stat", "usage_usec 9\n")

    reading = cgroups.read()

    assert (reading.seconds, reading.rejected) == ((), ())


def test_the_joint_mount_of_version_1_is_found(machine, cgroups):
    machine.process(100, cgroup="/train")
    folder = machine.sys / "fs/cgroup/cpu,cpuacct/train"
    machine.file(folder / "cpu.stat", "throttled_time 1000000000\n")

    assert seconds(cgroups) == [1.0]


def test_a_rank_that_moves_between_cgroups_never_counts_backwards(machine, cgroups):
    machine.process(100, cgroup="/a")
    machine.throttled("/a", 5_000_000_000)
    machine.throttled("/b", 1_000_000_000)
    seen = seconds(cgroups)

    machine.process(100, cgroup="/b")
    seen += seconds(cgroups)
    machine.throttled("/b", 1_500_000_000)
    seen += seconds(cgroups)
    machine.throttled("/a", 9_000_000_000)
    machine.process(100, cgroup="/a")
    seen += seconds(cgroups)
    machine.throttled("/a", 9_250_000_000)
    seen += seconds(cgroups)

    assert seen == [5.0, 5.0, 5.5, 5.5, 5.75]


def test_a_cgroup_made_anew_does_not_count_backwards(machine, cgroups):
    machine.process(100, cgroup="/a")
    machine.throttled("/a", 5_000_000_000)
    before = seconds(cgroups)
    machine.throttled("/a", 1_000_000_000)

    assert seconds(cgroups) == before


def test_a_rank_that_ended_is_absent_without_an_error(cgroups):
    reading = cgroups.read()

    assert (reading.seconds, reading.rejected) == ((), ())


def test_a_cgroup_outside_this_mount_is_counted(machine, cgroups):
    machine.process(100, cgroup="/../../etc")

    reading = cgroups.read()

    assert reading.seconds == ()
    assert [one.reason for one in reading.rejected] == ["namespace"]


THE_RANK = RankProcess("gpt-1", 0, 100)


@pytest.fixture
def schedstat(machine):
    return Schedstat(machine.proc, lambda: [THE_RANK])


def test_the_second_number_is_the_time_in_the_run_queue(machine, schedstat):
    machine.file(machine.proc / "100/schedstat", "5000000000 2500000000 91\n")

    assert schedstat.read().seconds == ((THE_RANK, 2.5),)


def test_a_rank_that_has_just_ended_is_absent_and_no_error(schedstat):
    reading = schedstat.read()

    assert (reading.seconds, reading.rejected) == ((), ())


@pytest.mark.parametrize("text", ["", "1 2\n", "1 x 3\n", "1 -2 3\n", "1 2 3\n4 5 6\n"])
def test_anything_else_is_counted_and_gives_no_number(machine, schedstat, text):
    machine.file(machine.proc / "100/schedstat", text)
    reading = schedstat.read()

    assert reading.seconds == ()
    assert [one.reason for one in reading.rejected] == ["malformed"]
