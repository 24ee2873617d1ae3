"""An exception in any function of ours that runs in a program changes nothing of the program."""

import random
from inspect import isfunction

import pytest

from lockstep.workloads.launch.joining.reachable import free_port
from lockstep.workloads.sdk.recorder import Recorder
from tests.workloads.sdk.exceptions.injection import ERRORS, Look, Point
from tests.workloads.sdk.exceptions.programs import KINDS, WORLD, points, run

pytestmark = pytest.mark.distributed

SAMPLE = 4
"""Of each kind; `python -m tests.benchmarks recorder_exceptions` takes fifty."""


def in_ranks(forked, folder, kind, *, watched=True, point=None, error=RuntimeError, culprit=0):
    folder.mkdir(exist_ok=True)
    port = free_port()

    def work(rank):
        look = Look(point if rank == culprit else None, error) if watched else None
        return run(folder, rank, port, kind, watched=watched, look=look)

    return forked(WORLD, work)


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_bit_identical_whatever_of_ours_raises(forked, tmp_path, kind):
    alone = in_ranks(forked, tmp_path / "alone", kind, watched=False)
    seen = in_ranks(forked, tmp_path / "seen", kind)
    assert [each["told"] for each in alone] == [each["told"] for each in seen]
    dice = random.Random(kind)
    places = [point for point in points(seen[0]) if point.guarded]
    for number, place in enumerate(dice.sample(places, SAMPLE)):
        point = Point(place.file, place.name, dice.randint(1, place.call))
        error = dice.choice(ERRORS)
        answers = in_ranks(
            forked, tmp_path / str(number), kind, point=point, error=error, culprit=number % WORLD
        )
        assert [each["told"] for each in alone] == [each["told"] for each in answers], point
        lines = answers[number % WORLD]["said"]
        assert len(lines) == len(set(lines)) <= 2, (point, lines)


def test_an_exception_that_nobody_catches_does_end_the_program(forked, tmp_path):
    """The control: such a one is seen by these tests."""
    point = Point("workloads/sdk/guard.py", "Block.__enter__", 1)
    with pytest.raises(AssertionError, match="ranks without an answer"):
        in_ranks(forked, tmp_path, "DDP", point=point)


@pytest.mark.parametrize("kind", KINDS)
def test_the_program_and_torch_call_nothing_of_ours_but_the_guard(forked, tmp_path, kind):
    first, *_ = in_ranks(forked, tmp_path, kind)
    bare = [Point(file, name, 1) for file, name in first["entered"] if Point(file, name, 1).guarded]

    assert [] == bare


def test_the_programs_use_every_method_of_the_recorder(forked, tmp_path):
    first, *_ = in_ranks(forked, tmp_path, "DDP")
    methods = {name for name, each in vars(Recorder).items() if isfunction(each)}
    called = {name for _, name, _ in first["calls"]}

    assert {f"RingRecorder.{name}" for name in methods} <= called
