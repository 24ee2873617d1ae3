"""Plain PyTorch DistributedDataParallel, recorded in a few lines.

Alone:           torchrun --nproc-per-node 2 examples/ddp.py
Under Lockstep:  lockstep run --exec --nodes 2 -- python examples/ddp.py

`--slow-rank 1` makes one rank compute longer, to see it found. The data are random.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import lockstep


def main() -> None:
    """Train on this rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--slow-seconds", type=float, default=0.02)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("MASTER_PORT", "29507")
    dist.init_process_group("gloo")

    recorder = lockstep.recorder()

    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = (torch.randn(32, 64) for _ in range(arguments.steps))
    slow = dist.get_rank() == arguments.slow_rank
    for batch in recorder.steps(batches):
        with recorder.phase("forward"):
            time.sleep(0.02 + arguments.slow_seconds * slow)  # stands for a larger model
            loss = model(batch).square().mean()
        with recorder.phase("backward"):
            optimizer.zero_grad()
            loss.backward()
        with recorder.phase("optimizer"):
            optimizer.step()
        recorder.tell(loss=loss, samples=len(batch))
    if dist.get_rank() == 0:
        print(f"trained {arguments.steps} steps, loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
