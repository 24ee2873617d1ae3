"""Small programs of torch that know nothing of Lockstep; `late()` makes one rank late in a step.

Each is called on every rank of a process group over gloo, and each step of its optimizer is a step.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Optimizer

Late = Callable[[], None]
STEPS = 10
WIDTH = 32


def a_model(*, normed: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(WIDTH) if normed else nn.Identity()
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), norm, nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def inputs(steps: int = STEPS) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(dist.get_rank() if dist.is_initialized() else 0)
    for _ in range(steps):
        yield torch.randn(8, WIDTH, generator=generator)


def fit(model: nn.Module, late: Late, optimizer: Optimizer | None = None) -> nn.Module:
    optimizer = optimizer or SGD(model.parameters(), lr=0.05, momentum=0.9)
    for batch in inputs():
        late()
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def ddp(late: Late) -> nn.Module:
    return fit(DistributedDataParallel(a_model(), bucket_cap_mb=0.001), late)


def ddp_buffers(late: Late) -> nn.Module:
    return fit(DistributedDataParallel(a_model(normed=True)), late)


class Masked(nn.Module):
    """As minGPT: a causal mask is a buffer, which is broadcast in each forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.body = a_model()
        self.register_buffer("bias", torch.tril(torch.ones(WIDTH, WIDTH)))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.body(batch @ self.bias)


def ddp_mask(late: Late) -> nn.Module:
    return fit(DistributedDataParallel(Masked()), late)


def ddp_accumulating(late: Late) -> nn.Module:
    model = DistributedDataParallel(a_model())
    optimizer = SGD(model.parameters(), lr=0.05)
    for number, batch in enumerate(inputs(2 * STEPS)):
        ends = number % 2 == 1
        with nullcontext() if ends else model.no_sync():
            if ends:
                late()
            model(batch).square().mean().backward()
        if ends:
            optimizer.step()
            optimizer.zero_grad()
    return model


def ddp_static(late: Late) -> nn.Module:
    return fit(DistributedDataParallel(a_model(), static_graph=True), late)


class Branching(nn.Module):
    """Its second branch is used in no step."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = a_model(), a_model()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.used(batch)


def ddp_unused(late: Late) -> nn.Module:
    return fit(DistributedDataParallel(Branching(), find_unused_parameters=True), late)


def ddp_views(late: Late) -> nn.Module:
    """Gradients stay in their buckets from step to step."""
    model = DistributedDataParallel(a_model(), gradient_as_bucket_view=True)
    optimizer = SGD(model.parameters(), lr=0.05)
    for batch in inputs():
        late()
        optimizer.zero_grad(set_to_none=False)
        model(batch).square().mean().backward()
        optimizer.step()
    return model


class Looking(nn.Module):
    """Looks words up; few of them have a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WIDTH, WIDTH, sparse=True)
        self.body = a_model()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.body(self.words(batch.argmax(dim=1)))


def ddp_sparse(late: Late) -> nn.Module:
    torch.manual_seed(0)
    model = DistributedDataParallel(Looking())
    return fit(model, late, SGD(model.parameters(), lr=0.05))


def ddp_join(late: Late, *, whole: bool = True) -> nn.Module:
    """Rank 0 has fewer steps than the others and shadows them."""
    model = DistributedDataParallel(a_model())
    optimizer = SGD(model.parameters(), lr=0.05)
    steps = STEPS - 3 if dist.get_rank() == 0 else STEPS
    with Join([model], divide_by_initial_world_size=whole):
        for batch in inputs(steps):
            late()
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return model


def ddp_join_divided(late: Late) -> nn.Module:
    return ddp_join(late, whole=False)


def ddp_own_hook(late: Late) -> nn.Module:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    model = DistributedDataParallel(a_model())
    model.register_comm_hook(None, fp16_compress_hook)
    return fit(model, late)


def ddp_builtin_hook(late: Late) -> nn.Module:
    model = DistributedDataParallel(a_model())
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    return fit(model, late)


def zero(late: Late) -> nn.Module:
    from torch.distributed.optim import ZeroRedundancyOptimizer  # which warns when it is imported

    model = DistributedDataParallel(a_model())
    return fit(model, late, ZeroRedundancyOptimizer(model.parameters(), SGD, lr=0.05))


def fsdp1(late: Late) -> nn.Module:
    return fit(FullyShardedDataParallel(a_model(), device_id=torch.device("cpu")), late)


def fsdp2(late: Late) -> nn.Module:
    model = a_model()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fit(fully_shard(model, mesh=mesh), late)


def tensor_parallel(late: Late) -> nn.Module:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    plan = {"0": ColwiseParallel(), "3": RowwiseParallel()}
    return fit(parallelize_module(a_model(), mesh, plan), late)


def dtensor(late: Late) -> nn.Module:
    """Parameters are sharded; each step gathers them by a functional collective."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    weight = nn.Parameter(distribute_tensor(torch.ones(WIDTH, WIDTH), mesh, [Shard(0)]))
    optimizer = SGD([weight], lr=0.05)
    for batch in inputs():
        late()
        whole = weight.redistribute(mesh, [Replicate()]).to_local()
        (batch @ whole).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return nn.Identity()


def pipeline(late: Late) -> nn.Module:
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    stage = PipelineStage(model, rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=nn.MSELoss())
    optimizer = SGD(model.parameters(), lr=0.05)
    for batch in inputs():
        late()
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(batch)
        elif rank == world - 1:
            schedule.step(target=batch)
        else:
            schedule.step()
        optimizer.step()
    return model


def averaging(late: Late, *, overlapped: bool) -> nn.Module:
    model = a_model()
    optimizer = SGD(model.parameters(), lr=0.05)
    for batch in inputs():
        late()
        model(batch).square().mean().backward()
        works = [dist.all_reduce(each.grad, async_op=overlapped) for each in model.parameters()]
        for work in works:
            if work is not None:
                work.wait()
        optimizer.step()
        optimizer.zero_grad()
    return model


def by_hand(late: Late) -> nn.Module:
    return averaging(late, overlapped=False)


def by_hand_async(late: Late) -> nn.Module:
    return averaging(late, overlapped=True)


def send_and_receive(late: Late) -> nn.Module:
    """A ring: each sends its gradients on and adds what it receives."""
    model = a_model()
    optimizer = SGD(model.parameters(), lr=0.05)
    rank, world = dist.get_rank(), dist.get_world_size()
    for batch in inputs():
        late()
        model(batch).square().mean().backward()
        for each in model.parameters():
            mine, theirs = each.grad.clone(), torch.empty_like(each.grad)
            for _ in range(world - 1):
                sending = dist.isend(mine, (rank + 1) % world)
                dist.recv(theirs, (rank - 1) % world)
                sending.wait()
                each.grad += theirs
                mine.copy_(theirs)
        optimizer.step()
        optimizer.zero_grad()
    return model


def objects(late: Late) -> nn.Module:
    """Gathers what is not a tensor in each step."""
    model = a_model()
    optimizer = SGD(model.parameters(), lr=0.05)
    for batch in inputs():
        late()
        loss = model(batch).square().mean()
        loss.backward()
        told = [None] * dist.get_world_size()
        dist.all_gather_object(told, {"loss": loss.item()})
        optimizer.step()
        optimizer.zero_grad()
    return model


def polling(late: Late) -> nn.Module:
    """Asks again and again: nobody can tell this waiting from work."""
    model = a_model()
    optimizer = SGD(model.parameters(), lr=0.05)
    for batch in inputs():
        late()
        model(batch).square().mean().backward()
        for each in model.parameters():
            work = dist.all_reduce(each.grad, async_op=True)
            while not work.is_completed():
                pass
        optimizer.step()
        optimizer.zero_grad()
    return model
