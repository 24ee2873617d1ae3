"""Logistic regression with an L2 penalty: everything of one rank that learns.

MLBench's task 2a: no intercept, L2 2.5e-6, plain SGD, rate 4 · min(16, workers). We follow its
documents: 128 rows a worker and averaged gradients. Its code has 100 rows and averages the weights
after the update instead (mlbench-benchmarks pytorch/linearmodels).
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import Parameter
from torch.nn.functional import binary_cross_entropy_with_logits as log_loss

from lockstep.workloads.data.row_files import about, mapped
from lockstep.workloads.loop.trainable import Context, Counts, Update
from lockstep.workloads.parallel.data import Replicas

# Rows of row_files.py for one rank, in the order of the run.


class Rows:
    """The rows of a split, mapped into memory.

    Attributes:
        features: Numbers of a row.

    Raises:
        DataError: A file is missing or has another size than the index says.
    """

    def __init__(self, folder: Path, split: str) -> None:
        index = about(folder)
        self.features: int = index["features"]
        count, width = index["rows"][split], index["width"]
        self._numbers = mapped(folder / f"{split}.f32", np.dtype(np.float32), (count, width))
        self._labels = mapped(folder / f"{split}.labels", np.dtype(np.int8), (count,))
        self._basis: torch.Tensor | None = None
        if index["basis"]:
            basis = mapped(folder / "basis.f32", np.dtype(np.float32), (width, self.features))
            self._basis = torch.from_numpy(np.array(basis))

    def __len__(self) -> int:
        """Rows of the split."""
        return len(self._labels)

    def take(self, numbers: NDArray[np.int64] | slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows (n, features) and labels (n,), 0 or 1, by their numbers; float32."""
        rows = torch.from_numpy(np.array(self._numbers[numbers]))
        if self._basis is not None:
            # numpy would take every core for it, and ranks share them
            rows = rows @ self._basis
        return rows, torch.from_numpy(self._labels[numbers].astype(np.float32))


class Draws:
    """The order in which a run sees rows: every epoch each once, shuffled by (seed, epoch).

    It does not know the layout of ranks: any number of them trains on the same batches. A batch
    may end one epoch and begin the next, so no row is left out.
    """

    def __init__(self, rows: int, seed: int) -> None:
        self._rows = rows
        self._seed = seed
        self._epochs: dict[int, NDArray[np.int64]] = {}

    def numbers(self, first: int, count: int) -> NDArray[np.int64]:
        """Numbers of the rows that come `first` and after, counted from the start of the run."""
        parts: list[NDArray[np.int64]] = []
        while count > 0:
            epoch, position = divmod(first, self._rows)
            part = self._order(epoch)[position : position + count]
            parts.append(part)
            first, count = first + part.size, count - part.size
        return np.concatenate(parts)

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if epoch not in self._epochs:
            dice = np.random.default_rng([self._seed, epoch])
            kept = {epoch - 1: self._epochs[epoch - 1]} if epoch - 1 in self._epochs else {}
            self._epochs = {**kept, epoch: dice.permutation(self._rows)}
        return self._epochs[epoch]


Batch = tuple[torch.Tensor, torch.Tensor]
"""Rows (n, features) and labels (n,), 0 or 1."""
PENALTY = 2.5e-6
"""Times half the squared length of the weights is added to the loss."""
MOST_WORKERS = 16
"""The rate grows with the workers up to here."""
EVALUATED_ROWS = 2048
TAG = "c0.m0"


def flops(features: int) -> float:
    """FLOPs of a row by the formula 6N, N = parameters.

    It counts a gradient for the inputs, which the first layer of a model does not need: 4N are
    done.
    """
    return 6.0 * features


class LogisticRegression:
    """A Trainable: the weights are the same on all ranks before and after every step."""

    def __init__(self, context: Context) -> None:
        training, layout = context.spec.training, context.spec.layout
        self._segment, self._device = context.segment, context.device
        self._replicas, self._replica = layout.dp, layout.coordinates(context.rank)[0]
        self._rows = training.micro_batch
        self._train = Rows(context.data, "train")
        self._validation = Rows(context.data, "validation")
        self._optimum: float | None = about(context.data)["about"].get("bayes_accuracy")
        self._draws = Draws(len(self._train), context.spec.seed)
        self._rate = training.learning_rate * min(MOST_WORKERS, layout.dp)
        self._weights = Parameter(torch.zeros(self._train.features, device=context.device))
        self._gradients = Replicas([self._weights], context.comm, context.computed)
        self._skipped = torch.zeros((), device=context.device)
        self._sum = (
            context.comm.collective("world-all-reduce", "world", "evaluation")
            if self._replicas > 1
            else None
        )
        self._metrics: dict[str, float] = {}
        self.tells = self._replica == 0
        self.counts = Counts(self._rows, 0, flops(self._train.features) * self._rows)

    def batch(self, step: int) -> Batch:
        """See Trainable."""
        first = (step * self._replicas + self._replica) * self._rows
        return self._train.take(self._draws.numbers(first, self._rows))

    def train(self, batch: Batch) -> torch.Tensor:
        """See Trainable; the loss is this rank's, without the penalty."""
        rows, labels = batch
        self._gradients.zero()
        with self._segment("forward", TAG):
            loss = log_loss(rows @ self._weights, labels)
        with self._segment("backward", TAG):
            loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def reduce(self) -> None:
        """See Trainable."""
        self._gradients.finish()

    @torch.no_grad()
    def update(self, step: int) -> Update:
        """See Trainable; gradients that are not finite change nothing.

        Plain SGD by hand: torch.optim imports its compiler at the first step, seconds of a rank.
        """
        norm = self._gradients.norm()
        finite = norm.isfinite()
        assert self._weights.grad is not None
        slope = self._weights.grad + PENALTY * self._weights
        self._weights.sub_(torch.where(finite, slope, 0.0), alpha=self._rate)
        self._skipped += ~finite
        return Update(self._rate, norm, self._skipped)

    @torch.no_grad()
    def evaluate(self) -> Mapping[str, float]:
        """See Trainable: `accuracy` as a ratio and `loss`, the mean log loss in nats, no penalty.

        Each rank judges its part of the validation rows; one all-reduce adds the parts up.
        """
        rows = len(self._validation)
        begin, end = (
            rows * replica // self._replicas for replica in (self._replica, self._replica + 1)
        )
        sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        with self._segment("forward", TAG):
            for first in range(begin, end, EVALUATED_ROWS):
                part = self._validation.take(slice(first, min(first + EVALUATED_ROWS, end)))
                numbers, labels = (item.to(self._device) for item in part)
                logits = numbers @ self._weights
                sums[0] += ((logits > 0) == (labels > 0)).sum()
                sums[1] += log_loss(logits, labels, reduction="sum")
        if self._sum is not None:
            self._sum.all_reduce(sums)
        right, loss = sums.tolist()
        self._metrics = {"accuracy": right / rows, "loss": loss / rows}
        return self._metrics

    def results(self) -> dict[str, Any]:
        """See Trainable: the best accuracy to expect, where it is known, and how far it is.

        Few validation rows may be luckier than that: the standard error says by how much.
        """
        best = self._optimum
        if best is None or not self._metrics:
            return {}
        error = math.sqrt(best * (1 - best) / len(self._validation))
        return {
            "bayes_accuracy": best,
            "points_below_bayes": round(100 * (best - self._metrics["accuracy"]), 3),
            "standard_error_points": round(100 * error, 3),
        }
