"""Waiting in torch.distributed, timed from outside the program, on real ranks over gloo."""

import os
import threading
from pathlib import Path
from statistics import median
from time import monotonic, sleep

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_gather_tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import lockstep
from lockstep.collector.clock import SystemClock
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.rings import scan

pytestmark = pytest.mark.distributed

STEPS = 6
LATE = 0.25
"""Seconds that rank 1 is late in each step, at least."""
LATER = 8
"""It is as many times as late as a step takes by itself here and now: a busy machine is slower."""


def joined(folder: Path, rank: int, world: int) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world
    )


def a_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 8))


def trained(folder: Path, rank: int, world: int, kind: str, *, watched: bool) -> list[float]:
    """All weights after a few steps in which rank 1 is late."""
    joined(folder, rank, world)
    variables = {"LOCKSTEP_DIR": str(folder / "rings"), "LOCKSTEP_RUN": "mine"}
    recorder = lockstep.recorder(rank=rank, world=world, environment=variables if watched else {})
    recorder.watch_torch()
    model = a_model()
    if kind == "fsdp2":
        fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    else:
        # Small buckets, so that there are several.
        model = DistributedDataParallel(model, bucket_cap_mb=0.001)
    if kind == "own hook":
        model.register_comm_hook(None, _own_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    late = max(LATE, LATER * alone()) if watched and rank == 1 else 0.0
    for _ in range(STEPS):
        with recorder.step():
            sleep(late)
            loss = model(torch.randn(16, 48, generator=generator)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.barrier()
    weights = [each.full_tensor() if kind == "fsdp2" else each for each in model.parameters()]
    dist.barrier()  # and no more: ending a group over a file now and then waits for ever, in torch
    return torch.cat([each.detach().flatten() for each in weights]).tolist()


def alone() -> float:
    """Seconds of the longest of a few steps that wait for nobody."""
    model, longest = a_model(), 0.0
    inputs = torch.randn(16, 48, generator=torch.Generator().manual_seed(0))
    for _ in range(STEPS):
        began = monotonic()
        model(inputs).square().mean().backward()
        longest = max(longest, monotonic() - began)
    return longest


def _own_hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    gradients = bucket.buffer().div_(dist.get_world_size())
    work = dist.all_reduce(gradients, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def own_and_waited(folder: Path) -> list[tuple[float, float]]:
    """Median seconds of a step, by rank: its own, and waited; the first step left out."""
    ranks, _ = scan(folder / "rings", Path("/proc"), SystemClock())
    told = []
    for rank in sorted(ranks, key=lambda rank: rank.key):
        steps = read_records(rank.path, 0, None, SystemClock()).steps[1:]
        own = median(step.own_ns for step in steps) / 1e9
        told.append((own, median(step.wall_ns - step.own_ns for step in steps) / 1e9))
    return told


@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_the_late_rank_has_the_own_time_and_the_others_wait(forked, tmp_path, kind):
    forked(2, lambda rank: trained(tmp_path, rank, 2, kind, watched=True))
    (own, waited), (late_own, late_waited) = own_and_waited(tmp_path)

    assert late_own > max(LATE, 2 * own)
    assert waited > max(late_own / 2, 2 * late_waited)


def test_averaging_by_our_hook_is_the_reducer_s_to_the_last_bit(forked, tmp_path):
    # Three ranks: dividing by three and multiplying by a third differ.
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ours = forked(3, lambda rank: trained(tmp_path / "a", rank, 3, "ddp", watched=True))
    torchs = forked(3, lambda rank: trained(tmp_path / "b", rank, 3, "ddp", watched=False))

    assert torchs == ours
    assert ours[0] == ours[1]


def test_a_program_s_own_communication_hook_is_called_and_timed(forked, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ours = forked(2, lambda rank: trained(tmp_path / "a", rank, 2, "own hook", watched=True))
    alone = forked(2, lambda rank: trained(tmp_path / "b", rank, 2, "own hook", watched=False))
    (own, waited), (late_own, late_waited) = own_and_waited(tmp_path / "a")

    assert alone == ours
    assert late_own > max(LATE, 2 * own)
    assert waited > max(late_own / 2, 2 * late_waited)


def test_every_bucket_is_an_operation_with_its_size(forked, tmp_path):
    forked(2, lambda rank: trained(tmp_path, rank, 2, "ddp", watched=True))
    (first, _), _ = scan(tmp_path / "rings", Path("/proc"), SystemClock())
    ops = read_records(first.path, 0, None, SystemClock()).ops
    last = [op for op in ops if op.op == "dp-all-reduce" and op.step == STEPS - 1]

    assert len(last) > 1
    assert 4 * sum(each.numel() for each in a_model().parameters()) == sum(op.bytes for op in last)
    assert all(op.complete_ns >= op.enqueue_ns for op in last)


def test_threads_of_the_program_run_while_a_functional_collective_waits(forked, tmp_path):
    """Rank 1 comes when a thread of rank 0, which waits for it, has said so."""
    word = tmp_path / "word"

    def work(rank: int) -> bool:
        joined(tmp_path, rank, 2)
        variables = {"LOCKSTEP_DIR": str(tmp_path / "rings"), "LOCKSTEP_RUN": "mine"}
        recorder = lockstep.recorder(rank=rank, world=2, environment=variables)
        recorder.watch_torch()
        assert (
            4 == all_gather_tensor(torch.ones(2), 0, dist.group.WORLD).sum()
        )  # they are connected
        recorder.step_ended()
        if rank == 0:
            threading.Timer(0.5, word.touch).start()  # by then it waits
        until = monotonic() + 60.0
        while rank == 1 and not word.exists() and monotonic() < until:
            sleep(0.01)
        said = word.exists()
        gathered = all_gather_tensor(torch.ones(2), 0, dist.group.WORLD)
        return bool(gathered.sum() == 4) and (said or rank == 0)

    assert [True, True] == forked(2, work)
