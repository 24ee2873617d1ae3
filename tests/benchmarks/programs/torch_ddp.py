"""DistributedDataParallel: plain, with buffers, accumulating, made before or after the recorder."""

from typing import Any

import torch
from late import Plan, a_model, batches, fit, joined, maybe, plan
from torch.nn.parallel import DistributedDataParallel


def accumulating(model: Any, plan: Plan, recorder: Any) -> None:
    """Two micro-batches a step; the first is not averaged."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in recorder.steps(range(plan.steps)):
        plan.work(step)
        for number, batch in enumerate(batches(2)):
            with maybe(number == 0, model.no_sync()):
                model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    how = plan()
    joined()
    before = how.variant == "before"
    model = DistributedDataParallel(a_model()) if before else None
    recorder = how.recorder()
    if model is None:
        model = DistributedDataParallel(a_model(normed=how.variant == "buffers"))
    (accumulating if how.variant == "accumulation" else fit)(model, how, recorder)
    torch.distributed.destroy_process_group()


main()
