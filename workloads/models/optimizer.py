"""AdamW with a warm-up and a cosine; a step whose gradients are not finite changes nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
CLIP = 1.0
MOMENTS = ("exp_avg", "exp_avg_sq")

Moments = dict[nn.Parameter, dict[str, torch.Tensor]]
"""AdamW's two running means by parameter and name, as large as the parameter."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The learning rate of a step: linear warm-up, then a cosine to zero.

    Attributes:
        steps: Steps of the whole run; those after it have the last one's rate.
    """

    peak: float
    warmup: int
    steps: int

    def __call__(self, step: int) -> float:
        """The rate of a step, from 0."""
        warm = min(1.0, (step + 1) / self.warmup)
        return self.peak * warm * 0.5 * (1.0 + math.cos(math.pi * min(1.0, step / self.steps)))


class Optimizer:
    """AdamW of one rank's parameters.

    Attributes:
        skipped: Steps so far whose gradients were not finite, on the device.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], rate: Rate) -> None:
        self._rate = rate
        self.skipped = torch.zeros((), device=parameters[0].device)
        self.adam = torch.optim.AdamW(
            parameters, lr=rate.peak, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True
        )

    def step(self, step: int, norm: torch.Tensor) -> float:
        """Update the weights; returns the learning rate.

        Args:
            step: The step in progress, from 0.
            norm: The gradients' norm over the whole model; if it is not finite, weights and
                moments stay as they are. The device decides, and nothing waits for it.
        """
        rate = self._rate(step)
        for group in self.adam.param_groups:
            group["lr"] = rate
        # torch's fused optimizers skip the update where found_inf is 1 (torch.amp.GradScaler).
        infinite = (~norm.isfinite()).float()
        self.adam.found_inf = infinite  # type: ignore[attr-defined]
        self.adam.step()
        self.skipped += infinite
        return rate

    @property
    def updates(self) -> int:
        """Steps that changed the weights."""
        states = self.adam.state.values()
        return int(next(iter(states))["step"]) if states else 0

    def moments(self) -> Moments:
        """What a checkpoint keeps of AdamW, after the first step."""
        return {
            parameter: {name: self.adam.state[parameter][name] for name in MOMENTS}
            for parameter in self.adam.param_groups[0]["params"]
        }

    def take(self, updates: int, moments: Moments) -> None:
        """Go on from a checkpoint's `updates` and `moments`."""
        for parameter, both in moments.items():
            count = torch.tensor(float(updates), device=parameter.device)
            self.adam.state[parameter] = {"step": count, **both}
