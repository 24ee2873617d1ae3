"""One rank of a residual network that learns images: SGD with momentum, data parallel alone.

MLBench's learning rate for task 1a: a warm-up to many workers, then halves on plateaus.

mlbench-benchmarks imagerecognition/cifar10-resnet20-all-reduce/main.py and mlbench-core
lr_scheduler/pytorch/lr.py (ReduceLROnPlateauWithWarmup), with the warm-up by step, which that class
can and its task does by epoch.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from lockstep.workloads.data.images import ImageSet, ImageStream, whole_batch
from lockstep.workloads.loop.trainable import Context, Counts, Update
from lockstep.workloads.models.image_configs import ImageConfig
from lockstep.workloads.models.resnet import ResNet, initialize
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.parallel.data import Replicas, flattened, unflatten

MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
EVALUATED_AT_ONCE = 100


class ImageTraining:
    """See Trainable.

    Batch norm's running statistics are those of each rank's own images. An evaluation first makes
    them the mean over all ranks (of the variances too), so that every rank has the same model; then
    each rank evaluates its share of the validation images, and the sums are added.

    Args:
        training: Images to learn from.
        validation: Images to evaluate on.
        cools: Whether the learning rate goes to 0 at the end of the run.

    Attributes:
        model: The whole network.
    """

    def __init__(
        self, context: Context, config: ImageConfig, training: ImageSet, validation: ImageSet, *,
        cools: bool = False,
    ) -> None:  # fmt: skip
        spec, comm = context.spec, context.comm
        self._context = context
        self._validation = validation
        self._stream = ImageStream(training, spec.seed)
        self._images = spec.training.micro_batch
        self.model = ResNet(config)
        initialize(self.model, spec.seed)
        self.model.to(context.device)
        parameters = list(self.model.parameters())
        self._replicas = Replicas(parameters, comm, context.computed)
        ranks = comm.size("dp")
        self._rate = PlateauRate(
            spec.training.learning_rate, ranks, len(training) / (ranks * self._images),
            cooled_by=spec.steps if cools else None,
        )  # fmt: skip
        self._optimizer = torch.optim.SGD(
            parameters, lr=spec.training.learning_rate, momentum=MOMENTUM,
            weight_decay=WEIGHT_DECAY, fused=True,
        )  # fmt: skip
        self._skipped = torch.zeros((), device=context.device)
        self._averages = _Averages(self.model, comm)
        self._evaluated = (
            comm.collective("world-all-reduce", "world", "evaluation")
            if comm.size("world") > 1
            else None
        )
        self._last_step = 0
        self.counts = Counts(self._images, 0, config.flops_per_image * self._images)
        self.tells = context.rank == 0

    def batch(self, step: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """See Trainable: images and labels, as in ImageBatch.

        Raises:
            DataError: An image cannot be read.
        """
        comm = self._context.comm
        position = step * comm.size("dp") + comm.rank("dp")
        batch = self._stream.batch(position * self._images, self._images)
        return batch.images, batch.labels

    def train(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """See Trainable; both on the device."""
        self._replicas.zero()
        images, labels = channels_last(batch[0]), batch[1]
        with self._context.segment("forward", "c0.m0"):
            loss = functional.cross_entropy(self.model(images).float(), labels)
        with self._context.segment("backward", "c0.m0"):
            torch.autograd.backward(loss)
        return loss.detach()

    def reduce(self) -> None:
        """See Trainable."""
        self._replicas.finish()

    def update(self, step: int) -> Update:
        """See Trainable; where the norm is not finite, nothing changes."""
        self._last_step = step
        norm = self._replicas.norm()
        rate = self._rate(step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        # torch's fused optimizers skip the update where found_inf is 1 (torch.amp.GradScaler).
        infinite = (~norm.isfinite()).float()
        self._optimizer.found_inf = infinite  # type: ignore[attr-defined]
        self._optimizer.step()
        self._skipped += infinite
        return Update(rate, norm, self._skipped)

    @torch.no_grad()
    def evaluate(self) -> Mapping[str, float]:
        """See Trainable: accuracy and mean loss; the rate is told of the loss."""
        self._averages.equalise()
        comm, count = self._context.comm, len(self._validation)
        ranks, rank = comm.size("world"), comm.rank("world")
        first, last = count * rank // ranks, count * (rank + 1) // ranks
        sums = torch.zeros(2, dtype=torch.float64, device=self._context.device)
        self.model.eval()
        for begin in range(first, last, EVALUATED_AT_ONCE):
            batch = whole_batch(self._validation, begin, min(begin + EVALUATED_AT_ONCE, last))
            images = channels_last(torch.from_numpy(batch.images).to(self._context.device))
            labels = torch.from_numpy(batch.labels).to(self._context.device)
            with self._context.segment("forward", "c0.m0"):
                logits = self.model(images).float()
                sums[0] += (logits.argmax(dim=1) == labels).sum()
                sums[1] += functional.cross_entropy(logits, labels, reduction="sum")
        self.model.train()
        if self._evaluated is not None:
            self._evaluated.all_reduce(sums)
        accuracy, loss = (sums / count).tolist()
        self._rate.observe(self._last_step, loss)
        return {"accuracy": accuracy, "loss": loss}

    def results(self) -> dict[str, Any]:
        """See Trainable: how often the learning rate was halved."""
        return {"learning_rate_cuts": self._rate.cuts}


def channels_last(images: torch.Tensor) -> torch.Tensor:
    """(count, side, side, 3) as torch names it, (count, 3, side, side); memory stays as it is."""
    return images.permute(0, 3, 1, 2)


class _Averages:
    """The running statistics of all batch norms, as one tensor."""

    def __init__(self, model: nn.Module, comm: Comm) -> None:
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
        statistics = [part for norm in norms for part in (norm.running_mean, norm.running_var)]
        self._statistics = [part for part in statistics if part is not None]
        self._mean = (
            comm.collective("world-all-reduce", "world", "batch-norm")
            if comm.size("world") > 1
            else None
        )

    def equalise(self) -> None:
        """Make them their mean over the ranks; one rank alone communicates nothing."""
        if self._mean is None:
            return
        flat = flattened(self._statistics)
        self._mean.all_reduce(flat)
        unflatten(flat / self._mean.size, self._statistics)


FACTOR = 0.5
THRESHOLD = 0.01
"""A loss counts as better if it is lower by more than this."""
PATIENCE = 1
"""Evaluations that may be no better before the rate is cut."""
COOLING = 1 / 3
"""Share of a short run's steps in which the rate goes to 0."""


class PlateauRate:
    """The rate of each step; every rank must be told the same losses.

    Args:
        least: Rate of one worker, and the lowest after cuts.
        workers: The rate goes to `least` times as many.
        epoch: Steps of an epoch; the warm-up is log2 of the workers, rounded down, epochs long.
        cooled_by: Steps of a run that is too short for plateaus, whose rate goes to 0 at its end,
            which MLBench's does not; None = as MLBench's.

    Attributes:
        cuts: How often the rate was halved.
    """

    def __init__(
        self, least: float, workers: int, epoch: float, cooled_by: int | None = None
    ) -> None:
        self._cooled_by = cooled_by
        self._least = least
        self._rate = least * workers
        self._warm_up = int(math.log2(workers)) * epoch
        self._best = math.inf
        self._worse = 0
        self.cuts = 0

    def __call__(self, step: int) -> float:
        """The rate of a step, from 0."""
        rate = self._rate
        if step < self._warm_up:
            rate = self._least + (self._rate - self._least) * step / self._warm_up
        if self._cooled_by is None:
            return rate
        left = max(0, self._cooled_by - step)
        return rate * min(1.0, left / (COOLING * self._cooled_by))

    def observe(self, step: int, loss: float) -> None:
        """The validation loss after a step; during the warm-up it says nothing."""
        if step + 1 < self._warm_up:
            return
        if loss < self._best - THRESHOLD:
            self._best, self._worse = loss, 0
            return
        self._worse += 1
        if self._worse > PATIENCE and self._rate > self._least:
            self._rate = max(self._least, self._rate * FACTOR)
            self._worse = 0
            self.cuts += 1
