"""How far a run is, by what it says."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.starting.process import Snapshot, Stage
from lockstep.dashboard.starting.progress import (
    CHARACTERS_AT_MOST,
    LINES_AT_MOST,
    Progress,
    duration,
    headline,
    lines,
    progress,
)


def test_the_newest_line_that_tells_counts() -> None:
    log = lines(
        b"starting: 4 ranks\ntraining: step 8 of 40, loss 0.626\nWARNING: something\n"
        b"training: step 20 of 40, loss 0.5, 3,200 tokens/s, 1:02 left\nnoise\n"
    )

    assert Progress("training", 20, 40, 0.5, "1:02") == progress(log)
    assert 0.5 == progress(log).share


def test_before_the_first_step_the_stage_is_told() -> None:
    assert Progress("preparing data") == progress(("starting: 4 ranks", "preparing data: x.svm"))
    assert Progress() == progress(())


def test_a_run_that_does_not_say_how_many_steps_has_no_share() -> None:
    assert 0.0 == progress(("training: step 8 of ?, loss 0.6",)).share


@given(raw=st.binary(max_size=2000))
def test_whatever_a_run_writes_the_log_is_bounded_and_steers_no_terminal(raw: bytes) -> None:
    shown = lines(raw * 50)

    assert len(shown) <= LINES_AT_MOST
    assert all(len(line) <= CHARACTERS_AT_MOST + 2 for line in shown)
    assert not any("\x1b" in line or "\x00" in line for line in shown)
    assert 0.0 <= progress(shown).share <= 1.0


# What a page says of a started run.

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
