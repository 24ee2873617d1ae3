"""Goals are reached in validation alone, once, at or above the threshold (MLBench's contract)."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import PHASES, Phase
from lockstep.workloads import recording
from lockstep.workloads.loop.evaluation import Tracker
from lockstep.workloads.loop.goals import (
    MLBENCH,
    Goal,
    GoalError,
    accuracy_after_time,
    parse,
    split,
)
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import Identity, RingWriter

SPENT = {
    Phase.DATA: 1.0, Phase.FORWARD: 2.0, Phase.BACKWARD: 4.0, Phase.GRAD_SYNC: 3.0,
    Phase.OPTIMIZER: 0.5, Phase.EVAL: 0.25, Phase.OTHER: 0.125,
}  # fmt: skip
LIGHT = {"light": "accuracy>=70%", "full": "accuracy>=80%"}


def tracker(goal: str | None = "light", workers: int = 2, synthetic: bool = False) -> Tracker:
    return Tracker(
        None if goal is None else parse(goal, LIGHT), workers=workers, synthetic=synthetic
    )


def test_a_goal_is_reached_in_validation_alone_and_at_its_threshold() -> None:
    watched = tracker()
    watched.observe_training(0, {"accuracy": 0.69})
    watched.observe_training(1, {"accuracy": 0.70})
    silent = watched.observe_evaluation(2, {"accuracy": 0.69}, SPENT, 11.0)
    in_training = watched.reached
    fired = watched.observe_evaluation(3, {"accuracy": 0.70}, SPENT, 12.0)

    assert silent is None
    assert in_training is None
    assert fired is not None
    assert 3 == fired.evaluation.step


def test_where_lower_is_better_it_is_reached_at_or_below() -> None:
    watched = Tracker(parse("light", MLBENCH["3a"]), workers=2, synthetic=False)
    above = watched.observe_evaluation(0, {"perplexity": 90.5}, SPENT, 1.0)
    at = watched.observe_evaluation(1, {"perplexity": 90.0}, SPENT, 2.0)

    assert above is None
    assert at is not None
    assert at.text.startswith("90 Validation Perplexity reached in 10.625 seconds")


def test_it_is_reached_once_with_the_training_time_and_that_of_each_part() -> None:
    watched = tracker()
    first = watched.observe_evaluation(4, {"accuracy": 0.8}, SPENT, 12.0)
    twice = {phase: 2 * seconds for phase, seconds in SPENT.items()}
    again = watched.observe_evaluation(9, {"accuracy": 0.9}, twice, 24.0)

    assert again is None
    assert first is not None
    assert first is watched.reached
    assert {
        "step": 4,
        "value": 0.8,
        "training_seconds": 10.625,
        "elapsed_seconds": 12.0,
        "split": {
            "preprocess_seconds": 1.0,
            "compute_seconds": 6.5,
            "communication_seconds": 3.0,
            "metrics_seconds": 0.25,
            "remainder_seconds": 0.125,
        },
        "text": first.text,
    } == first.to_json()


def test_the_text_is_mlbenchs() -> None:
    fired = tracker("full").observe_evaluation(4, {"accuracy": 0.8}, SPENT, 12.0)

    assert fired is not None
    assert (
        "80% Top 1 Validation Accuracy reached in 10.625 seconds, Compute: 6.500 seconds,"
        " Communication: 3.000 seconds" == fired.text
    )


def test_one_worker_has_no_communication_to_tell() -> None:
    fired = tracker(workers=1).observe_evaluation(4, {"accuracy": 0.8}, SPENT, 12.0)

    assert fired is not None
    assert "Communication" not in fired.text
    assert 0.0 == fired.evaluation.spent.communication


def test_on_synthetic_data_it_is_no_result_of_mlbench() -> None:
    watched = tracker(synthetic=True)
    fired = watched.observe_evaluation(4, {"accuracy": 0.8}, SPENT, 12.0)

    assert fired is not None
    assert fired.text.endswith(" (synthetic data: not an MLBench result)")
    assert watched.to_json()["synthetic"] is True


@given(st.floats(0.01, 1.0), st.floats(allow_nan=True))
def test_reached_means_not_worse_than_the_threshold(threshold: float, value: float) -> None:
    assert (value >= threshold) == Goal("accuracy", threshold).reached_by(value)
    assert (value <= threshold) == Goal("loss", threshold, False).reached_by(value)


def test_a_metric_that_is_missing_or_no_number_reaches_nothing() -> None:
    watched = tracker()

    assert watched.observe_evaluation(0, {"loss": 0.1}, SPENT, 1.0) is None
    assert watched.observe_evaluation(1, {"accuracy": math.nan}, SPENT, 2.0) is None
    assert watched.reached is None


def test_accuracy_after_time_is_of_training_time() -> None:
    watched = tracker(None)
    for step, accuracy in enumerate((0.5, 0.75, 0.7, 0.9), start=1):
        spent = {Phase.FORWARD: 10.0 * step, Phase.EVAL: 100.0 * step}
        watched.observe_evaluation(step, {"accuracy": accuracy}, spent, 110.0 * step)
    found = watched.evaluations

    assert [None, 0.5, 0.7, 0.9] == [
        accuracy_after_time(found, budget) for budget in (9.9, 10.0, 39.9, 7200.0)
    ]


def test_results_tell_goal_evaluations_and_split() -> None:
    watched = Tracker(parse("light", LIGHT), workers=2, synthetic=False, budget=5.0)
    watched.observe_training(3, {"loss": 0.5})
    watched.observe_evaluation(3, {"accuracy": 0.6, "loss": 0.4}, SPENT, 12.0)

    assert {
        "synthetic": False,
        "goal": {
            "name": "light", "metric": "accuracy", "threshold": 0.7, "higher_is_better": True,
            "reached": None,
        },
        "evaluations": [
            {
                "step": 3, "training_seconds": 10.625, "elapsed_seconds": 12.0, "accuracy": 0.6,
                "loss": 0.4,
            }
        ],
        "split": {
            "preprocess_seconds": 1.0, "compute_seconds": 6.5, "communication_seconds": 3.0,
            "metrics_seconds": 0.25, "remainder_seconds": 0.125,
        },
        "last_training": {"step": 3, "loss": 0.5},
        "accuracy_after_time": {"budget_seconds": 5.0, "accuracy": None},
    } == watched.to_json()  # fmt: skip


def test_a_run_without_a_goal_or_an_evaluation_has_results_too() -> None:
    tree = tracker(None).to_json()

    assert tree["goal"] is None
    assert [] == tree["evaluations"]
    assert tree["split"] is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("full", Goal("accuracy", 0.8, True, "full")),
        ("light", Goal("accuracy", 0.7, True, "light")),
        ("accuracy>=0.85", Goal("accuracy", 0.85)),
        (" accuracy >= 85% ", Goal("accuracy", 0.85)),
        ("accuracy>=1", Goal("accuracy", 1.0)),
        ("loss<=2.5e-1", Goal("loss", 0.25, False)),
        ("perplexity<=70", Goal("perplexity", 70.0, False)),
    ],
)
def test_goals_are_understood(text: str, wanted: Goal) -> None:
    assert wanted == parse(text, LIGHT)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fast", "goal 'fast' is not understood; give light, full or METRIC>=VALUE or"),
        ("accuracy>0.8", "is not understood"),
        ("acuracy>=0.8", "unknown metric 'acuracy'; one of accuracy, .*; did you mean accuracy"),
        ("accuracy<=80%", "accuracy is better the higher it is; give accuracy>=80%"),
        ("loss>=0.3", "loss is better the lower it is; give loss<=0.3"),
        ("accuracy>=80", "an accuracy is above 0 and at most 1; 0.8 is 80%"),
        ("accuracy>=0", "an accuracy is above 0"),
        ("accuracy>=1e", "'1e' is not a number"),
        ("loss<=3%", "loss is not given in percent"),
        ("loss<=1e999", "1e999 is not finite"),
    ],
)
def test_a_goal_that_cannot_be_is_refused_with_what_can(text: str, why: str) -> None:
    with pytest.raises(GoalError, match=why):
        parse(text, LIGHT)


def test_a_task_without_goals_of_its_own_says_only_what_works() -> None:
    with pytest.raises(GoalError, match="goal 'full' is not understood; give METRIC>=VALUE or"):
        parse("full", {})


def test_every_goal_of_mlbench_is_one() -> None:
    found = {
        task: {name: str(parse(name, goals)) for name in goals} for task, goals in MLBENCH.items()
    }

    assert {"full": "accuracy>=0.8", "light": "accuracy>=0.7"} == found["1a"]
    assert {"full": "accuracy>=0.89", "light": "accuracy>=0.8"} == found["2a"]
    assert {"full": "perplexity<=70", "light": "perplexity<=90"} == found["3a"]
    assert {"full": "bleu>=25", "light": "bleu>=20"} == found["4b"]


# A step's time is divided as MLBench divides it, and nothing of it is lost.

HALF = 500_000_000


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_half_a_second(self) -> None:
        self.now += HALF


def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch, batches: int) -> dict[Phase, float]:
    """Seconds by phase, from the ring, of batches whose parts take 0.5 s each."""
    clock = Clock()
    monkeypatch.setattr(recording, "monotonic_ns", clock)
    who = Identity(
        "run", "node-0", "", 0, 2, 0, 0, 0, 0, 0, -1, start_wall_ns=0, wall_minus_monotonic_ns=0
    )
    path = folder / ring.file_name(0)
    recorder = StepRecorder(RingWriter(path, who, now=clock))
    for _ in range(batches):
        recorder.start_step()
        with recorder.phase(Phase.DATA):
            clock.pass_half_a_second()  # batch_load
        clock.pass_half_a_second()  # init
        with recorder.phase(Phase.FORWARD):
            clock.pass_half_a_second()  # fwd_pass
            clock.pass_half_a_second()  # comp_loss
        with recorder.phase(Phase.BACKWARD):
            clock.pass_half_a_second()  # backprop
        with recorder.phase(Phase.GRAD_SYNC):
            clock.pass_half_a_second()  # agg
        with recorder.phase(Phase.OPTIMIZER):
            clock.pass_half_a_second()  # opt_step
        with recorder.phase(Phase.EVAL):
            clock.pass_half_a_second()  # comp_metrics
        clock.pass_half_a_second()  # end
        recorder.end_step(samples=1, tokens=0, flops=1.0, loss=1.0)
    totals = ring.COUNTERS.unpack_from(path.read_bytes(), ring.COUNTERS_OFFSET)
    return {
        phase: nanoseconds / 1e9
        for phase, nanoseconds in zip(PHASES, totals[-len(PHASES) :], strict=True)
    }


@pytest.mark.parametrize("batches", [1, 2])
def test_mlbenchs_batch_of_half_seconds_splits_as_its_own_test_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    spent = split(recorded(tmp_path, monkeypatch, batches), workers=2)

    assert pytest.approx(0.5 * batches, abs=0.01) == spent.preprocess
    assert pytest.approx(0.5 * batches, abs=0.01) == spent.communication
    assert pytest.approx(2.0 * batches, abs=0.01) == spent.compute
    assert pytest.approx(0.5 * batches, abs=0.01) == spent.metrics


def test_a_batch_lasts_four_and_a_half_seconds_and_one_is_of_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = recorded(tmp_path, monkeypatch, 1)
    spent = split(seconds, workers=2)

    assert pytest.approx(4.5) == sum(seconds.values())
    assert pytest.approx(4.5) == spent.total
    assert pytest.approx(4.0) == spent.training
    assert pytest.approx(1.0) == spent.remainder
