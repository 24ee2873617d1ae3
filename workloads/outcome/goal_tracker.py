"""Watches a run's evaluations for its goal."""

from collections.abc import Mapping
from typing import Any

from workloads.outcome.goals import Evaluated, Goal, Reached, accuracy_after_time
from workloads.outcome.time_split import split


class Tracker:
    """Every evaluation of a run, and the one that reached its goal.

    Training metrics are kept and never judged: a goal is reached in validation alone.

    Args:
        goal: None = the run has none.
        workers: Replicas of the run.
        synthetic: Whether its data are.
        budget: Training seconds at which accuracy after time is told.

    Attributes:
        reached: The first time the goal was.
    """

    def __init__(
        self, goal: Goal | None, *, workers: int, synthetic: bool, budget: float | None = None
    ) -> None:
        self.goal = goal
        self.evaluations: list[Evaluated] = []
        self.reached: Reached | None = None
        self._workers = workers
        self._synthetic = synthetic
        self._budget = budget
        self._training: dict[str, Any] = {}

    def observe_training(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics of a training batch, after a step from 0; the last ones are kept."""
        self._training = {"step": step, **metrics}

    def observe_evaluation(
        self,
        step: int,
        metrics: Mapping[str, float],
        seconds_by_phase: Mapping[str, float],
        elapsed: float,
    ) -> Reached | None:
        """Metrics of validation data, after a step from 0; the goal if this reaches it first.

        Args:
            seconds_by_phase: By phase, summed over this rank's steps so far.
            elapsed: Seconds since the first step began.
        """
        found = Evaluated(step, elapsed, split(seconds_by_phase, self._workers), dict(metrics))
        self.evaluations.append(found)
        goal = self.goal
        if goal is None or self.reached is not None or goal.metric not in metrics:
            return None
        if goal.reached_by(metrics[goal.metric]):
            self.reached = Reached(goal, found, self._synthetic)
            return self.reached
        return None

    def to_json(self) -> dict[str, Any]:
        """For results.json, as JSON types; times are seconds, accuracies ratios."""
        tree: dict[str, Any] = {
            "synthetic": self._synthetic,
            "goal": None if self.goal is None else _goal_dict(self.goal, self.reached),
            "evaluations": [
                {
                    "step": found.step,
                    "training_seconds": round(found.spent.training, 6),
                    "elapsed_seconds": round(found.elapsed, 6),
                    **found.metrics,
                }
                for found in self.evaluations
            ],
            "split": self.evaluations[-1].spent.to_json() if self.evaluations else None,
            "last_training": self._training or None,
        }
        if self._budget is not None:
            accuracy = accuracy_after_time(self.evaluations, self._budget)
            tree["accuracy_after_time"] = {"budget_seconds": self._budget, "accuracy": accuracy}
        return tree


def _goal_dict(goal: Goal, reached: Reached | None) -> dict[str, Any]:
    return {
        "name": goal.name or None,
        "metric": goal.metric,
        "threshold": goal.threshold,
        "higher_is_better": goal.higher_is_better,
        "reached": None if reached is None else reached.to_json(),
    }
