"""`lockstep score synth`: says that it is simulated, gives the same figures again, and its keys."""

import dataclasses
import json

import pytest
import typer

from lockstep.commands.score import Kind, score
from lockstep.evaluation import synth_score, synth_trials
from lockstep.evaluation.synth_trials import SynthTrial
from lockstep.terminal.output import CommandError, Format

KEYS = {"precision", "recall", "f1", "rank_top1", "cause_top1", "cause_top3", "ece",
        "false_pages_per_node_month", "false_pages_per_node_month_upper95",
        "delay_median_seconds", "delay_p95_seconds", "cause_macro", "unknown_recall",
        "both_named", "by_cause", "healthy_said", "healthy_said_unseen", "slower_said"}  # fmt: skip
NAMES = {"never", "random", "slowest_step", "last_rank", "nvrx", "minder_distance", "zscore"}


@pytest.fixture
def alone(monkeypatch):
    """In this process: the pool is the machine's business."""
    monkeypatch.setattr(synth_trials, "judged", lambda wanted: map(synth_trials.judge, wanted))


@pytest.mark.slow
def test_every_figure_is_there_beside_baselines_and_rules(alone, tmp_path, capsys):
    synth_score.score_synth(1, 5, tmp_path, Format.JSON, variant="usual")
    tree = json.loads(capsys.readouterr().out)

    assert KEYS <= set(tree)
    assert NAMES == set(tree["baselines"])
    assert tree["simulated"] is True
    assert 2 == len((tmp_path / synth_score.RESULTS_FILE).read_text("utf-8").splitlines())


@pytest.mark.slow
def test_a_seed_gives_the_same_line_again():
    trial = SynthTrial(5, injected=True, variant="held-out", delays=False)

    assert json.dumps(synth_trials.judge(trial)) == json.dumps(synth_trials.judge(trial))


def test_half_of_the_trials_are_healthy_and_every_third_round_tells_delays():
    made = synth_trials.trials(60, 100, "usual")

    assert 60 == sum(trial.injected for trial in made)
    assert list(range(100, 160)) == sorted({trial.seed for trial in made})
    assert {*range(100, 120)} == {trial.seed for trial in made if trial.delays}


def test_a_run_that_cannot_be_judged_is_told_and_does_not_end_the_score(
    monkeypatch, tmp_path, capsys
):
    def broken(trial):
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr(synth_trials, "_line", broken)
    monkeypatch.setattr(synth_trials, "judged", lambda wanted: map(synth_trials.judge, wanted))
    with pytest.raises(CommandError, match="2 of 2 runs failed: injected-5: ZeroDivisionError"):
        synth_score.score_synth(1, 5, tmp_path, Format.JSON, variant="usual")

    assert 2 == len(json.loads(capsys.readouterr().out)["failed"])


def test_an_interrupted_score_goes_on_where_it_stopped(monkeypatch, tmp_path):
    judged = []

    def judge(trial):
        judged.append(trial.name)
        return {"trial": trial.name, **dataclasses.asdict(trial), "baselines": {}}

    monkeypatch.setattr(synth_trials, "judged", lambda wanted: map(judge, wanted))
    whole = synth_score._lines(synth_trials.trials(2, 5, "usual"), tmp_path, anew=False)
    path = tmp_path / synth_score.RESULTS_FILE
    path.write_bytes(path.read_bytes()[:-9])
    judged.clear()
    again = synth_score._lines(synth_trials.trials(2, 5, "usual"), tmp_path, anew=False)

    assert (["healthy-6"], whole) == (judged, again)
    for wanted, anew in (("wide", False), ("usual", True)):
        judged.clear()
        synth_score._lines(synth_trials.trials(2, 5, wanted), tmp_path, anew=anew)
        assert 4 == len(judged)


def test_a_mistake_is_told_with_what_was_injected_and_what_was_named():
    fault = {"kind": "ecc", "form": "corrected", "cause": "ecc", "rank": 3, "node": "node-0",
             "telling": "true", "factor_intended": 1.5, "shape": "constant"}  # fmt: skip
    fleet = {"gpus": 8, "dp": 8, "pp": 1, "tp": 1, "resolution": "step"}
    line = {"trial": "injected-1", "fleet": fleet, "truths": [fault], "verdict": {"culprits": []}}

    assert (
        "injected-1 (8 GPUs, dp 8 pp 1 tp 1, step): injected ecc (corrected) on rank 3, 1.50x,"
        " constant, named nobody"
    ) == synth_score.mistake(line)


def test_a_level_is_a_score_of_its_own_and_must_be_one(tmp_path, monkeypatch):
    judged = []

    def judge(trial):
        judged.append(trial.level)
        return {"trial": trial.name, **dataclasses.asdict(trial), "baselines": {}}

    monkeypatch.setattr(synth_trials, "judged", lambda wanted: map(judge, wanted))
    for level in ("easy", "hard", "drift,decoys"):
        synth_score._lines(synth_trials.trials(1, 5, "usual", level=level), tmp_path, anew=False)

    assert ["easy"] * 2 + ["hard"] * 2 + ["drift,decoys"] * 2 == judged
    with pytest.raises(typer.BadParameter, match="'fog' is no difficulty; easy, hard, or of"):
        score(Kind.SYNTH, level="drift,fog", out=tmp_path)
    with pytest.raises(CommandError, match="--level goes with score synth"):
        score(Kind.REAL, level="hard", out=tmp_path)


@pytest.mark.parametrize(("benign", "defects", "difficulties", "told"), [
    ([], ["reset"], ["drift"], (False, True)),
    (["uniform"], ["late"], [], (True, True)),
    (["stage"], ["gap"], [], (False, False)),
    ([], ["silent"], [], (False, False)),
    ([], [], ["scrape-loss"], (False, False)),
    ([], [], ["missing-sources"], (False, False)),
])  # fmt: skip
def test_a_fleet_says_whether_it_was_seen_and_steady(benign, defects, difficulties, told):
    fleet = {"benign": benign, "defects": defects, "difficulties": difficulties}

    assert told == synth_trials.slower_and_whole({"fleet": fleet})


@pytest.mark.slow
def test_hard_runs_are_scored_by_difficulty_as_well(alone, tmp_path, capsys):
    synth_score.score_synth(1, 5, tmp_path, Format.TABLE, variant="usual", level="drift,decoys")
    told = capsys.readouterr().out

    assert "difficulty: drift,decoys" in told
    assert "difficulty (simulated)" in told


def test_a_size_of_simulated_fleets_cannot_be_asked_for(tmp_path, capsys):
    with pytest.raises(CommandError, match="score synth draws sizes, layouts and steps"):
        score(Kind.SYNTH, nodes=4, out=tmp_path)


def test_without_training_series_it_is_another_score_that_takes_no_line_of_the_first(
    monkeypatch, tmp_path
):
    judged = []

    def judge(trial):
        judged.append(trial.uninstrumented)
        return {"trial": trial.name, **dataclasses.asdict(trial), "baselines": {}}

    monkeypatch.setattr(synth_trials, "judged", lambda wanted: map(judge, wanted))
    for alone in (False, True):
        wanted = synth_trials.trials(1, 5, "usual", uninstrumented=alone)
        synth_score._lines(wanted, tmp_path, anew=False)

    assert [False, False, True, True] == judged


@pytest.mark.slow
def test_by_hardware_alone_ranks_are_told():
    trial = SynthTrial(5, injected=True, variant="usual", delays=False, uninstrumented=True)
    line = synth_trials.judge(trial)

    assert "failed" not in line
    assert all(each["rank"] is not None for each in line["verdict"]["culprits"])
