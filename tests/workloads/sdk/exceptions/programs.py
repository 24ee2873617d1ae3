"""Programs that use all of the recorder, in four kinds of parallel training over gloo."""

import os
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import lockstep
from lockstep.workloads.measure.starting import FOLDER_VARIABLE
from lockstep.workloads.sdk import automatic
from lockstep.workloads.sdk.guard import Guard
from lockstep.workloads.sdk.recorder import Recorder
from tests.workloads.sdk.exceptions.injection import Look, Point
from tests.workloads.sdk.waits.programs import WIDTH, a_model
from tests.workloads.sdk.waits.ranks import prepared

STEPS = 5
WORLD = 2
Step = Callable[[torch.Tensor], float]


def ddp() -> tuple[nn.Module, Step]:
    model = DistributedDataParallel(a_model(normed=True), bucket_cap_mb=0.001)
    return model, fitted(model)


def fsdp2() -> tuple[nn.Module, Step]:
    model = a_model()
    mesh = init_device_mesh("cpu", (WORLD,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return model, fitted(fully_shard(model, mesh=mesh))


def tensor_parallel() -> tuple[nn.Module, Step]:
    mesh = init_device_mesh("cpu", (WORLD,))
    plan = {"0": ColwiseParallel(), "3": RowwiseParallel()}
    model = parallelize_module(a_model(), mesh, plan)
    return model, fitted(model)


def pipeline() -> tuple[nn.Module, Step]:
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    stage = PipelineStage(model, rank, WORLD, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=nn.MSELoss())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(batch: torch.Tensor) -> float:
        optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        if rank == 0:
            schedule.step(batch)
        else:
            schedule.step(target=batch, losses=losses)
        optimizer.step()
        return sum((each.item() for each in losses), 0.0)

    return model, step


def fitted(model: nn.Module) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(batch: torch.Tensor) -> float:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


UNCHANGED = "DDP, unchanged"
"""Under `lockstep run --exec`: it calls nothing of ours."""
KINDS: dict[str, Callable[[], tuple[nn.Module, Step]]] = {
    UNCHANGED: ddp,
    "DDP": ddp, "FSDP2": fsdp2, "tensor parallel": tensor_parallel, "pipeline": pipeline,
}  # fmt: skip


def losses(kind: str) -> Iterator[float]:
    """Of each step; the recorder is used in every way that it has."""
    recorder = Recorder() if kind == UNCHANGED else lockstep.recorder(first_step=3)
    recorder.watch_torch()
    # Of a pipeline every rank has the same batches.
    generator = torch.Generator().manual_seed(0 if kind == "pipeline" else dist.get_rank())
    loader = DataLoader(TensorDataset(torch.randn(STEPS * 8, WIDTH, generator=generator)), 8)
    model, step = KINDS[kind]()
    yield from looped(recorder, loader, step)
    for (batch,) in loader:
        with recorder.step():
            yield step(batch)
        break
    yield step(next(iter(loader))[0])
    recorder.step_ended(loss=0.5, samples=8, tokens=1 << 40)
    yield from (float(each.detach().double().sum()) for each in whole(model))


def looped(recorder: Recorder, loader: DataLoader[Any], step: Step) -> Iterator[float]:
    batches = recorder.steps(loader)
    assert len(batches) == len(loader)  # type: ignore[arg-type]
    for (batch,) in batches:
        with recorder.phase("forward"):
            loss = step(batch)
        with recorder.collective("world", kind="barrier", bytes=4):
            dist.barrier()
        dist.all_reduce(torch.ones(4), async_op=True).wait()
        recorder.tell(loss=loss, samples=8, tokens=64, flops=1e9)
        recorder.log(loss_seen=loss)
        yield loss


def whole(model: nn.Module) -> list[torch.Tensor]:
    return [
        each.full_tensor() if hasattr(each, "full_tensor") else each for each in model.parameters()
    ]


def run(
    folder: Path, rank: int, port: int, kind: str, *, watched: bool, look: Look | None = None
) -> dict[str, Any]:
    """In a forked child: losses and weights to the last bit, what was said, what of ours ran."""
    prepared(folder, rank, WORLD, port)
    if not watched:
        del os.environ["LOCKSTEP_DIR"]
    said = folder / f"stderr-{rank}"
    with said.open("w") as file, redirect_stderr(file):
        if look is not None:
            look.begin()
        if watched and kind == UNCHANGED:
            os.environ[FOLDER_VARIABLE] = str(folder / "starting")
            Guard()(automatic.start)  # as exec/hook/sitecustomize.py does
        dist.init_process_group("gloo")
        told = [value.hex() for value in losses(kind)]
        dist.barrier()
        if look is not None:
            look.end()
    return {
        "told": told,
        "said": said.read_text().splitlines(),
        "raised": look is not None and look.raised,
        "calls": [] if look is None else [[*what, n] for what, n in look.calls.items()],
        "entered": [] if look is None else sorted(look.entered),
    }


def points(answer: dict[str, Any]) -> list[Point]:
    """The functions that ran, with the number of their calls."""
    return [Point(file, name, calls) for file, name, calls in sorted(answer["calls"])]
