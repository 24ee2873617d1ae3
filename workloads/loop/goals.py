"""Goals of a run, as MLBench has them, and how long it took to reach one.

A metric is of validation data. Accuracy is a ratio here; MLBench writes percent.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any

from lockstep.collector.contract.words import Phase

# Training time is divided as in MLBench: compute, communication and the rest.

COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Seconds of one rank; they add up to its steps.

    Attributes:
        preprocess: Waiting for data.
        compute: Forward, backward and optimizer. What is communicated meanwhile is hidden here.
        communication: Waiting for gradients that the others have not sent yet; none where a rank
            trains alone.
        metrics: Evaluation on validation data.
        remainder: All else: checkpoints, garbage collection, what no phase covers.
    """

    preprocess: float = 0.0
    compute: float = 0.0
    communication: float = 0.0
    metrics: float = 0.0
    remainder: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of the steps."""
        return math.fsum(getattr(self, field.name) for field in fields(self))

    @property
    def training(self) -> float:
        """Seconds without evaluation: MLBench's training time."""
        return self.total - self.metrics

    def to_json(self) -> dict[str, float]:
        """As `<part>_seconds`."""
        return {f"{name}_seconds": round(value, 6) for name, value in asdict(self).items()}


def split(seconds: Mapping[str, float], workers: int) -> TimeSplit:
    """Divide what a rank's steps took.

    Args:
        seconds: By phase (words.PHASES), summed over steps; `other` is their remainder.
        workers: Replicas. One alone communicates with nobody: the microseconds of its grad_sync
            are no communication, but of the remainder.
    """
    left = dict(seconds)
    preprocess = left.pop(Phase.DATA, 0.0)
    compute = sum(left.pop(phase, 0.0) for phase in COMPUTE)
    metrics = left.pop(Phase.EVAL, 0.0)
    communication = left.pop(Phase.GRAD_SYNC, 0.0) if workers > 1 else 0.0
    return TimeSplit(preprocess, compute, communication, metrics, sum(left.values()))


METRICS: dict[str, bool] = {"accuracy": True, "loss": False, "perplexity": False, "bleu": True}
"""Whether higher is better."""

MLBENCH: dict[str, dict[str, str]] = {
    "1a": {"full": "accuracy>=80%", "light": "accuracy>=70%"},
    "2a": {"full": "accuracy>=89%", "light": "accuracy>=80%"},
    "3a": {"full": "perplexity<=70", "light": "perplexity<=90"},
    "4a": {"full": "bleu>=24", "light": "bleu>=20"},
    "4b": {"full": "bleu>=25", "light": "bleu>=20"},
}
"""By task (mlbench-core evaluation/goals.py): ResNet-20 on CIFAR-10, logistic regression on
epsilon, a language model on Wikitext2, GNMT, Transformer."""

_GOAL = re.compile(r"\s*([a-z_]+)\s*(>=|<=)\s*([-+0-9.eE]+)\s*(%?)\s*")


class GoalError(ValueError):
    """A goal cannot be asked for; the message says what can."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A threshold that a metric has to reach: at or above it, or at or below.

    Attributes:
        name: `full` or `light` where MLBench set it, else empty.
    """

    metric: str
    threshold: float
    higher_is_better: bool = True
    name: str = ""

    def reached_by(self, value: float) -> bool:
        """Whether a value is good enough; NaN never is."""
        return value >= self.threshold if self.higher_is_better else value <= self.threshold

    def __str__(self) -> str:
        return f"{self.metric}{'>=' if self.higher_is_better else '<='}{self.threshold:g}"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What a run was worth at one time.

    Attributes:
        step: The step after which it was, from 0.
        elapsed: Seconds since the first step began, evaluations included.
        spent: Where they went on this rank; `spent.training` leaves evaluations out.
    """

    step: int
    elapsed: float
    spent: TimeSplit
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Reached:
    """A goal, and the evaluation that reached it.

    Attributes:
        synthetic: The data are, so this is no result of MLBench.
    """

    goal: Goal
    evaluation: Evaluated
    synthetic: bool

    @property
    def text(self) -> str:
        """MLBench's sentence (mlbench-core evaluation/goals.py); no time is named that is 0."""
        spent = self.evaluation.spent
        words = [f"{_claim(self.goal)} reached in {spent.training:.3f} seconds"]
        if spent.compute:
            words.append(f"Compute: {spent.compute:.3f} seconds")
        if spent.communication:
            words.append(f"Communication: {spent.communication:.3f} seconds")
        text = ", ".join(words)
        return f"{text} (synthetic data: not an MLBench result)" if self.synthetic else text

    def to_json(self) -> dict[str, Any]:
        """As JSON types, seconds."""
        evaluated = self.evaluation
        return {
            "step": evaluated.step,
            "value": evaluated.metrics[self.goal.metric],
            "training_seconds": round(evaluated.spent.training, 6),
            "elapsed_seconds": round(evaluated.elapsed, 6),
            "split": evaluated.spent.to_json(),
            "text": self.text,
        }


def parse(text: str, task_goals: Mapping[str, str]) -> Goal:
    """A goal from the command line.

    Args:
        text: `full` or `light` where the task has them, or METRIC>=VALUE or METRIC<=VALUE; an
            accuracy is a ratio, or has a % sign.
        task_goals: Goals by name.

    Raises:
        GoalError: It is none of these.
    """
    if text in task_goals:
        goal = parse(task_goals[text], {})
        return Goal(goal.metric, goal.threshold, goal.higher_is_better, text)
    match = _GOAL.fullmatch(text)
    if match is None:
        names = ", ".join(task_goals)
        raise GoalError(
            f"goal {text!r} is not understood; give {f'{names} or ' if names else ''}METRIC>=VALUE"
            " or METRIC<=VALUE, as accuracy>=0.8"
        )
    metric, sign, number, percent = match.groups()
    if metric not in METRICS:
        near = get_close_matches(metric, METRICS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise GoalError(f"unknown metric {metric!r}; one of {', '.join(METRICS)}{hint}")
    higher, threshold = METRICS[metric], _threshold(text, metric, number, percent)
    if (sign == ">=") != higher:
        right = f"{metric}{'>=' if higher else '<='}{number}{percent}"
        raise GoalError(
            f"goal {text!r}: {metric} is better the {'higher' if higher else 'lower'} it is;"
            f" give {right}"
        )
    return Goal(metric, threshold, higher)


def accuracy_after_time(evaluations: Sequence[Evaluated], budget: float) -> float | None:
    """Accuracy at the last evaluation within so many training seconds; None = there was none.

    MLBench's second metric of merit; its documents had a budget of two hours and never used it.
    """
    within = [evaluated for evaluated in evaluations if evaluated.spent.training <= budget]
    return within[-1].metrics.get("accuracy") if within else None


def _threshold(text: str, metric: str, number: str, percent: str) -> float:
    try:
        value = float(number)
    except ValueError:
        raise GoalError(f"goal {text!r}: {number!r} is not a number") from None
    if percent and metric != "accuracy":
        raise GoalError(f"goal {text!r}: {metric} is not given in percent; leave the % out")
    if percent:
        value /= 100
    if metric == "accuracy" and not 0.0 < value <= 1.0:
        raise GoalError(f"goal {text!r}: an accuracy is above 0 and at most 1; 0.8 is 80%")
    if not math.isfinite(value):
        raise GoalError(f"goal {text!r}: {number} is not finite")
    return value


def _claim(goal: Goal) -> str:
    if goal.metric == "accuracy":
        return f"{100 * goal.threshold:02g}% Top 1 Validation Accuracy"
    return f"{goal.threshold:g} Validation {goal.metric.capitalize()}"
