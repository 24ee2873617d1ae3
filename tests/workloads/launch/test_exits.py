"""Whose end was the first failure, by how and in which order ranks ended."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockstep.workloads.launch.launcher import PEER_LOST_CODE, Exit
from lockstep.workloads.launch.ring_state import RingState
from lockstep.workloads.launch.watching import Exits, first_to_fail, left_early
from tests.benchmarks.real_hangs import cases, is_right

KILL, ABORT, TERM = -signal.SIGKILL, -signal.SIGABRT, -signal.SIGTERM


@dataclass
class Rank:
    rank: int
    status: int | None = None
    arrived: int = 0

    def reap(self) -> bool:
        return self.status is not None

    def ring_state(self) -> RingState | None:
        return RingState(9, 1.0, self.arrived, waits=False, heartbeat_age=0.1)

    def how(self) -> str:
        return ""

    def raised(self) -> str:
        return ""


def exits(*ends: tuple[int, int, float]) -> list[Exit]:
    return [Exit(*one) for one in ends]


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        ([(0, 1, 0.0), (1, KILL, 0.1)], (1,)),  # seen in turns
        ([(0, 1, 0.0), (1, KILL, 9.0)], (0,)),  # a clean-up long after
        ([(0, ABORT, 0.0), (1, KILL, 0.2)], (1,)),  # as NCCL's watchdog ends survivors
        ([(2, 1, 0.0), (0, 1, 2.0), (1, ABORT, 2.0)], (2,)),
        ([(0, PEER_LOST_CODE, 0.0), (1, 1, 3.0)], (1,)),  # its word came late
        ([(0, TERM, 0.0), (1, TERM, 0.1), (2, TERM, 0.1)], (0, 1, 2)),  # by a scheduler
        ([(0, KILL, 0.0), (1, TERM, 2.0)], (0,)),
        ([(0, 0, 0.0), (1, KILL, 0.1)], (1,)),
        ([(0, 1, 0.0), (1, 1, 0.1)], (0, 1)),  # nobody can tell
        ([(0, 0, 0.0), (1, 0, 0.1)], ()),
    ],
)
def test_the_first_to_fail_goes_before_those_that_follow(
    ends: Sequence[tuple[int, int, float]], first: tuple[int, ...]
) -> None:
    assert first == first_to_fail(exits(*ends))


def test_ends_are_told_in_the_order_in_which_they_were_seen() -> None:
    ranks, clock = [Rank(0), Rank(1), Rank(2)], iter([10.0, 12.5])
    seen = Exits(ranks, lambda: next(clock))
    assert () == seen.look()

    ranks[2].status = int(signal.SIGKILL)
    seen.look()
    ranks[0].status = 1 << 8

    assert (Exit(2, KILL, 0.0), Exit(0, 1, 2.5)) == seen.look()
    assert (Exit(2, KILL, 0.0), Exit(0, 1, 2.5)) == seen.look()


@pytest.mark.parametrize(("arrived", "left"), [((7, 8), (0,)), ((8, 8), ()), ((9, 8), ())])
def test_a_rank_that_ended_well_before_a_collective_of_the_others_left_them(
    arrived: tuple[int, int], left: tuple[int, ...]
) -> None:
    ranks = [Rank(rank, arrived=number) for rank, number in enumerate(arrived)]

    assert left == left_early(ranks, exits((0, 0, 0.0), (1, 1, 0.4)))


def test_a_rank_that_was_killed_after_another_had_ended_well_was_not_left() -> None:
    ranks = [Rank(0, arrived=7), Rank(1, arrived=8)]

    assert () == left_early(ranks, exits((0, 0, 0.0), (1, KILL, 0.4)))


# Three real hangs of `python -m tests.benchmarks real_hangs`, by dumps of real ranks.


@pytest.mark.distributed
@pytest.mark.sweep(sample=0)
def test_real_hangs_are_named(tmp_path: Path) -> None:
    asked = [("sigstop", 1), ("loader", 2), ("dead", 3)]
    found = cases(asked, tmp_path / "cases.jsonl", keep=tmp_path)
    assert [(one["fault"], one["seed"]) for one in found] == asked
    assert all(one["stood"] and is_right(one) for one in found), found
    again = cases(asked, tmp_path / "cases.jsonl", keep=tmp_path)
    assert again == found, "a case that is written down is not run again"
