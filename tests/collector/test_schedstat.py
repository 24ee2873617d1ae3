import pytest

from lockstep.collector.readings.source import RankProcess
from lockstep.collector.sources.host.schedstat import Schedstat

RANK = RankProcess("gpt-1", 0, 100)


@pytest.fixture
def schedstat(machine):
    return Schedstat(machine.proc, lambda: [RANK])


def test_the_second_number_is_the_time_in_the_run_queue(machine, schedstat):
    machine.file(machine.proc / "100/schedstat", "5000000000 2500000000 91\n")

    assert schedstat.read().seconds == ((RANK, 2.5),)


def test_a_rank_that_has_just_ended_is_absent_and_no_error(schedstat):
    reading = schedstat.read()

    assert (reading.seconds, reading.rejected) == ((), ())


@pytest.mark.parametrize("text", ["", "1 2\n", "1 x 3\n", "1 -2 3\n", "1 2 3\n4 5 6\n"])
def test_anything_else_is_counted_and_gives_no_number(machine, schedstat, text):
    machine.file(machine.proc / "100/schedstat", text)
    reading = schedstat.read()

    assert reading.seconds == ()
    assert [one.reason for one in reading.rejected] == ["malformed"]
