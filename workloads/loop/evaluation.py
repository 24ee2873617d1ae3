"""Evaluations of a run: when they are due, what they found, and whether the run may end."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev, stdev
from time import monotonic
from typing import Any, SupportsFloat

import torch
import torch.distributed as dist

from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.contract.words import PHASES
from lockstep.workloads.loop.goals import (
    Evaluated,
    Goal,
    Reached,
    accuracy_after_time,
    parse,
    split,
)
from lockstep.workloads.loop.trainable import Trainable
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.spec import RunSpec
from lockstep.workloads.tasks.registry import find

# Throughput by the protocol of horovod's synthetic benchmark, from the times of steps.
#
# Protocol: horovod examples/pytorch/pytorch_synthetic_benchmark.py: 10 batches to warm up, then 10
# iterations of 10 batches; each iteration's rate is one measurement.

WARMUP_STEPS = 10
ITERATIONS = 10
STEPS_PER_ITERATION = 10
STEPS = WARMUP_STEPS + ITERATIONS * STEPS_PER_ITERATION
HOROVOD_DEVIATIONS = 1.96
STUDENT_T = 2.262157
"""97.5 % point of Student's t with ITERATIONS - 1 = 9 degrees of freedom."""


class ThroughputError(ValueError):
    """There is nothing to measure; the message says how much is needed."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Samples per second of one rank.

    Attributes:
        rates: One an iteration.
        ranks: Of the run; each has the same share of the samples.
        device: `GPU`, or `rank` where ranks have none.
        sample: What a sample is, in the singular: horovod's `Img`.
    """

    rates: tuple[float, ...]
    ranks: int
    device: str
    sample: str

    @property
    def mean(self) -> float:
        """Of one rank."""
        return fmean(self.rates)

    @property
    def horovod_spread(self) -> float:
        """1.96 standard deviations of an iteration, as horovod prints behind `+-`.

        It tells how much iterations vary. It is no confidence interval of the mean.
        """
        return HOROVOD_DEVIATIONS * pstdev(self.rates)

    @property
    def confidence_interval(self) -> tuple[float, float]:
        """95 % interval of the mean, by Student's t over the iterations."""
        half = STUDENT_T * stdev(self.rates) / math.sqrt(len(self.rates))
        return self.mean - half, self.mean + half

    def lines(self) -> list[str]:
        """Horovod's lines, then ours with the interval."""
        name, device = self.sample, self.device
        total, spread = self.ranks * self.mean, self.ranks * self.horovod_spread
        low, high = self.confidence_interval
        return [
            *(
                f"Iter #{index}: {rate:.1f} {name.lower()}/sec per {device}"
                for index, rate in enumerate(self.rates)
            ),
            f"{name}/sec per {device}: {self.mean:.1f} +-{self.horovod_spread:.1f}",
            f"Total {name.lower()}/sec on {self.ranks} {device}(s): {total:.1f} +-{spread:.1f}",
            f"95 % confidence interval of the mean per {device}: {low:.1f} to {high:.1f}",
        ]

    def to_json(self) -> dict[str, Any]:
        """As JSON types; samples per second of one rank, but for `total`."""
        low, high = self.confidence_interval
        return {
            "sample": self.sample,
            "samples_per_second_per_rank": self.mean,
            "horovod_spread": self.horovod_spread,
            "confidence_interval_95": [low, high],
            "total_samples_per_second": self.ranks * self.mean,
            "ranks": self.ranks,
            "iterations": list(self.rates),
        }


def measured(
    seconds: Sequence[float], samples: float, ranks: int, *, gpu: bool, sample: str = "Img"
) -> Throughput:
    """The throughput of a run's first steps.

    Args:
        seconds: Of each step of one rank, from the first; STEPS of them count. Leave out those
            that are slow by design (evaluation, checkpoint).
        samples: Of one rank in a step; a share of one where ranks train on one together.
        gpu: Whether ranks have one.

    Raises:
        ThroughputError: There are too few steps, or one took no time.
    """
    if len(seconds) < STEPS:
        raise ThroughputError(
            f"{len(seconds)} steps are too few for a throughput; {STEPS} are needed:"
            f" {WARMUP_STEPS} to warm up and {ITERATIONS} x {STEPS_PER_ITERATION}"
        )
    counted = seconds[WARMUP_STEPS:STEPS]
    wrong = next((value for value in counted if not (math.isfinite(value) and value > 0)), None)
    if wrong is not None:
        raise ThroughputError(f"a step took {wrong} seconds; it must take more than 0")
    rates = tuple(
        samples * STEPS_PER_ITERATION / math.fsum(counted[first : first + STEPS_PER_ITERATION])
        for first in range(0, len(counted), STEPS_PER_ITERATION)
    )
    return Throughput(rates, ranks, "GPU" if gpu else "rank", sample)


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
        evaluated = Evaluated(step, elapsed, split(seconds_by_phase, self._workers), dict(metrics))
        self.evaluations.append(evaluated)
        goal = self.goal
        if goal is None or self.reached is not None or goal.metric not in metrics:
            return None
        if goal.reached_by(metrics[goal.metric]):
            self.reached = Reached(goal, evaluated, self._synthetic)
            return self.reached
        return None

    def to_json(self) -> dict[str, Any]:
        """For results.json, as JSON types; times are seconds, accuracies ratios."""
        tree: dict[str, Any] = {
            "synthetic": self._synthetic,
            "goal": None if self.goal is None else _goal_dict(self.goal, self.reached),
            "evaluations": [
                {
                    "step": evaluated.step,
                    "training_seconds": round(evaluated.spent.training, 6),
                    "elapsed_seconds": round(evaluated.elapsed, 6),
                    **evaluated.metrics,
                }
                for evaluated in self.evaluations
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


BUDGET_STEPS = 10
"""Between two agreements of the ranks on whether the time budget is used up."""
WRITE_PAUSE = 50.0
"""Between two writes of results.json while a run lasts, in times that the last one took."""
SCHEMA_VERSION = 1


class Evaluation:
    """One rank's part in the evaluations; every rank comes to the same decisions.

    Args:
        results: Where the telling rank writes what was found out; None = nowhere.

    Attributes:
        over: The run may end: its goal or its time budget is reached.
    """

    def __init__(
        self, spec: RunSpec, parts: Trainable[Any], recorder: StepRecorder, comm: Comm,
        results: Path | None,
    ) -> None:  # fmt: skip
        self.over = False
        self._spec = spec
        self._parts = parts
        self._recorder = recorder
        self._results = results if parts.tells else None
        self._tracker = tracker(spec)
        self._agree = comm.collective("world-all-reduce", "world", "time-budget")
        self._began = monotonic()
        self._in_time = True
        self._pending: Mapping[str, float] | None = None
        self._next_write = 0.0
        self._spent_ns = [0] * len(PHASES)
        self._plain_seconds: list[float] = []

    def due(self, step: int) -> bool:
        """Whether to evaluate in this step; the same on every rank."""
        training = self._spec.training
        if training.time_budget is not None and (step + 1) % BUDGET_STEPS == 0:
            used = torch.tensor([monotonic() - self._began], dtype=torch.float64)
            self._agree.all_reduce(used, dist.ReduceOp.MAX)
            self._in_time = used.item() < training.time_budget
        last = step + 1 == self._spec.steps or not self._in_time
        every = training.eval_every
        return every > 0 and ((step + 1) % every == 0 or last)

    def run(self) -> None:
        """Evaluate; the caller has opened the phase.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        self._pending = self._parts.evaluate()
        goal = self._tracker.goal
        if goal is not None and goal.metric in self._pending:
            reached = goal.reached_by(self._pending[goal.metric])
            self.over = reached and self._spec.training.stop_at_goal

    def after_step(self, step: int, loss: SupportsFloat) -> None:
        """The step has ended; its loss is NaN where this rank knows none."""
        self.over = self.over or not self._in_time
        metrics, self._pending = self._pending, None
        elapsed = monotonic() - self._began
        self._recorder.after(partial(self._note, step, loss, metrics, elapsed))

    def write(self) -> None:
        """Leave results.json with what is known by now, whole or not at all."""
        if self._results is None:
            return
        tree = {
            "schema_version": SCHEMA_VERSION,
            "workload": self._spec.workload,
            **self._tracker.to_json(),
            "throughput": self._throughput(),
            **self._parts.results(),
        }
        write_whole(self._results, json.dumps(tree, indent=2) + "\n", mode=None)

    def _note(
        self, step: int, loss: SupportsFloat, metrics: Mapping[str, float] | None, elapsed: float
    ) -> None:
        """The step's times are known: on a GPU, later than the step's end on the host."""
        phases = self._recorder.last_phases
        self._spent_ns = [one + more for one, more in zip(self._spent_ns, phases, strict=True)]
        if not self._recorder.last_tags:
            self._plain_seconds.append(self._recorder.wall_seconds)
        if math.isfinite(loss):
            self._tracker.observe_training(step, {"loss": float(loss)})
        if metrics is None:  # no evaluation in this step
            return
        if metrics:
            self._observe(step, metrics, elapsed)
        self._write_so_far()

    def _observe(self, step: int, metrics: Mapping[str, float], elapsed: float) -> None:
        spent = {str(phase): ns / 1e9 for phase, ns in zip(PHASES, self._spent_ns, strict=True)}
        reached = self._tracker.observe_evaluation(step, metrics, spent, elapsed)
        if reached is not None and self._results is not None:
            print(reached.text, flush=True)  # noqa: T201 - the rank's log

    def _write_so_far(self) -> None:
        """For a run that may be ended at any time; of many evaluations not after each.

        Writing takes at most 1 / WRITE_PAUSE of the time. A full disk ends no training.
        """
        begun = monotonic()
        if self._results is None or begun < self._next_write:
            return
        with suppress(OSError):
            self.write()
        self._next_write = begun + WRITE_PAUSE * (monotonic() - begun)

    def _throughput(self) -> dict[str, Any] | None:
        """Of a long enough run, by horovod's protocol."""
        if len(self._plain_seconds) < STEPS or not self._parts.counts.samples:
            return None
        # All ranks of a replica share its samples: those of a pipeline, those of a tensor group.
        task, ranks = find(self._spec.workload), self._spec.layout.world
        return measured(
            self._plain_seconds, task.per_step(self._spec) / ranks, ranks,
            gpu=self._spec.device == "cuda", sample=task.sample,
        ).to_json()  # fmt: skip


def tracker(spec: RunSpec) -> Tracker:
    """What watches a run's evaluations.

    Raises:
        GoalError: The goal cannot be asked for.
    """
    task, wish = find(spec.workload), spec.training.goal
    return Tracker(
        None if wish is None else parse(wish, task.goals),
        workers=spec.layout.dp,
        synthetic=spec.training.is_synthetic,
        budget=spec.training.time_budget,
    )
