"""How far a run is, by what it says."""

from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.starting.progress import (
    CHARACTERS_AT_MOST,
    LINES_AT_MOST,
    Progress,
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
