"""Micro-batches one after the other on one stage; gradients add up."""

import torch

from workloads.models.gpt import Gpt
from workloads.parallel import Segment


class Accumulation:
    """Forward and backward of a whole model, micro-batch by micro-batch."""

    def __init__(self, model: Gpt, micro_batches: int, segment: Segment) -> None:
        self._model = model
        self._micro_batches = micro_batches
        self._segment = segment

    def step(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """As Pipeline.step: gradients are the mean over micro-batches; the mean loss comes back."""
        losses: list[torch.Tensor] = []
        batches = zip(
            ids.chunk(self._micro_batches), targets.chunk(self._micro_batches), strict=True
        )
        for index, (inputs, wanted) in enumerate(batches):
            tag = f"c0.m{index}"
            with self._segment("forward", tag):
                loss = self._model.mean_loss(self._model(inputs), wanted)
            losses.append(loss.detach())
            with self._segment("backward", tag):
                torch.autograd.backward(loss / self._micro_batches)
        return torch.stack(losses).mean()

    @torch.no_grad()
    def evaluate(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss, forward only; shapes as `step`."""
        with self._segment("forward", "evaluation"):
            return self._model.mean_loss(self._model(ids), targets)
