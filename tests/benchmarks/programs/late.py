"""What the programs beside share: their few options, a rank that is late, and a small model."""

import argparse
import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from time import sleep
from typing import Any

import lockstep

WIDTH = 64
BATCH = 8
BASE_SECONDS = 0.02
"""A step of every rank, standing for a larger model: 4 ranks on 2 cores have no time to compute."""


@dataclass(frozen=True)
class Plan:
    """How the program is to run.

    Attributes:
        variant: Of the program, where it has several.
        recorded: With lockstep.recorder; else the program knows nothing of Lockstep.
    """

    variant: str
    steps: int
    late_rank: int
    late_from: int
    late_seconds: float
    recorded: bool

    @property
    def rank(self) -> int:
        return int(os.environ["RANK"])

    @property
    def world(self) -> int:
        return int(os.environ["WORLD_SIZE"])

    def work(self, step: int) -> None:
        """The step's own work of this rank."""
        late = self.rank == self.late_rank and step >= self.late_from
        sleep(BASE_SECONDS + late * self.late_seconds)

    def recorder(self, **who: Any) -> Any:
        """The recorder, or one that does nothing."""
        return lockstep.recorder(**({} if self.recorded else {"environment": {}}), **who)


def plan() -> Plan:
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", default="")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--late-rank", type=int, default=-1)
    parser.add_argument("--late-from", type=int, default=50)
    parser.add_argument("--late-seconds", type=float, default=0.04)
    parser.add_argument("--recorded", action="store_true")
    return Plan(**vars(parser.parse_args()))


def joined() -> None:
    """Torch's default process group, over gloo."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.distributed.init_process_group("gloo")


def a_model(*, normed: bool = False) -> Any:
    from torch import nn

    norm = nn.BatchNorm1d(WIDTH) if normed else nn.Identity()
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), norm, nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def batches(steps: int) -> Iterator[Any]:
    import torch

    return (torch.randn(BATCH, WIDTH) for _ in range(steps))


def a_loader(world: int, steps: int) -> Any:
    """Batches for so many steps of so many ranks, for frameworks that divide them."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = torch.randn(BATCH * steps * world, WIDTH)
    return DataLoader(TensorDataset(data), batch_size=BATCH)


def fit(model: Any, plan: Plan, recorder: Any, optimizer: Any = None) -> None:
    """The plain loop of torch; a step of the optimizer is a step."""
    import torch

    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05)
    for step, batch in enumerate(recorder.steps(batches(plan.steps))):
        plan.work(step)
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def maybe(condition: bool, context: Any) -> Any:
    return context if condition else nullcontext()
