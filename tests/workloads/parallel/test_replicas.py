"""Gradients of replicas are those of one rank with the whole batch; one rank alone says nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import GROUPS
from lockstep.workloads.parallel import mesh
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.parallel.data import Replicas
from lockstep.workloads.spec import Layout
from tests.workloads.ranks import recorder_of

pytestmark = pytest.mark.distributed

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
BATCH = 12
BUCKET_BYTES = 700
"""Makes buckets of 165, 32, 256 and 20 parameters, last layer first."""


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.unused = nn.Linear(4, 4)
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 5))

    def loss(self, numbers: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.layers(numbers).square().mean())


def communicating(rank: int, world: int, folder: Path) -> Comm:
    recorder = recorder_of(rank, Layout(1, world, world), folder)
    return Comm(recorder, mesh.build(Layout(1, world, world)).groups)


def collectives(folder: Path, rank: int) -> int:
    """Operations on any group that the rank's ring has counted."""
    raw = (folder / ring.file_name(rank)).read_bytes()[ring.GROUP_COUNTERS_OFFSET :]
    entries = ring.GROUP_COUNTERS.iter_unpack(raw[: len(GROUPS) * ring.GROUP_COUNTERS.size])
    return sum(int(entry[1]) for entry in entries)


def numbers() -> torch.Tensor:
    return torch.randn(BATCH, 8, generator=torch.Generator().manual_seed(7))


def stepped(
    rank: int, world: int, folder: Path, *, backwards: int = 1
) -> tuple[list[list[float]], float, int, list[float]]:
    """(gradients, norm, collectives, shares told) after two steps on this rank's samples."""
    comm = communicating(rank, world, folder)
    model, told = Small(), list[float]()
    replicas = Replicas(
        list(model.parameters()), comm, told.append, backwards=backwards, bucket_bytes=BUCKET_BYTES
    )
    before = collectives(folder, rank)
    for _ in range(2):  # the second step must not see the first one's gradients
        replicas.zero()
        told.clear()
        for part in numbers().chunk(world)[rank].chunk(backwards):
            torch.autograd.backward(model.loss(part) / backwards)
        replicas.finish()
    found = [p.grad.flatten().tolist() for p in model.layers.parameters() if p.grad is not None]
    return found, replicas.norm().item(), collectives(folder, rank) - before, told


def serial() -> tuple[list[list[float]], float]:
    model = Small()
    torch.autograd.backward(model.loss(numbers()))
    gradients = [p.grad for p in model.layers.parameters() if p.grad is not None]
    norm = torch.cat([gradient.flatten() for gradient in gradients]).double().norm().item()
    return [gradient.flatten().tolist() for gradient in gradients], norm


@pytest.mark.parametrize(("world", "backwards"), [(1, 1), (2, 1), (2, 3), (3, 1)])
def test_replicas_have_the_gradients_and_the_norm_of_the_whole_batch(
    forked: Forked, tmp_path: Path, world: int, backwards: int
) -> None:
    wanted, wanted_norm = serial()

    answers = forked(world, lambda rank: stepped(rank, world, tmp_path, backwards=backwards))

    for gradients, norm, _, _ in answers:
        for expected, actual in zip(wanted, gradients, strict=True):
            assert expected == pytest.approx(actual, rel=1e-4, abs=1e-7)
        assert wanted_norm == pytest.approx(norm, rel=1e-5)


def test_one_rank_alone_communicates_nothing(forked: Forked, tmp_path: Path) -> None:
    [(_, _, operations, told)] = forked(1, lambda rank: stepped(rank, 1, tmp_path))

    assert 0 == operations
    assert [] == told


def test_each_bucket_is_one_collective_a_step(forked: Forked, tmp_path: Path) -> None:
    answers = forked(2, lambda rank: stepped(rank, 2, tmp_path))

    assert [2 * 4, 2 * 4] == [operations for _, _, operations, _ in answers]


def test_the_emulated_device_is_told_how_far_backward_has_come(
    forked: Forked, tmp_path: Path
) -> None:
    answers = forked(2, lambda rank: stepped(rank, 2, tmp_path))

    wanted = [165 / 473, 197 / 473, 453 / 473]  # no backward pass reaches the unused layer
    assert [wanted, wanted] == [pytest.approx(told) for _, _, _, told in answers]
