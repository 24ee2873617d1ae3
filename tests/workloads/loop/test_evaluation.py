"""What a run gets done in a second: told in what its workload counts, whatever the layout."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from lockstep.workloads.loop.evaluation import (
    ITERATIONS,
    STEPS,
    STUDENT_T,
    Evaluation,
    ThroughputError,
    measured,
)
from lockstep.workloads.loop.trainable import Counts
from lockstep.workloads.spec import PROGRAM, Layout, RunSpec, Training
from lockstep.workloads.tasks.registry import find

# Horovod's protocol on step times with a known answer.

WARM = [9.0] * 10


def iterations(seconds: list[float]) -> list[float]:
    """Steps after warm-up of so many seconds each, ten of a kind."""
    return [value for value in seconds for _ in range(10)]


def test_even_steps_have_no_spread() -> None:
    found = measured([*WARM, *iterations([0.5] * 10)], samples=32, ranks=4, gpu=True)

    assert pytest.approx(64.0) == found.mean
    assert pytest.approx(0.0, abs=1e-9) == found.horovod_spread
    assert (pytest.approx(64.0), pytest.approx(64.0)) == found.confidence_interval


def test_warm_up_and_what_follows_the_protocol_do_not_count() -> None:
    wanted = measured([*WARM, *iterations([0.5] * 10)], samples=32, ranks=4, gpu=True)
    longer = [*[0.001] * 10, *iterations([0.5] * 10), *[77.0] * 30]

    assert wanted == measured(longer, samples=32, ranks=4, gpu=True)


def test_mean_and_spread_are_horovods_and_the_interval_is_students() -> None:
    seconds = [0.5, 0.4, 0.6, 0.5, 0.45, 0.55, 0.5, 0.52, 0.48, 0.5]
    rates = np.array([32 * 10 / (10 * value) for value in seconds])
    found = measured([*WARM, *iterations(seconds)], samples=32, ranks=4, gpu=True)
    low, high = found.confidence_interval
    half = stats.t.ppf(0.975, ITERATIONS - 1) * rates.std(ddof=1) / math.sqrt(ITERATIONS)

    assert found.mean == pytest.approx(np.mean(rates))
    assert found.horovod_spread == pytest.approx(1.96 * np.std(rates))
    assert high - low == pytest.approx(2 * half, rel=1e-5)
    assert (low + high) / 2 == pytest.approx(np.mean(rates))
    assert stats.t.ppf(0.975, ITERATIONS - 1) == pytest.approx(STUDENT_T, abs=1e-6)


def test_an_iteration_is_ten_steps_whatever_each_took() -> None:
    uneven = [0.1, 0.9] * 50

    assert (
        pytest.approx((64.0,) * 10)
        == measured([*WARM, *uneven], samples=32, ranks=1, gpu=False).rates
    )


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    dice = np.random.default_rng(7)
    hits = 0
    for _ in range(1000):
        rates = dice.normal(100.0, 5.0, size=10)
        found = measured([*WARM, *iterations((1 / rates).tolist())], samples=1, ranks=1, gpu=True)
        low, high = found.confidence_interval
        hits += low <= 100.0 <= high

    assert 930 <= hits <= 970


@pytest.mark.parametrize(("gpu", "device"), [(True, "GPU"), (False, "rank")])
def test_the_lines_are_horovods(gpu: bool, device: str) -> None:
    seconds = iterations([0.5, 0.4] * 5)
    lines = measured([*WARM, *seconds], samples=32, ranks=4, gpu=gpu).lines()

    assert f"Iter #0: 64.0 img/sec per {device}" == lines[0]
    assert f"Iter #9: 80.0 img/sec per {device}" == lines[9]
    assert f"Img/sec per {device}: 72.0 +-15.7" == lines[10]
    assert f"Total img/sec on 4 {device}(s): 288.0 +-62.7" == lines[11]
    assert f"95 % confidence interval of the mean per {device}: 66.0 to 78.0" == lines[12]


def test_the_same_as_json() -> None:
    tree = measured([*WARM, *iterations([0.5] * 10)], samples=32, ranks=4, gpu=False).to_json()

    assert pytest.approx(256.0) == tree["total_samples_per_second"]
    assert 10 == len(tree["iterations"])


def test_too_few_steps_are_refused_with_how_many_are_needed() -> None:
    with pytest.raises(ThroughputError, match=r"109 steps are too few .*; 110 are needed"):
        measured([0.5] * (STEPS - 1), samples=1, ranks=1, gpu=False)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_a_step_without_time_is_refused(wrong: float) -> None:
    with pytest.raises(ThroughputError, match=r"a step took .* it must take more than 0"):
        measured([*WARM, *[0.5] * 50, wrong, *[0.5] * 49], samples=1, ranks=1, gpu=False)


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
