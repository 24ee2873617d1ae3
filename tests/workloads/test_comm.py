"""Collectives between real processes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from collector.contract import ring
from workloads.comm import Comm, GradientBuckets
from workloads.recording import StepRecorder
from workloads.ring import Identity, RingWriter

Forked = Callable[[int, Callable[[int], Any]], list[Any]]


def joined(rank: int, world: int, folder: Path) -> tuple[Comm, StepRecorder]:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world
    )
    who = Identity(
        "run", "node-0", "", rank, world, rank, 0, rank, 0, 0, -1, start_wall_ns=0,
        wall_minus_monotonic_ns=0,
    )  # fmt: skip
    recorder = StepRecorder(RingWriter(folder / ring.file_name(rank), who))
    group = dist.group.WORLD
    assert group is not None
    return Comm(recorder, {"world": group, "dp": group}), recorder


@pytest.mark.distributed
@pytest.mark.parametrize("bucket_bytes", [1, 300, 10**9])
def test_buckets_average_every_gradient_whatever_their_size(
    forked: Forked, tmp_path: Path, bucket_bytes: int
) -> None:
    def work(rank: int) -> Any:
        comm, _ = joined(rank, 2, tmp_path)
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
        parameters = list(model.parameters())
        for index, parameter in enumerate(parameters):
            parameter.grad = torch.full_like(parameter, float(rank * 10 + index))
        GradientBuckets(parameters, bucket_bytes).all_reduce(comm)
        return [sorted(set(p.grad.flatten().tolist())) for p in parameters if p.grad is not None]

    wanted = [[5.0 + index] for index in range(4)]

    assert [wanted, wanted] == forked(2, work)


@pytest.mark.distributed
def test_the_waiting_rank_waits_and_the_late_rank_does_not(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        import time

        comm, recorder = joined(rank, 2, tmp_path)
        recorder.start_step()
        comm.all_reduce_max(1.0, op="world-all-reduce", group="world", tag="warm")
        recorder.start_step()
        if rank == 1:
            time.sleep(0.3)
        comm.all_reduce_max(1.0, op="world-all-reduce", group="world", tag="x")
        recorder.end_step(samples=1, tokens=1, flops=1.0, loss=1.0)
        return recorder.wall_seconds, recorder.own_seconds

    (early_wall, early_own), (late_wall, late_own) = forked(2, work)

    assert early_own < 0.15 < 0.29 < late_own
    assert early_wall == pytest.approx(late_wall, abs=0.1)


@pytest.mark.distributed
def test_the_largest_value_reaches_every_rank(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        comm, _ = joined(rank, 3, tmp_path)
        return comm.all_reduce_max(rank * 1.5, op="world-all-reduce", group="world", tag="x")

    assert [3.0, 3.0, 3.0] == forked(3, work)
