"""Runs a program on ranks that are forked from here, as `lockstep run --exec` does on its own."""

import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import median, quantiles

import torch
import torch.distributed as dist

from lockstep.collector.clock import SystemClock
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.rings import scan
from lockstep.workloads.sdk import automatic

WARM = 2
"""Steps at the beginning that make groups and buckets."""


def environment(folder: Path, rank: int, world: int, port: int) -> dict[str, str]:
    """What a launcher would set."""
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0",
        "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo",
        "TORCHELASTIC_RUN_ID": "mine", "HF_HOME": str(folder / "hugging"),
        "HF_HUB_OFFLINE": "1", "ACCELERATE_USE_CPU": "1",
        "LOCKSTEP_DIR": str(folder / "rings"), "LOCKSTEP_RUN": "mine",
    }  # fmt: skip


def prepared(folder: Path, rank: int, world: int, port: int) -> None:
    """In a forked child: it is a rank, quiet, of one thread."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    os.environ.update(environment(folder, rank, world, port))
    torch.set_num_threads(1)


def unchanged(folder: Path, rank: int, world: int, port: int, program: Callable[[], object]) -> int:
    """The program, whose steps Lockstep sees from outside; it makes its own process group."""
    prepared(folder, rank, world, port)
    automatic.start()
    program()
    return 0


def grouped(program: Callable[[], object]) -> None:
    """The program within a process group over gloo."""
    dist.init_process_group("gloo")
    program()
    dist.destroy_process_group()


@dataclass(frozen=True, slots=True)
class Told:
    """What the ring of a rank holds, without its first steps.

    Attributes:
        known: Share of its steps whose own time is known.
        own: Median of these, seconds; NaN without one.
        spread: How far apart most of these are, seconds: the ninth tenth from the first.
    """

    steps: int
    known: float
    own: float
    spread: float


def spread(values: list[float]) -> float:
    """From the first to the ninth tenth; NaN of fewer than two."""
    if len(values) < 2:
        return nan
    tenths = quantiles(values, n=10, method="inclusive")
    return tenths[-1] - tenths[0]


def told(folder: Path) -> list[Told]:
    """By rank."""
    clock = SystemClock()
    ranks, _ = scan(folder / "rings", Path("/proc"), clock)
    found = []
    for rank in sorted(ranks, key=lambda rank: rank.key[1]):
        steps = read_records(rank.path, 0, None, clock).steps[WARM:]
        own = [step.own_ns / 1e9 for step in steps if step.own_ns is not None]
        share = len(own) / len(steps) if steps else 0.0
        middle = median(own) if own else nan
        found.append(Told(len(steps), share, middle, spread(own)))
    return found
