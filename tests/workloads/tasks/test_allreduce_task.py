"""What `lockstep run allreduce` makes of its options."""

from typing import Any

import pytest

from lockstep.workloads.spec import Layout, RunSpec, SpecError, Training
from lockstep.workloads.tasks.allreduce import PROBE_SECONDS, TASK


def spec(layout: Layout | None = None, **options: Any) -> RunSpec:
    training = Training(model="all-reduce", data="none", **options)
    return RunSpec("run", "allreduce", layout or Layout(4, 1, 4), 30, seed=1, training=training)


def test_its_defaults_can_be_run() -> None:
    asked = RunSpec("run", "allreduce", Layout(4, 1, 4), 30, seed=1, training=TASK.defaults)

    assert asked == TASK.check(asked)


def test_a_probe_runs_in_the_last_step_while_faults_are_in_force() -> None:
    planned = TASK.check(spec(probe=True))

    assert 30 == planned.training.eval_every
    assert PROBE_SECONDS == planned.hang_timeout


def test_a_probe_runs_as_often_as_was_asked() -> None:
    assert 7 == TASK.check(spec(probe=True, eval_every=7)).training.eval_every


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (spec(Layout(4, 1, 2, tp=2)), "leave --tp and --pp out"),
        (spec(eval_every=5), "give --probe too"),
        (spec(Layout(1, 4, 4), probe=True), "give --nodes 2 or more"),
        (spec(sizes="1K"), "MIN:MAX:COUNT"),
        (spec(dtype="int8"), "one of float32"),
    ],
)
def test_what_cannot_be_run_is_refused(asked: RunSpec, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        TASK.check(asked)


def test_the_archive_tells_that_the_numbers_are_synthetic() -> None:
    about = TASK.about(spec(sizes="1K:4K:2"))

    assert ("synthetic: whole numbers", [1024, 4096]) == (about["data"], about["sizes"])
