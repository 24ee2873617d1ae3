"""Rank-seconds by bucket, as a real Prometheus' rules tell them."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from lockstep.analyzer.ledger.buckets import Bucket
from lockstep.analyzer.rules.recording_rules.ledger import SERIES, ledger_rules
from lockstep.analyzer.rules.recording_rules.rules import rules

pytestmark = pytest.mark.prometheus

RANKS = 4


def _series(
    phases: dict[str, float], own: float | None = None, *, steps: float = 2.0, known: float = 1.0,
    slowdown: float | None = None, age: float = 0.1,
) -> list[dict[str, str]]:  # fmt: skip
    """Each rank's series: what a counter rises by in a second."""

    def rising(name: str, labels: str, per_second: float) -> dict[str, str]:
        return {"series": f"{name}{{{labels}}}", "values": f"0+{per_second * 15:g}x60"}

    found = []
    for rank in range(RANKS):
        page = f'job="c",instance="h{rank}:1",run="r",rank="{rank}"'
        place = f'{page},attempt="0",world_size="{RANKS}",dp="{rank}",pp="0",tp="0",node="n{rank}"'
        found += [
            {"series": f"lockstep_rank_info{{{place}}}", "values": "1x60"},
            {"series": f"lockstep_rank_up{{{page}}}", "values": "1x60"},
            {"series": f"lockstep_train_progress_age_seconds{{{page}}}", "values": f"{age}x60"},
            rising("lockstep_train_steps_total", page, steps),
            rising("lockstep_train_known_steps_total", page, steps * known),
            *(rising("lockstep_train_phase_seconds_total", f'{page},phase="{name}"', each)
              for name, each in phases.items()),
        ]  # fmt: skip
        if own is not None:
            found.append(rising("lockstep_train_own_seconds_total", page, own))
    if slowdown is not None:
        found.append({"series": 'lockstep_run_slowdown_ratio{run="r",job="w",instance="w:1"}',
                      "values": f"{slowdown}x60"})  # fmt: skip
    return found


STEPPING = {"forward": 0.6, "checkpoint": 0.1, "eval": 0.0, "other": 0.3}
CASES = {
    "steps of which own time is known": (
        _series(STEPPING, 0.5, slowdown=1.25),
        {"useful": 1.6, "communication": 1.28, "straggler": 0.72, "checkpoint-saved": 0.4},
    ),
    "nobody is slow": (
        _series(STEPPING, 0.5),
        {"useful": 1.6, "communication": 2.0, "straggler": 0.0, "checkpoint-saved": 0.4},
    ),
    "collectives are not timed": (
        _series(STEPPING, 0.5, known=0.5),
        {"useful": 3.6, "straggler": 0.0, "checkpoint-saved": 0.4},
    ),
    "a part is told by nobody": (
        _series({"forward": 0.5}),
        {"useful": 2.0, "straggler": 0.0, "unknown": 2.0},
    ),
    "it stands": (
        [one if "phase" not in one["series"] else {**one, "values": "5x60"}
         for one in _series({"forward": 0.5}, steps=0.0, age=300)],
        {"useful": 0.0, "straggler": 0.0, "stall": 4.0},
    ),
    "it has not begun": (_series({}, steps=0.0), {"starting": 4.0}),
}  # fmt: skip


def test_buckets_are_those_of_the_ledger():
    expression = dict(ledger_rules())[SERIES]
    told = {part.split('"')[0] for part in expression.split('"bucket", "')[1:]}

    assert told <= {bucket.value for bucket in Bucket}


def test_what_runs_do_is_told_by_bucket_and_sums_to_their_ranks(tmp_path: Path):
    tests = []
    for name, (series, expected) in CASES.items():
        assert sum(expected.values()) == pytest.approx(RANKS)
        exact = [
            {"expr": f'round({SERIES}{{bucket="{bucket}"}}, 0.001)', "eval_time": "10m",
             "exp_samples": [{"labels": f'{{run="r",team="unknown",bucket="{bucket}"}}',
                              "value": value}]}
            for bucket, value in expected.items()
        ]  # fmt: skip
        rest = "|".join(expected)
        none = {"expr": f'{SERIES}{{bucket!~"{rest}"}} > 0.001', "eval_time": "10m"}
        tests.append({"name": name, "interval": "15s", "input_series": series,
                      "promql_expr_test": [*exact, none]})  # fmt: skip

    assert _failures(tmp_path, tests) == ""


def _pod(name: str, team: str, values: str = "1x60", run: str = "r") -> dict[str, str]:
    named = f',label_lockstep_example_team="{team}"' if team else ""
    return {"series": f'kube_pod_labels{{job="ksm",instance="k:1",namespace="ml",pod="{name}",'
                      f'label_lockstep_example_run="{run}"{named}}}', "values": values}  # fmt: skip


TEAMS = {
    "all pods name one team": ([_pod("p0", "speech"), _pod("p1", "speech")], "speech"),
    "one pod names it, the other none": ([_pod("p0", "speech"), _pod("p1", "")], "speech"),
    "pods name two": ([_pod("p0", "speech"), _pod("p1", "vision")], "unknown"),
    "pods of another run": ([_pod("p0", "speech", run="other")], "unknown"),
    "kube-state-metrics is gone for two minutes": (
        [_pod("p0", "speech", "1x31 stale _x28")], "speech"),
    "kube-state-metrics is gone for good": ([_pod("p0", "speech", "1x10 stale _x49")], "unknown"),
}  # fmt: skip


def test_the_time_of_a_run_is_its_teams(tmp_path: Path):
    tests = []
    for name, (pods, team) in TEAMS.items():
        # Nothing is lost by the join: still all ranks of the run.
        told = {
            "expr": f"round(sum by (run, team) ({SERIES}), 0.001)",
            "eval_time": "10m",
            "exp_samples": [{"labels": f'{{run="r",team="{team}"}}', "value": RANKS}],
        }
        tests.append({"name": name, "interval": "15s", "input_series": [*_series(STEPPING), *pods],
                      "promql_expr_test": [told]})  # fmt: skip

    assert _failures(tmp_path, tests) == ""


def _failures(folder: Path, tests: list[dict[str, object]]) -> str:
    """What promtool says is wrong; empty = nothing."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    (folder / "rules.yml").write_text(rules())
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": tests}
    (folder / "test.yml").write_text(json.dumps(document))
    done = subprocess.run(
        [promtool, "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True
    )
    return "" if done.returncode == 0 else done.stderr or done.stdout
