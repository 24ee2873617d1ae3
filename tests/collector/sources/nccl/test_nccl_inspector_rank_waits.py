"""What each rank of a node waits, by NCCL Inspector; what one node cannot know is absent."""

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.formats.nccl_inspector import UNTOLD, Batch, Operation
from lockstep.collector.samples.nccl import collect_inspector
from lockstep.collector.sources.nccl.inspector.source import InspectorReading
from lockstep.collector.sources.nccl.inspector.totals import (
    IDLE_SECONDS,
    MAX_PENDING,
    MAX_RANKS,
    RankTotals,
    RankWaits,
)


def batch(
    rank: int, seconds: list[float], *, first: int = 0, size: int = 2, communicator: str = "0xa",
    numbered: bool = True, sequences: list[int] | None = None,
) -> Batch:  # fmt: skip
    numbers = list(range(first, first + len(seconds))) if sequences is None else sequences
    operation = Operation(communicator, "dp", size, "all_reduce", numbered, rank)
    return Batch(operation, numbers, [1 << 20] * len(seconds), seconds, 0)


def told(waits: RankWaits, now: float = 0.0) -> dict[int, tuple[int, float, float | None]]:
    return {
        one.rank: (
            one.collectives, round(one.seconds, 9),
            None if one.wait is None else round(one.wait, 9),
        )
        for one in waits.totals(now)
    }  # fmt: skip


def test_nothing_read_is_nothing_told():
    assert told(RankWaits()) == {}


def test_the_wait_is_what_a_rank_takes_longer_than_the_shortest():
    waits = RankWaits()
    waits.add("run", batch(0, [0.5, 0.2]))
    waits.add("run", batch(1, [0.1, 0.3]))

    assert told(waits) == {0: (2, 0.7, 0.4), 1: (2, 0.4, 0.1)}


def test_without_all_ranks_of_the_communicator_here_nobodys_wait_is_told():
    waits = RankWaits()
    waits.add("run", batch(0, [0.5], size=3))
    waits.add("run", batch(1, [0.1], size=3))

    assert told(waits) == {0: (1, 0.5, None), 1: (1, 0.1, None)}


def test_ranks_that_are_read_one_after_the_other_meet_by_sequence():
    waits = RankWaits()
    waits.add("run", batch(0, [0.5, 0.5, 0.5]))
    waits.add("run", batch(1, [0.1]))
    waits.add("run", batch(1, [0.2, 0.3], first=1))

    assert told(waits)[0] == (3, 1.5, 0.9)


def test_of_ranks_whose_files_lie_in_one_folder_each_node_tells_its_own():
    """Of another node's ranks no run is known here; their durations still tell who waits."""
    waits = RankWaits()
    waits.add("", batch(0, [0.03]))
    waits.add("gpt-1", batch(1, [0.01]))
    waits.add("", batch(0, [0.02], first=1))

    [one] = waits.totals(0.0)
    assert ("gpt-1", 1, 1, 0.0) == (one.run, one.rank, one.collectives, one.wait)


def test_where_no_run_is_known_all_ranks_are_told():
    waits = RankWaits()
    for rank, seconds in ((0, 0.03), (1, 0.01)):
        waits.add("", batch(rank, [seconds]))

    assert [("", 0), ("", 1)] == [(one.run, one.rank) for one in waits.totals(0.0)]


def test_what_one_rank_did_not_tell_is_in_no_wait():
    waits = RankWaits()
    waits.add("run", batch(0, [0.5, 9.0, 0.5], sequences=[1, 2, 3]))
    waits.add("run", batch(1, [0.1, 0.1], sequences=[1, 3]))

    assert told(waits) == {0: (3, 10.0, 0.8), 1: (2, 0.2, 0.0)}


def test_two_communicators_of_one_name_do_not_meet():
    waits = RankWaits()
    waits.add("run", batch(0, [0.5]))
    waits.add("run", batch(1, [0.1], communicator="0xb"))

    assert {one.wait for one in waits.totals(0.0)} == {None}


@pytest.mark.parametrize("one", [batch(0, [0.5], numbered=False), batch(UNTOLD, [0.5]),
                                 batch(0, [0.5], size=1)])  # fmt: skip
def test_transfers_lone_ranks_and_ranks_that_are_not_told_are_left_out(one: Batch):
    waits = RankWaits()

    assert waits.add("run", one)
    assert told(waits) == {}


def test_of_a_communicator_that_is_not_whole_nothing_is_kept():
    waits = RankWaits()
    waits.add("run", batch(0, [0.5, 0.5]))
    list(waits.totals(0.0))
    waits.add("run", batch(1, [0.1, 0.1]))
    waits.add("run", batch(0, [0.5], first=2))
    waits.add("run", batch(1, [0.1], first=2))

    assert told(waits) == {0: (3, 1.5, 0.4), 1: (3, 0.3, 0.0)}


def test_what_waits_for_another_rank_is_bounded():
    waits = RankWaits()
    waits.add("run", batch(0, [1.0] * (MAX_PENDING + 10)))
    waits.add("run", batch(1, [0.5] * (MAX_PENDING + 10)))

    assert told(waits)[0][2] == 0.5 * MAX_PENDING


def test_ranks_are_bounded_and_those_long_gone_make_room():
    waits = RankWaits()
    many = [waits.add("", batch(0, [0.1], communicator=f"0x{n}")) for n in range(MAX_RANKS + 1)]
    list(waits.totals(0.0))
    list(waits.totals(IDLE_SECONDS))

    assert (all(many[:-1]), many[-1]) == (True, False)
    assert waits.add("", batch(0, [0.1]))


def test_a_wait_that_is_not_known_is_absent_from_the_page():
    here = RankTotals("run", "tp", "0xa", 0, 2, 3, 0.5, 0.25)
    elsewhere = RankTotals("run", "dp", "0xb", 1, 8, 3, 0.5, None)
    reading = InspectorReading((), 0, 0, (), (here, elsewhere))
    samples = {(one.metric.name, one.labels): one.value for one in collect_inspector(reading)}

    assert samples[m.NCCL_RANK_WAIT.name, ("run", "tp", "0xa", "0")] == 0.25
    assert (m.NCCL_RANK_WAIT.name, ("run", "dp", "0xb", "1")) not in samples
    assert samples[m.NCCL_RANK_SECONDS.name, ("run", "dp", "0xb", "1")] == 0.5
    assert samples[m.NCCL_INSPECTOR_RANKS.name, ("run", "dp", "0xb")] == 8
