"""A score runs what is missing, keeps what is done, and says what went wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.contract.words import ExitCode
from lockstep.evaluation import trials
from lockstep.evaluation.trials import Setting, Trial, TrialError

SETTING = Setting(nodes=4, steps=100, pace=True, device_noise=0.02)


def line(setting: Setting, trial: Trial, named: bool) -> dict[str, Any]:
    """A result: the fault is on rank 1; `named` says whether the verdict has it."""
    culprit = {"rank": 1, "node": "node-1", "cause": "thermal", "confidence": 0.9, "tier": "page"}
    truth = {
        "kind": "thermal", "rank": 1, "node": "node-1", "cause": "thermal", "factor_intended": 1.5,
    }  # fmt: skip
    return {
        "setting": setting.name,
        "trial": trial.name,
        "truth": truth if trial.injected else None,
        "verdict": {"culprits": [culprit] if named else [], "alternatives": []},
        "delay_seconds": 2.0 if named else None,
        "node_hours": 0.01,
        "baselines": {"never": None, "last_rank": 3},
    }


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trials that were run, in order; every verdict is right."""
    names: list[str] = []

    def run(setting: Setting, trial: Trial, archive: Path) -> None:
        names.append(trial.name)

    monkeypatch.setattr(trials, "run", run)
    monkeypatch.setattr(
        trials, "judge", lambda setting, trial, archive: line(setting, trial, trial.injected)
    )
    return names


def test_trials_are_injected_and_healthy_in_turn_with_their_own_seeds() -> None:
    assert [Trial(7, True), Trial(7, False), Trial(8, True), Trial(8, False)] == trials.trials(2, 7)


def test_a_trial_is_run_by_a_command_of_its_own(tmp_path: Path) -> None:
    injected = trials.command(SETTING, Trial(7, True), tmp_path)
    healthy = trials.command(SETTING, Trial(7, False), tmp_path)

    assert injected[-2:] == ["--fault", "random@7"]
    assert healthy == injected[:-2]
    assert healthy[3:5] == ["run", "gpt"]


def test_settings_that_differ_have_different_folders() -> None:
    names = {
        Setting(nodes, steps, pace, noise).name
        for nodes in (2, 4)
        for steps in (100, 200)
        for pace, noise in ((True, 0.02), (True, 0.08), (False, 0.02))
    }

    assert len(names) == 12


def test_a_score_has_every_figure_with_its_counts(
    tmp_path: Path, lockstep: Callable[..., Any], ran: list[str]
) -> None:
    answer = lockstep("score", "real", "--runs", 2, "--seed", 7, "--out", tmp_path, "-o", "json")
    tree = json.loads(answer.out)

    assert answer.code == ExitCode.OK
    assert ran == ["injected-7", "healthy-7", "injected-8", "healthy-8"]
    assert (tree["recall"]["value"], tree["recall"]["of"]) == (1.0, 2)
    assert {"never", "last_rank"} == set(tree["baselines"])
    assert tree["emulated_devices"] is True


def test_an_interrupted_score_goes_on_where_it_stopped(
    tmp_path: Path, lockstep: Callable[..., Any], ran: list[str]
) -> None:
    lockstep("score", "real", "--runs", 1, "--seed", 7, "--out", tmp_path)
    with (tmp_path / trials.RESULTS_FILE).open("a") as file:
        file.write('{"setting": "torn')
    lockstep("score", "real", "--runs", 2, "--seed", 7, "--out", tmp_path)
    lockstep("score", "real", "--runs", 2, "--seed", 7, "--out", tmp_path)

    assert ran == ["injected-7", "healthy-7", "injected-8", "healthy-8"]


def test_another_setting_is_another_score(
    tmp_path: Path, lockstep: Callable[..., Any], ran: list[str]
) -> None:
    lockstep("score", "real", "--runs", 1, "--out", tmp_path)
    lockstep("score", "real", "--runs", 1, "--out", tmp_path, "--device-noise", 0.08)

    assert len(ran) == 4


def test_a_failed_run_is_told_not_scored_and_tried_again(
    tmp_path: Path, lockstep: Callable[..., Any], ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(setting: Setting, trial: Trial, archive: Path) -> None:
        if trial.injected:
            raise TrialError(f"{trial.name} exited 70: no room")
        ran.append(trial.name)

    whole = trials.run
    monkeypatch.setattr(trials, "run", broken)
    answer = lockstep("score", "real", "--runs", 1, "--out", tmp_path, "-o", "json")
    monkeypatch.setattr(trials, "run", whole)
    lockstep("score", "real", "--runs", 1, "--out", tmp_path)

    assert "no room" in answer.err
    assert len(json.loads(answer.out)["failed"]) == 1
    assert ran == ["healthy-0", "injected-0"]


def test_a_wrong_verdict_is_listed(
    tmp_path: Path, lockstep: Callable[..., Any], ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        trials, "judge", lambda setting, trial, archive: line(setting, trial, named=False)
    )
    answer = lockstep("score", "real", "--runs", 1, "--out", tmp_path)

    assert "injected-0: injected thermal on rank 1 (1.50x), named nobody" in answer.out


def test_a_run_that_fails_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        trials, "command", lambda *_: ["sh", "-c", "echo starting; echo torn apart >&2; exit 3"]
    )

    with pytest.raises(TrialError, match="injected-7 exited 3: torn apart"):
        trials.run(SETTING, Trial(7, True), tmp_path / "archive")


def test_what_an_interrupted_run_left_is_removed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "command", lambda *_: ["true"])
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "half").touch()
    trials.run(SETTING, Trial(7, True), tmp_path / "archive")

    assert not (tmp_path / "archive").exists()


def test_all_layouts_are_every_split_of_the_ranks_and_seeds_take_them_in_turn() -> None:
    splits = [(each.dp, each.tp, each.pp) for each in trials.every_layout(8)]
    setting = Setting(8, 100, True, 0.02, trials.every_layout(8))
    words = trials.command(setting, Trial(13, False), Path("archive"))

    assert 10 == len(splits) == len(set(splits))
    assert {8} == {dp * tp * pp for dp, tp, pp in splits}
    assert setting.name.endswith("-all-layouts")
    assert "--dp 1 --tp 1 --pp 8 --model deep" in " ".join(words)


def test_a_layout_that_is_no_split_of_the_nodes_is_refused(lockstep: Callable[..., Any]) -> None:
    answer = lockstep("score", "real", "--nodes", 8, "--layout", "dp=3")

    assert (64, True) == (answer.code, "does not match 8 nodes" in answer.err)


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        ("dp=2,pp=2,vpp=2", "--layout dp=2,pp=2,vpp=2: the runs of a score have no dsp or vpp"),
        ("dp=4,dsp=3", "--layout dp=4,dsp=3: the runs of a score have no dsp or vpp"),
        ("layers=4", "lockstep: --layout has no part 'layers'"),
    ],
)
def test_a_layout_that_no_run_of_a_score_has_is_refused(
    lockstep: Callable[..., Any], ran: list[str], layout: str, sentence: str
) -> None:
    answer = lockstep("score", "real", "--layout", layout)

    assert (64, []) == (answer.code, ran)
    assert sentence in answer.err
    assert answer.err.count("--layout") == 1


def test_faults_are_scored_without_a_layout(lockstep: Callable[..., Any]) -> None:
    answer = lockstep("score", "faults", "--layout", "dp=2")

    assert 64 == answer.code
    assert "score faults has no --layout" in answer.err
