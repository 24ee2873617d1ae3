"""Programs whose ranks have different work by design, with one that becomes slow or none."""

import argparse
import os
import random
from time import sleep
from typing import Any

import torch
import torch.distributed as dist
from late import a_model, batches, joined
from torch.nn.parallel import DistributedDataParallel

BASE_SECONDS = 0.02
STAGES = (0.6, 1.0, 1.5, 2.2)
EVALUATE_EVERY = 20
POPULAR = 2
SIDES = 16


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=sorted(WORK), required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--late-rank", type=int, default=-1)
    parser.add_argument("--factor", type=float, default=1.8)
    how = parser.parse_args()
    joined()
    rank, dice = int(os.environ["RANK"]), random.Random(int(os.environ["RANK"]))

    def work(step: int) -> None:
        late = rank == how.late_rank and step >= how.steps // 2
        sleep(BASE_SECONDS * WORK[how.kind](rank, step, dice) * (how.factor if late else 1.0))

    (staged if how.kind == "pipeline" else replicated)(how, rank, work)
    dist.destroy_process_group()


def staged(how: Any, rank: int, work: Any) -> None:
    """A pipeline by hand: activations go down, gradients come back; nobody averages anything."""
    last, part = dist.get_world_size() - 1, torch.nn.Linear(SIDES, SIDES)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.01)
    for step in range(how.steps):
        taken = torch.randn(SIDES, SIDES)
        if rank > 0:
            dist.recv(taken, rank - 1)
        taken.requires_grad_()
        given = part(taken)
        work(step)
        gradient = torch.empty(SIDES, SIDES)
        if rank < last:
            dist.send(given.detach(), rank + 1)
            dist.recv(gradient, rank + 1)
            given.backward(gradient)
        else:
            given.square().mean().backward()
        if rank > 0:
            dist.send(taken.grad, rank - 1)
        optimizer.step()
        optimizer.zero_grad()


def replicated(how: Any, rank: int, work: Any) -> None:
    """DistributedDataParallel; an expert's tokens are exchanged before."""
    model = DistributedDataParallel(a_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in enumerate(batches(how.steps)):
        if how.kind == "expert":
            parts = list(torch.ones(dist.get_world_size(), SIDES))
            dist.all_gather(parts, torch.ones(SIDES))
        work(step)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def _evaluating(rank: int, step: int, dice: random.Random) -> float:
    evaluates = rank == 0 and step % EVALUATE_EVERY == EVALUATE_EVERY - 1
    return 1.0 + 0.1 * (rank == 0) + 4.0 * evaluates


WORK = {
    "pipeline": lambda rank, step, dice: STAGES[rank % len(STAGES)],
    "rollouts": lambda rank, step, dice: 1.0 + (rank == 0) * 1.5 * dice.lognormvariate(0, 0.1),
    "expert": lambda rank, step, dice: (2.0 if rank == POPULAR else 1.0) * dice.uniform(0.9, 1.1),
    "evaluation": _evaluating,
    "lengths": lambda rank, step, dice: dice.lognormvariate(0, 0.2),
}
"""Times the usual own time, by rank and step."""

main()
