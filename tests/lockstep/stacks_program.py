"""A rank of a real program on gloo that hangs at a line of its own; run by test_stacks.py.

    python stacks_program.py FAULT FOLDER

Rank 1 does what FAULT says in step BAD_STEP. Lines that the test looks for say so.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from lockstep.workloads.sdk.recorder import recorder

BAD_STEP = 5
RANK = int(os.environ["RANK"])
FAULT, FOLDER = sys.argv[1], Path(sys.argv[2])


class Samples(Dataset):
    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> torch.Tensor:
        if RANK == 1 and FAULT in ("loader", "workers") and index == BAD_STEP:
            read_record()
        return torch.ones(3)


def read_record() -> bytes:
    with (FOLDER / "record").open("rb") as file:  # line: loader
        return file.read()


def call_extension() -> None:
    ctypes.PyDLL(None).sleep(100_000)  # line: gil


def save_state() -> None:
    with (FOLDER / "state").open("wb") as file:
        torch.save(torch.zeros(1_000_000), file)  # line: checkpoint


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)  # line: stopped


def train() -> None:
    samples = DataLoader(Samples(), num_workers=2 if FAULT == "workers" else 0)
    for step, sample in enumerate(recorder().steps(samples)):
        if RANK == 1 and step == BAD_STEP:
            {"gil": call_extension, "checkpoint": save_state, "stopped": stop}.get(FAULT, int)()
        dist.all_reduce(sample)
        (FOLDER / f"step-{RANK}").write_text(str(step))
        time.sleep(0.02)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train()
