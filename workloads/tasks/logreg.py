"""MLBench's task 2a: L2 logistic regression on LIBSVM's epsilon, or on synthetic rows like it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.workloads.data.epsilon import Epsilon
from lockstep.workloads.loop.goals import MLBENCH
from lockstep.workloads.spec import RunSpec, SpecError, Training

if TYPE_CHECKING:
    from lockstep.workloads.loop.trainable import Context, Trainable

SYNTHETIC = "synthetic"
DIMENSIONS = 100
MOST_FEATURES = 100_000
"""Rows are dense: one of so many features has 400 kB."""
RECIPE = (
    "MLBench 2a as documented: 128 rows a worker, averaged gradients (its code has 100 and averages"
    " weights), no intercept, L2 2.5e-6, SGD, rate 4 x min(16, workers)"
)


class LogregTask:
    """See tasks.Task."""

    name = "logreg"
    defaults = Training(
        model="epsilon", data=SYNTHETIC, micro_batch=128, learning_rate=4.0, eval_every=50
    )
    options = frozenset(
        {
            "model", "data", "micro_batch", "learning_rate", "eval_every", "goal", "stop_at_goal",
            "time_budget",
        }
    )  # fmt: skip
    metrics = frozenset({"accuracy", "loss"})
    goals = MLBENCH["2a"]
    formula = "6N"
    sample = "rows"

    def per_step(self, spec: RunSpec) -> int:
        """See Task."""
        return spec.batch

    def check(self, spec: RunSpec) -> RunSpec:
        """See Task; also the first rows of the user's files."""
        features, layout = _features(spec), spec.layout
        if layout.tp * layout.pp > 1:
            raise SpecError(
                f"logreg is data parallel alone: --tp {layout.tp} and --pp {layout.pp} must be 1"
            )
        if spec.training.data != SYNTHETIC:
            from lockstep.workloads.data.converted import look_at

            look_at(Path(spec.training.data), features)
        return replace(spec, training=replace(spec.training, micro_batches=1))

    def prepare(self, spec: RunSpec, workspace: Path) -> Path:
        """See Task: a folder of rows (data/row_files.py).

        LIBSVM text is converted once and kept for later runs (data/converted.py), which takes
        minutes for epsilon.
        """
        features = _features(spec)
        if spec.training.data != SYNTHETIC:
            from lockstep.workloads.data.converted import cache_folder, converted

            return converted(Path(spec.training.data), features, cache_folder())
        folder = workspace / "data" / "logreg"
        _synthetic(spec).write(folder)
        return folder

    def about(self, spec: RunSpec) -> dict[str, Any]:
        """See Task."""
        features = _features(spec)
        if spec.training.data == SYNTHETIC:
            facts = _synthetic(spec).about()
        else:
            from lockstep.workloads.data.converted import cache_folder, describe_files

            facts = describe_files(Path(spec.training.data), features, cache_folder())
        return {**facts, "parameters": features, "formula": self.formula, "recipe": RECIPE}

    def set_up(self, context: "Context") -> "Trainable[Any]":
        """See Task."""
        from lockstep.workloads.models.logreg import LogisticRegression

        return LogisticRegression(context)


def _features(spec: RunSpec) -> int:
    """Numbers of a row.

    Raises:
        SpecError: No model has that name.
    """
    model = spec.training.model
    if model == "epsilon":
        return 2000
    match = re.fullmatch(r"linear-([1-9]\d{0,5})", model)
    if match is None or not 2 <= int(match[1]) <= MOST_FEATURES:
        raise SpecError(
            f"unknown model {model!r}; give epsilon (2000 features) or linear-N for N features,"
            f" from 2 to {MOST_FEATURES}"
        )
    return int(match[1])


def _synthetic(spec: RunSpec) -> Epsilon:
    features = _features(spec)
    return Epsilon(spec.seed, features=features, dimensions=min(DIMENSIONS, features))


TASK = LogregTask()
