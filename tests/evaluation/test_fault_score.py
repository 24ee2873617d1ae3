"""`lockstep score faults` runs what is missing, and says what each fault measurably did."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockstep.collector.contract.words import FAULT_CAUSES, ExitCode, FaultKind
from lockstep.evaluation import fault_score, fault_trials, trials
from lockstep.evaluation.fault_score import score_faults
from lockstep.evaluation.fault_trials import FaultSetting, FaultTrial
from lockstep.terminal.output import CommandError, Format
from lockstep.workloads.faults import capabilities
from lockstep.workloads.faults.disturbances import KINDS, parse_disturbance
from lockstep.workloads.faults.kinds import BUILT
from lockstep.workloads.faults.plan import parse

SETTING = FaultSetting(nodes=2, steps=100, pace=True, device_noise=0.02, seed=0)


@pytest.fixture
def all_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "refused", lambda *, pace: {})


@pytest.fixture
def no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        capabilities, "refused", lambda *, pace: {FaultKind.CPU_QUOTA: "cpu-quota needs root"}
    )


def line(trial: FaultTrial, measured: float | None = None) -> dict[str, Any]:
    asked = None if trial.fault is None else 1.5
    return {
        "setting": SETTING.name, "trial": trial.name, "kind": trial.kind, "fault": trial.fault,
        "disturbance": trial.disturbance, "asked": asked, "measured": measured or asked,
        "interval": None if asked is None else [1.45, 1.55],
        "within": None if asked is None else measured is None, "named": [],
        "cause": None if trial.fault is None else FAULT_CAUSES[FaultKind(trial.kind)].value,
        "rank_right": trial.fault is None, "cause_right": None,
    }  # fmt: skip


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the trials that were run, in order."""
    names: list[str] = []

    def execute(name: str, words: list[str], archive: Path) -> None:
        names.append(name)

    monkeypatch.setattr(trials, "execute", execute)
    monkeypatch.setattr(fault_trials, "judge", lambda setting, trial, archive: line(trial))
    return names


@pytest.mark.usefixtures("all_kinds")
def test_every_kind_is_run_at_every_size_and_every_disturbance_once() -> None:
    wanted, refused = fault_trials.fault_trials(SETTING)
    found = [re.search(r"factor=([\d.]+)", each.fault or "") for each in wanted]
    sizes: dict[str, set[float]] = defaultdict(set)
    for each, factor in zip(wanted, found, strict=True):
        if factor and "shape" not in each.fault:
            sizes[each.kind].add(float(factor[1]))

    assert {} == refused
    assert set(BUILT) == {each.kind for each in wanted if each.fault}
    sized = set(BUILT) - {"freeze", "crash"}
    assert {kind: {1.1, 1.3, 2.0} for kind in sized} == sizes
    assert set(KINDS) <= {each.disturbance for each in wanted}
    assert len(wanted) == len({each.name for each in wanted})


@pytest.mark.usefixtures("all_kinds")
def test_every_trial_is_a_spec_that_the_grammar_takes() -> None:
    for trial in fault_trials.fault_trials(SETTING)[0]:
        if trial.fault is not None:
            can = dict.fromkeys(BUILT, "")
            parsed = parse(trial.fault, nodes=2, ranks_per_node=1, steps=100, available=can)
            assert trial.kind == parsed.kind
            assert 40 == parsed.from_step
        if trial.disturbance is not None:
            parse_disturbance(trial.disturbance, dp=2, pp=2, steps=100, pace=True)


@pytest.mark.usefixtures("no_quota")
def test_what_cannot_be_injected_is_told_with_the_reason_and_not_run() -> None:
    wanted, refused = fault_trials.fault_trials(SETTING)

    assert "cpu-quota needs root" == refused["cpu-quota"]
    assert not [each for each in wanted if each.kind == "cpu-quota"]


def test_a_heavy_stage_runs_on_a_pipeline(tmp_path: Path) -> None:
    stage = next(t for t in fault_trials.fault_trials(SETTING)[0] if t.disturbance == "stage")
    words = fault_trials.command(SETTING, stage, tmp_path)

    assert "2" == words[words.index("--pp") + 1]
    assert ["--disturb", "stage"] == words[-2:]


def score(out: Path, form: Format = Format.JSON) -> int:
    return score_faults(SETTING, out, form, reanalyze=False)


@pytest.mark.usefixtures("no_quota")
def test_a_score_goes_on_where_it_stopped(
    tmp_path: Path, ran: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = fault_trials.fault_trials(SETTING)[0]
    trials.append(tmp_path, line(wanted[0]))
    trials.append(tmp_path, line(wanted[2]))

    assert ExitCode.OK == score(tmp_path)
    assert [each.name for i, each in enumerate(wanted) if i not in (0, 2)] == ran
    tree = json.loads(capsys.readouterr().out)
    assert len(wanted) == len(tree["trials"])
    assert tree["within_tolerance"]["count"] == tree["within_tolerance"]["of"] > 0
    assert ([], []) == (tree["failed"], tree["leftovers"])


@pytest.mark.usefixtures("no_quota", "ran")
def test_the_table_shows_each_run_what_is_refused_and_that_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    score(tmp_path, Format.TABLE)
    said = capsys.readouterr().out

    assert "compute-1.1" in said
    assert "1.450 to 1.550" in said
    assert "disturb-uniform" in said
    assert "cpu-quota: cpu-quota needs root" in said
    assert "nothing was left behind" in said


@pytest.mark.usefixtures("no_quota", "ran")
def test_what_is_left_behind_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_score, "left_by", lambda folder: ["process 12"])

    with pytest.raises(CommandError, match="1 things were left behind: process 12"):
        score(tmp_path)


@pytest.mark.usefixtures("no_quota")
def test_a_run_that_fails_is_told_and_tried_again_by_the_next_score(
    tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(name: str, words: list[str], archive: Path) -> None:
        if name == "gc-2":
            raise trials.TrialError("gc-2 exited 70: no memory")
        ran.append(name)

    monkeypatch.setattr(trials, "execute", execute)
    with pytest.raises(CommandError, match=r"1 of .* runs failed: gc-2 exited 70"):
        score(tmp_path)
    assert (SETTING.name, "gc-2") not in trials.read(tmp_path)


@pytest.mark.parametrize(
    ("factor", "within"), [(1.5, True), (1.63, True), (1.36, True), (1.7, False), (1.3, False)]
)
def test_an_effect_is_measured_from_the_recorded_steps(
    tmp_path: Path, factor: float, within: bool
) -> None:
    trial = FaultTrial("data-1.5", "data", "data:rank=1,from=40,factor=1.5")
    dice = np.random.default_rng(3)
    own = [0.04 * (factor if step >= 40 else 1.0) * dice.normal(1, 0.02) for step in range(100)]
    table = pa.table({
        "step": [*range(100), *range(100)], "rank": [0] * 100 + [1] * 100,
        "own_seconds": [0.04] * 100 + own, "wall_seconds": [0.1] * 200,
    })  # fmt: skip
    (tmp_path / "steps.parquet").mkdir()
    pq.write_table(table, tmp_path / "steps.parquet" / "part-0.parquet")
    found = fault_trials._effect(SETTING, trial, tmp_path)

    assert found["measured"] == pytest.approx(factor, rel=0.02)
    assert within is found["within"]


def test_processes_of_the_runs_are_found_by_their_archive(tmp_path: Path) -> None:
    (tmp_path / "scores" / "a").mkdir(parents=True)
    (tmp_path / "scores" / "a" / "run.json").write_text(json.dumps({"run": "gpt-x-1"}))
    (tmp_path / "scores" / "b").mkdir()
    (tmp_path / "scores" / "b" / "run.json").write_text("{torn")
    proc = tmp_path / "proc"
    for pid, words, state in (
        ("10", "python\0run\0--out\0" + f"{tmp_path}/scores/a\0", "S"),
        ("11", "collector\0--dir\0/dev/shm/lockstep/gpt-x-1/node-0\0", "S"),
        ("12", "python\0score\0--out\0" + f"{tmp_path}/scores\0", "S"),
        ("13", f"gpt-x-1\0{tmp_path}/scores/a\0", "Z"),
    ):
        (proc / pid).mkdir(parents=True)
        (proc / pid / "cmdline").write_text(words)
        (proc / pid / "stat").write_text(f"{pid} (py (x) y) {state} 1")

    assert ["process 10", "process 11"] == fault_score.left_by(tmp_path / "scores", proc)
