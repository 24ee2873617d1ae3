"""The line that tells where a run is."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.runs import observe as training_progress
from lockstep.runs.observe import TrainingProgress, bar, clock
from lockstep.terminal import output
from lockstep.workloads.launch.launcher import Progress
from lockstep.workloads.loop.resume import About
from lockstep.workloads.spec import PROGRAM, Layout, RunSpec, Training
from lockstep.workloads.tasks.registry import find

SPEC = RunSpec("run", "gpt", Layout(1, 2, 2), 100, 0, Training(micro_batch=2))
TOKENS = 2 * 2 * 64


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *steps: int, spec: RunSpec = SPEC
) -> str:
    """What is written when these steps have ended, one a second."""
    monkeypatch.setattr(sys, "stderr", stream)
    now = iter(range(1000))
    monkeypatch.setattr(training_progress, "monotonic", lambda: float(next(now)))
    show = output.Progress()
    monkeypatch.setattr(show, "_pause", 0.0)
    tell = TrainingProgress(spec, show)
    for step in steps:
        tell(Progress(step, 100, 2.5 if step else None))
    return stream.getvalue()


def test_a_terminal_sees_a_bar_with_loss_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last = shown(monkeypatch, Terminal(), 0, 10, 20, 30).rpartition("\x1b[2K")[2]

    assert (
        f"training: [{'#' * 6}{'.' * 14}] 30/100, loss 2.500, {10 * TOKENS:,} tokens/s,"
        " 0:07 left" == last
    )
    assert len(last) < 80


def test_a_log_has_no_bar_and_no_rate_before_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, io.StringIO(), 0, 10, 20).splitlines()

    assert ["training: step 0 of 100", "training: step 10 of 100, loss 2.500"] == lines[:2]
    assert "\r" not in lines[2]
    assert lines[2].endswith("tokens/s, 0:08 left")


def test_the_time_left_of_a_resumed_run_counts_its_own_steps_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    About(60, 60, 4, {}, {}).write(tmp_path)
    resumed = replace(SPEC, training=replace(SPEC.training, resume=str(tmp_path)))
    lines = shown(monkeypatch, io.StringIO(), 0, 60, 61, 62, spec=resumed).splitlines()

    assert "left" not in "".join(lines[:3])
    assert lines[3].endswith("0:38 left")


def test_steps_of_somebody_else_s_program_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    program = RunSpec("run", PROGRAM, Layout(2, 2, 4), 0, 0, find(PROGRAM).defaults)
    lines = shown(monkeypatch, io.StringIO(), 0, 20, 40, 60, spec=program).splitlines()

    assert lines[-1].endswith("20 steps/s, 0:02 left")


def test_bars_and_times_at_their_ends() -> None:
    assert ("[" + "." * 20 + "]", "[" + "#" * 20 + "]") == (bar(0.0), bar(1.2))
    assert ("0:00", "1:05", "2:00:01") == (clock(0.2), clock(65), clock(7201))
