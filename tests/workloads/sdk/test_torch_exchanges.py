"""With whom ranks of a torch program exchange data, on real ranks over gloo."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_reduce
from torch.nn.parallel import DistributedDataParallel

import lockstep
from lockstep.collector.contract import ring
from lockstep.workloads.recording import WARMUP_STEPS

pytestmark = pytest.mark.distributed

STEPS = WARMUP_STEPS + 4
SIDES = 16


def trained(folder: Path, rank: int, kind: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    where = f"file://{folder}/rendezvous"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=4)
    variables = {"LOCKSTEP_DIR": str(folder / "rings"), "LOCKSTEP_RUN": "mine"}
    recorder = lockstep.recorder(rank=rank, world=4, environment=variables)
    recorder.watch_torch()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    model = DistributedDataParallel(nn.Linear(SIDES, SIDES)) if kind in DATA_PARALLEL else None
    for _ in range(STEPS):
        with recorder.step():
            if model is not None:
                model(torch.randn(4, SIDES)).square().mean().backward()
            WORK[kind](rank, pairs[rank // 2])
            dist.all_reduce(torch.ones(1))
            dist.barrier()
    dist.barrier()


def stages(rank: int, pair: dist.ProcessGroup) -> None:
    """Two replicas of two stages: 0 and 1 are the first; gradients are averaged by hand."""
    other, gradients = (rank + 2) % 4, torch.zeros(SIDES, SIDES)
    if rank < 2:
        dist.send(torch.ones(SIDES, SIDES), other)
    else:
        dist.recv(gradients, other)
    dist.all_reduce(gradients, group=pair)


def exchanged(rank: int, pair: dist.ProcessGroup) -> None:
    dist.all_gather(list(torch.zeros(4, SIDES)), torch.ones(SIDES))


def functional(rank: int, pair: dist.ProcessGroup) -> None:
    all_reduce(torch.ones(SIDES), "sum", pair).sum().item()


WORK = {
    "replicas": lambda rank, pair: None, "stages": stages, "exchanged": exchanged,
    "functional": functional,
}  # fmt: skip
DATA_PARALLEL = ("replicas", "exchanged")


Told = Callable[[str], list[ring.Exchange]]


@pytest.fixture
def told(forked: Callable[..., object], tmp_path: Path) -> Told:
    def of(kind: str) -> list[ring.Exchange]:
        forked(4, lambda rank: trained(tmp_path, rank, kind))
        rings = [tmp_path / "rings" / ring.file_name(rank) for rank in range(4)]
        return [ring.Header(each.read_bytes()[: ring.HEADER_BYTES]).exchange for each in rings]

    return of


def test_who_only_averages_gradients_and_reduces_a_loss_says_so(told: Told) -> None:
    replicas = told("replicas")

    assert all(one.plain == one.total > 0 == one.left_out for one in replicas)
    assert [4] == [group.size for group in replicas[0].groups]
    assert 1 == len({one.groups for one in replicas})


def test_stages_tell_their_peers_and_replicas_share_a_group(told: Told) -> None:
    one, another, *last = told("stages")

    assert [2, 3, 0, 1] == [peer.rank for each in (one, another, *last) for peer in each.peers]
    assert one.plain < one.total
    small, pair = sorted(one.groups, key=lambda group: group.bytes)
    assert (4, 2) == (small.size, pair.size)
    assert 50 * small.bytes < pair.bytes
    assert one.groups == another.groups
    assert pair.members not in {group.members for each in last for group in each.groups}


def again(folder: Path, rank: int) -> None:
    """The groups are destroyed and made anew in the middle of a step."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    variables = {"LOCKSTEP_DIR": str(folder / "rings"), "LOCKSTEP_RUN": "mine"}
    recorder = lockstep.recorder(rank=rank, world=2, environment=variables)
    recorder.watch_torch()

    def joined(number: int) -> None:
        where = f"file://{folder}/rendezvous-{number}"
        dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2)

    joined(0)
    for step in range(2 * STEPS):
        with recorder.step():
            if step == STEPS:
                dist.destroy_process_group()
                joined(1)
            dist.all_reduce(torch.ones(SIDES * SIDES))
    dist.barrier()


def test_groups_that_are_made_anew_begin_anew(
    forked: Callable[..., object], tmp_path: Path
) -> None:
    forked(2, lambda rank: again(tmp_path, rank))
    header = ring.Header((tmp_path / "rings" / ring.file_name(0)).read_bytes()[: ring.HEADER_BYTES])

    assert 0 == header.guard % 2
    assert 0 == header.exchange.plain < header.exchange.total < STEPS


@pytest.mark.parametrize("kind", ["exchanged", "functional"])
def test_who_gives_others_more_than_averages_does_not_only_average(told: Told, kind: str) -> None:
    (one, *_) = told(kind)

    assert one.plain < one.total
    assert (kind == "functional") == any(group.unseen for group in one.groups)
