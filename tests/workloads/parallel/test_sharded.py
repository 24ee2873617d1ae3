"""Buckets of gradients: overlapped with backward, and sharded over the replicas."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import OPS
from lockstep.workloads.models.configs import TINY
from lockstep.workloads.models.fit import memory_plan
from lockstep.workloads.models.gpt import Gpt, initialize
from lockstep.workloads.models.optimizer import Rate
from lockstep.workloads.parallel import mesh
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.parallel.data import ALIGNED, bucketed, places
from lockstep.workloads.parallel.gradients import Gradients
from lockstep.workloads.parallel.sharded import ShardedOptimizer
from lockstep.workloads.parallel.tensor import SERIAL
from lockstep.workloads.spec import Layout, Training
from tests.workloads.ranks import recorder_of

pytestmark = pytest.mark.distributed

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
BUCKET = 40_000


class Replica:
    """A whole model on one of two ranks, with its ring."""

    def __init__(self, rank: int, folder: Path, **settings: Any) -> None:
        self.recorder = recorder_of(rank, Layout(1, 2, 2), folder)
        self.path = self.recorder.writer.path
        groups = mesh.build(Layout(1, 2, 2))
        self.model = Gpt(TINY)
        initialize(self.model, 1)
        self.gradients = Gradients(
            [self.model], SERIAL, groups, Comm(self.recorder, groups.groups),
            bucket_bytes=BUCKET, **settings,
        )  # fmt: skip
        dice = torch.Generator().manual_seed(rank)
        self.ids = torch.randint(TINY.vocabulary, (2, TINY.sequence + 1), generator=dice)

    def backward(self, scale: float = 1.0) -> None:
        loss = self.model.mean_loss(self.model(self.ids[:, :-1]), self.ids[:, 1:])
        torch.autograd.backward(scale * loss)

    def ops(self) -> list[tuple[str, int, int, int]]:
        """(op, flags, arrival, completion) in the order of the ring."""
        raw = self.path.read_bytes()
        written = ring.LIVE.unpack_from(raw, ring.LIVE_OFFSET)[0]
        records = ring.OP_RECORD.iter_unpack(
            raw[ring.OPS_OFFSET :][: written * ring.OP_RECORD.size]
        )
        return [(OPS[one[0]], one[2], one[8], one[9]) for one in records]


@pytest.mark.parametrize(
    ("sharded", "op"), [(False, "dp-all-reduce"), (True, "grads-reduce-scatter")]
)
def test_buckets_leave_while_the_last_micro_batch_still_runs_backward(
    forked: Forked, tmp_path: Path, sharded: bool, op: str
) -> None:
    def work(rank: int) -> Any:
        from time import monotonic_ns

        me = Replica(rank, tmp_path, backwards=2, sharded=sharded)
        me.gradients.zero()
        me.backward()
        last_begins = monotonic_ns()
        me.backward()
        backward_ends = monotonic_ns()
        me.gradients.finish()
        ops = [one for one in me.ops() if one[0] == op]
        early = [last_begins < arrival < backward_ends for _, _, arrival, _ in ops]
        return len(ops), sum(early), sorted({flags for _, flags, _, _ in ops})

    for count, early, flags in forked(2, work):
        assert count == early == len(bucketed(list(Gpt(TINY).parameters()), BUCKET)) > 4
        assert all(one & ring.FLAG_OVERLAPPED for one in flags)
        if sharded:
            assert [ring.FLAG_OVERLAPPED | ring.FLAG_COMPLETION_IS_UPPER_BOUND] == flags


def test_an_all_reduce_that_ended_long_ago_is_not_recorded_as_ending_in_its_wait(
    forked: Forked, tmp_path: Path
) -> None:
    def work(rank: int) -> Any:
        from time import monotonic_ns, sleep

        me = Replica(rank, tmp_path)
        me.gradients.zero()
        me.backward()
        deadline = monotonic_ns() + 10**10
        under_way = me.gradients._buckets._pending
        while not all(one.ended for one in under_way) and monotonic_ns() < deadline:
            sleep(0.01)
        waits = monotonic_ns()
        me.gradients.finish()
        return [(flags, waits - done) for op, flags, _, done in me.ops() if op == "dp-all-reduce"]

    for told in forked(2, work):
        assert all(flags == ring.FLAG_OVERLAPPED and before > 0 for flags, before in told)


def test_a_device_is_asked_before_each_bucket_leaves(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        shares: list[float] = []
        me = Replica(rank, tmp_path, computed=shares.append)
        me.gradients.zero()
        me.backward()
        me.gradients.finish()
        return shares

    for shares in forked(2, work):
        assert sorted(shares) == shares
        assert 1.0 == shares[-1] > shares[0] > 0.0


def test_the_sharded_optimizer_keeps_half_of_the_moments_on_each_of_two_ranks(
    forked: Forked, tmp_path: Path
) -> None:
    def work(rank: int) -> Any:
        me = Replica(rank, tmp_path, sharded=True)
        optimizer = ShardedOptimizer(me.gradients.shards, Rate(1e-2, 1, 10))
        me.gradients.zero()
        me.backward()
        me.gradients.finish()
        norm = me.gradients.clip(0.1)
        optimizer.step(0, norm)
        kept = sum(state["exp_avg"].numel() for state in optimizer.adam.state.values())
        values = torch.cat([p.detach().flatten() for p in me.model.parameters()])
        return norm.item(), kept, values.double().sum().item(), optimizer.updates

    (norm, kept, values, updates), other = forked(2, work)
    padding = sum(places(group)[1] - sum(p.numel() for p in group)
                  for group in bucketed(list(Gpt(TINY).parameters()), BUCKET))  # fmt: skip

    assert [norm, kept, values, updates] == other
    assert TINY.parameters <= 2 * kept <= TINY.parameters + padding
    assert 1 == updates


@pytest.mark.parametrize("sharded", [False, True])
def test_one_replica_with_a_gradient_that_is_not_finite_makes_all_of_them_skip(
    forked: Forked, tmp_path: Path, sharded: bool
) -> None:
    def work(rank: int) -> Any:
        from lockstep.workloads.models.optimizer import Optimizer

        me = Replica(rank, tmp_path, sharded=sharded)
        rate = Rate(1e-2, 1, 10)
        optimizer = (
            ShardedOptimizer(me.gradients.shards, rate)
            if sharded
            else Optimizer(me.gradients.parameters, rate)
        )
        sums = []
        for step in range(3):
            me.gradients.zero()
            me.backward(math.inf if (rank, step) == (1, 1) else 1.0)
            me.gradients.finish()
            optimizer.step(step, me.gradients.clip(1.0))
            sums.append(sum(p.detach().double().sum().item() for p in me.model.parameters()))
        return [*sums, int(optimizer.skipped), optimizer.updates]

    first, other = forked(2, work)

    assert first == other
    assert first[0] == first[1] != first[2]
    assert [1, 2] == first[3:]


def test_a_parameter_in_a_flat_tensor_begins_on_a_cache_line() -> None:
    begins, size = places(list(Gpt(TINY).parameters()))

    assert all(begin % ALIGNED == 0 for begin in (*begins, size))


def test_the_memory_plan_counts_what_the_sharded_optimizer_saves() -> None:
    layout = Layout(8, 8, 64)
    plain, sharded = (
        memory_plan(TINY, layout, Training(sharded_optimizer=one)) for one in (False, True)
    )

    assert -(-plain.moments // 64) <= sharded.moments <= plain.moments // 64 + 8
    assert plain.gradients < sharded.gradients <= plain.gradients * 65 // 64 + 8
    assert plain.weights == sharded.weights
