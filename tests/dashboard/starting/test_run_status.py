"""What a page says of a started run."""

from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.dashboard.starting.process import Snapshot, Stage
from lockstep.dashboard.starting.progress import Progress, duration, headline

SHOWN = Snapshot(
    "gpt-1", Path("gpt-1"), "lockstep run gpt", Stage.RUNNING, 65.0, None, False, "", b""
)


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.4, "0 s"), (59.4, "59 s"), (185, "3 min 05 s"), (3720, "1 h 02 min")]
)
def test_durations_are_told_in_two_units_at_most(seconds: float, told: str) -> None:
    assert told == duration(seconds)


def test_a_running_run_tells_its_step_and_what_is_left() -> None:
    far = Progress("training", 1200, 5000, 0.5, "1:02")

    assert (
        "gpt-1 is running: step 1,200 of 5,000, loss 0.500, 1:02 left." == headline(SHOWN, far)[0]
    )
    assert "gpt-1 is running: its processes are being started." == headline(SHOWN, Progress())[0]


@pytest.mark.parametrize("stage", [Stage.STOPPING, Stage.ANALYZING, Stage.REPORTING])
def test_every_stage_has_a_sentence(stage: Stage) -> None:
    text, _ = headline(replace(SHOWN, stage=stage), Progress())

    assert text.startswith("gpt-1 ")
    assert text.endswith(".")


def test_a_report_that_did_not_follow_is_told() -> None:
    over = replace(SHOWN, stage=Stage.OVER, code=0, trouble="lockstep report ended with code 65.")

    assert (
        "gpt-1 ended as it should after 1 min 05 s. lockstep report ended with code 65."
        == (headline(over, Progress())[0])
    )


def test_a_run_that_had_ended_before_it_was_stopped_is_not_told_as_stopped() -> None:
    over = replace(SHOWN, stage=Stage.OVER, code=0, stopped=True)

    assert (
        "gpt-1 ended as it should after 1 min 05 s; what follows a run was stopped."
        == (headline(over, Progress())[0])
    )
    assert "gpt-1 was stopped" in headline(replace(over, code=130), Progress())[0]
