"""`--timeline FILE`: which steps go into it, and how it ends when they cannot."""

import dataclasses
import json

import pytest

from lockstep.diagnose import timeline
from lockstep.evaluation.synth import traces as synth
from lockstep.terminal.output import CommandError


@pytest.fixture(scope="module")
def trace():
    return synth.trace(synth.Scene(dp=2, pp=2, micro_batches=2, steps=30))


def _steps(path):
    events = json.loads(path.read_text())["traceEvents"]
    return {event["args"]["step"] for event in events if event["ph"] == "X"}


def test_the_last_steps_are_written_when_nobody_is_blamed(trace, tmp_path, capsys):
    timeline.write(tmp_path / "t.json", trace, None)

    assert set(range(20, 30)) == _steps(tmp_path / "t.json")
    said = capsys.readouterr()
    assert ("", 1) == (said.out, said.err.count("\n"))
    assert said.err.startswith("timeline of steps 20:30 in ")


def test_the_steps_around_a_culprits_onset_are_written(trace, tmp_path, culprit):
    one = dataclasses.replace(culprit(), from_step=12)
    timeline.write(tmp_path / "t.json", trace, None, [one])

    assert set(range(7, 17)) == _steps(tmp_path / "t.json")


def test_chosen_steps_are_written(trace, tmp_path):
    timeline.write(tmp_path / "t.json", trace, timeline.parse("3:5"))

    assert {3, 4} == _steps(tmp_path / "t.json")


@pytest.mark.parametrize("text", ["", "5", "5:", "5:5", "9:3", "a:b", "-1:3", "1:2:3", "٣:٤"])
def test_what_is_no_span_of_steps_is_usage(text):
    with pytest.raises(CommandError, match="is no span of steps; it must be FIRST:END") as failure:
        timeline.parse(text)
    assert 64 == failure.value.code


def test_a_file_that_cannot_be_written_is_usage(trace, tmp_path):
    with pytest.raises(
        CommandError, match="cannot be written: No such file or directory"
    ) as failure:
        timeline.write(tmp_path / "no" / "t.json", trace, None)
    assert 64 == failure.value.code


def test_steps_without_operations_are_usage(trace, tmp_path):
    with pytest.raises(CommandError, match="it has those of steps 0:30") as failure:
        timeline.write(tmp_path / "t.json", trace, range(50, 60))
    assert 64 == failure.value.code
    assert not (tmp_path / "t.json").exists()


def test_steps_need_a_timeline(lockstep):
    answer = lockstep("analyze", "runs/x", "--steps", "1:2")

    assert 64 == answer.code
    assert "--steps goes with --timeline FILE" in answer.err


def test_a_link_is_written_through(trace, tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("before")
    link.symlink_to(real)

    timeline.write(link, trace, None)

    assert link.is_symlink()
    assert real.read_text().startswith("{")
