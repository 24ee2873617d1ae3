"""Collectives between real processes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from lockstep.workloads.parallel.comm import Comm, PeerLostError
from lockstep.workloads.parallel.data import OverlappedBuckets, ReplicatedBucket, bucketed
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.spec import Layout
from tests.workloads.ranks import recorder_of

Forked = Callable[[int, Callable[[int], Any]], list[Any]]


def joined(rank: int, world: int, folder: Path) -> tuple[Comm, StepRecorder]:
    recorder = recorder_of(rank, Layout(1, world, world), folder)
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
        groups = bucketed(parameters, bucket_bytes)
        flat = [ReplicatedBucket(group, comm, str(index)) for index, group in enumerate(groups)]
        buckets = OverlappedBuckets([flat], backwards=1)
        buckets.zero()
        weighted = [(10 * rank + index) * p.sum() for index, p in enumerate(parameters)]
        torch.autograd.backward(torch.stack(weighted).sum())
        buckets.finish()
        return [sorted(set(p.grad.flatten().tolist())) for p in parameters if p.grad is not None]

    wanted = [[5.0 + index] for index in range(4)]

    assert [wanted, wanted] == forked(2, work)


@pytest.mark.distributed
def test_the_waiting_rank_waits_and_the_late_rank_does_not(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        import time

        comm, recorder = joined(rank, 2, tmp_path)
        recorder.start_step()
        meet = comm.collective("world-all-reduce", "world", "x")
        meet.all_reduce(torch.ones(1))
        recorder.start_step()
        if rank == 1:
            time.sleep(1.0)
        meet.all_reduce(torch.ones(1))
        recorder.end_step(samples=1, tokens=1, flops=1.0, loss=1.0)
        return recorder.own_seconds

    early_own, late_own = forked(2, work)

    assert early_own < 0.5 < 0.99 < late_own


@pytest.mark.distributed
def test_every_collective_does_what_its_name_says(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        comm, _ = joined(rank, 2, tmp_path)
        place = comm.collective("world-all-reduce", "world", "x")
        mine = torch.tensor([rank + 1.0, rank + 3.0])
        largest, gathered, part = mine.clone(), torch.empty(4), torch.empty(1)
        place.all_reduce(largest, dist.ReduceOp.MAX)
        place.all_gather(gathered, mine)
        place.reduce_scatter(part, mine)
        sent = mine.clone()
        place.broadcast(sent, 1)
        return [one.tolist() for one in (largest, gathered, part, sent)]

    whole = [1.0, 3.0, 2.0, 4.0]

    assert [
        [[2.0, 4.0], whole, [3.0], [2.0, 4.0]],
        [[2.0, 4.0], whole, [7.0], [2.0, 4.0]],
    ] == forked(2, work)


@pytest.mark.distributed
def test_what_goes_on_beside_computation_is_not_waiting(forked: Forked, tmp_path: Path) -> None:
    """Rank 1 begins 0.3 s late; rank 0 computes meanwhile and hardly waits."""

    def work(rank: int) -> Any:
        import time

        comm, recorder = joined(rank, 2, tmp_path)
        place = comm.collective("dp-all-reduce", "dp", "x")
        place.all_reduce(torch.ones(1))
        recorder.start_step()
        if rank == 1:
            time.sleep(0.3)
        values = torch.ones(1)
        begin = partial(dist.all_reduce, values, group=place.group, async_op=True)
        pending = place.start(begin, values)
        while rank == 0 and not pending.work.is_completed():
            time.sleep(0.01)
        pending.wait()
        recorder.end_step(samples=1, tokens=1, flops=1.0, loss=1.0)
        return recorder.wall_seconds - recorder.own_seconds, values.item()

    (waited, value), (_, other) = forked(2, work)

    assert waited < 0.15
    assert value == other == 2.0


@pytest.mark.distributed
def test_a_peer_that_is_gone_is_named_with_the_collective(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        comm, _ = joined(rank, 2, tmp_path)
        place = comm.collective("dp-all-reduce", "dp", "grads.3")
        if rank == 1:
            return ""
        try:
            for _ in range(50):
                place.all_reduce(torch.ones(1))
        except PeerLostError as error:
            return str(error)
        return "nothing was noticed"

    assert forked(2, work)[0].startswith("dp-all-reduce 'grads.3' on group dp: ")
