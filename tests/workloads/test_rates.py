"""What a run gets done in a second: told in what its workload counts, whatever the layout."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.workloads.loop.evaluation import STEPS, Evaluation
from lockstep.workloads.loop.trainable import Counts
from lockstep.workloads.spec import PROGRAM, Layout, RunSpec, Training
from lockstep.workloads.tasks.registry import find

SECONDS = 0.5
"""Of every step."""


def a_spec(workload: str, layout: Layout) -> RunSpec:
    return RunSpec("run", workload, layout, STEPS, 0, Training(micro_batch=2, micro_batches=2))


def throughput(spec: RunSpec, tmp_path: Path) -> dict[str, Any]:
    """What a run of even steps writes into results.json."""
    recorder: Any = SimpleNamespace(
        last_phases=[0] * 8, last_tags=0, wall_seconds=SECONDS, after=lambda call: call()
    )
    parts: Any = SimpleNamespace(counts=Counts(4, 4 * 64, 0.0), tells=True, results=dict)
    comm: Any = SimpleNamespace(collective=lambda *words: None)
    evaluation = Evaluation(spec, parts, recorder, comm, tmp_path / "results.json")
    for step in range(STEPS):
        evaluation.after_step(step, 1.0)
    found = evaluation._throughput()
    assert found is not None
    return found


def test_evaluations_are_in_results_json_while_the_run_goes_on(tmp_path: Path) -> None:
    recorder: Any = SimpleNamespace(
        last_phases=[0] * 8, last_tags=0, wall_seconds=SECONDS, after=lambda call: call()
    )
    parts: Any = SimpleNamespace(
        counts=Counts(4, 4, 0.0), tells=True, results=dict, evaluate=lambda: {"accuracy": 0.5}
    )
    comm: Any = SimpleNamespace(collective=lambda *words: None)
    results = tmp_path / "results.json"
    evaluation = Evaluation(a_spec("logreg", Layout(1, 1, 1)), parts, recorder, comm, results)
    evaluation.after_step(0, 1.0)
    assert not results.exists()
    evaluation.run()
    evaluation.after_step(1, 1.0)
    told = json.loads(results.read_text())

    assert [(1, 0.5)] == [(each["step"], each["accuracy"]) for each in told["evaluations"]]
    assert [results] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "layout", [Layout(1, 2, 2), Layout(1, 4, 2, tp=2), Layout(2, 2, 1, pp=4), Layout(1, 1, 1)]
)
def test_gpt_tells_tokens_of_a_rank_and_of_all(tmp_path: Path, layout: Layout) -> None:
    spec = a_spec("gpt", layout)
    told = throughput(spec, tmp_path)
    tokens = 4 * spec.training.config.sequence * layout.dp / SECONDS

    assert "tokens" == told["sample"]
    assert pytest.approx(tokens) == told["total_samples_per_second"]
    assert pytest.approx(tokens / layout.world) == told["samples_per_second_per_rank"]


def test_images_are_counted_as_images(tmp_path: Path) -> None:
    told = throughput(a_spec("resnet", Layout(1, 2, 2)), tmp_path)

    assert pytest.approx(4 / SECONDS) == told["samples_per_second_per_rank"]
    assert pytest.approx(8 / SECONDS) == told["total_samples_per_second"]


@pytest.mark.parametrize("workload", ["gpt", "resnet", "logreg"])
def test_a_step_of_the_run_is_that_of_all_replicas(workload: str) -> None:
    once, twice = (a_spec(workload, Layout(1, dp, dp)) for dp in (1, 2))
    task = find(workload)

    assert 2 * task.per_step(once) == task.per_step(twice)


def test_a_step_of_somebody_else_s_program_is_one_step_on_however_many_ranks() -> None:
    assert 1 == find(PROGRAM).per_step(a_spec(PROGRAM, Layout(2, 4, 8)))
