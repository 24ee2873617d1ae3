"""PyTorch FSDP2 (`fully_shard`): nothing but the steps is marked; FSDP2's waiting is timed.

Alone:           torchrun --nproc-per-node 2 examples/fsdp2.py
Under Lockstep:  lockstep run --exec --nodes 2 -- python examples/fsdp2.py

The data are random.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

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
    os.environ.setdefault("MASTER_PORT", "29508")
    dist.init_process_group("gloo")

    recorder = lockstep.recorder()

    layers = [nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(3)]
    model = nn.Sequential(*layers)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    slow = dist.get_rank() == arguments.slow_rank
    for _ in range(arguments.steps):
        with recorder.step():
            time.sleep(0.02 + arguments.slow_seconds * slow)  # stands for a larger model
            loss = model(torch.randn(32, 64)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.tell(loss=loss, samples=32)
    if dist.get_rank() == 0:
        print(f"trained {arguments.steps} steps, loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
