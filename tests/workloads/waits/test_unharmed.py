"""Whatever is wrong with the timing, the program that is timed computes what it would without."""

import copy
import io
import os
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import DataLoader, TensorDataset

import lockstep
from tests.workloads.waits import programs
from tests.workloads.waits.ranks import prepared
from workloads.recording import StepRecorder
from workloads.ring import RingWriter
from workloads.sdk import torch_buckets, torch_models, torch_waits
from workloads.sdk.torch_buckets import Buckets
from workloads.sdk.torch_counts import Counts
from workloads.sdk.torch_data import TorchData
from workloads.sdk.torch_models import Models
from workloads.sdk.torch_waits import TorchWaits

pytestmark = pytest.mark.distributed

OURS = {
    torch_waits: ("_arrive", "_leave", "number", "registered"),
    torch_buckets: ("_noting",),
    torch_models: ("_unfit",),
    TorchWaits: ("_name", "_alone", "use", "settle", "in_use", "untimed"),
    TorchData: ("use", "follow"),
    Counts: (
        "restart", "missing", "total", "accounted", "account", "account_group", "account_since",
        "unaccounted",
    ),
    Buckets: ("_arrive", "_begin", "_compute_ended", "_reduced", "settle"),
    Models: ("_adopt", "_hooked", "_count_joined"),
    RingWriter: ("begin", "end", "enqueue", "await_", "complete"),
    StepRecorder: ("waited", "phase"),
}  # fmt: skip
"""Functions of ours that run within a program of torch."""


def recording(rank=0, world=1):
    return lockstep.recorder(rank=rank, world=world, environment=dict(os.environ))


def a_program(step):
    """Weights after all that is timed was done."""
    model = DistributedDataParallel(programs.a_model(normed=True))
    hooked = DistributedDataParallel(programs.a_model())
    hooked.register_comm_hook(None, allreduce_hook)
    optimizer = SGD([*model.parameters(), *hooked.parameters()], lr=0.05)
    loader = DataLoader(TensorDataset(torch.stack(list(programs.inputs(2)))))
    with Join([model], divide_by_initial_world_size=False):
        for (batch,) in loader:
            with step():
                optimizer.zero_grad()
                (model(batch[0]) + hooked(batch[0])).square().mean().backward()
                optimizer.step()
                functional.wait_tensor(functional.all_reduce(torch.ones(4), "sum", [0]))
                dist.all_reduce(torch.ones(4), async_op=True).wait()
                dist.monitored_barrier()
    return torch.cat([each.detach().flatten() for each in model.parameters()]).tolist()


@contextmanager
def broken(owner, name):
    """The function raises; gives the list of its calls."""
    calls = []

    def fails(*arguments, **named):
        calls.append(name)
        raise ArithmeticError("ours")

    right = getattr(owner, name)
    setattr(owner, name, fails)
    try:
        yield calls
    finally:
        setattr(owner, name, right)


def with_each_broken(folder, port):
    """(what broke, whether the weights are right, how often it was called), one by one."""
    prepared(folder, 0, 1, port)
    dist.init_process_group("gloo")
    alone = a_program(lambda: torch.enable_grad())
    recording().close()  # so that the places are taken
    found = []
    for owner, names in OURS.items():
        for name in names:
            with broken(owner, name) as calls:
                recorder = recording()
                found.append((name, a_program(recorder.step) == alone, len(calls)))
            TorchWaits.use(torch_waits.of_process(), None)
            recorder.close()
    return found


def test_whatever_of_ours_raises_the_program_is_unharmed(forked, tmp_path, port):
    (found,) = forked(1, lambda rank: with_each_broken(tmp_path, port))

    assert sum(map(len, OURS.values())) == len(found)
    assert [] == [name for name, right, _ in found if not right]
    assert [] == [name for name, _, calls in found if not calls]


def over(backend, folder, rank, world, port):
    """Whether steps with all-reduces are known, over this backend."""
    prepared(folder, rank, world, port)
    store = {}
    if backend == "fake":
        from torch.testing._internal.distributed.fake_pg import FakeStore

        store = {"store": FakeStore(), "rank": rank, "world_size": world}
    dist.init_process_group(backend, **store)
    recorder = recording(rank, world)
    known = []
    for _ in range(3):
        with recorder.step():
            dist.all_reduce(torch.ones(4))
        own = recorder.recorder.own_seconds
        known.append(own == own)
    return known[1:]


@pytest.mark.parametrize(
    ("backend", "known"), [("gloo", True), ("cpu:gloo", True), ("cpu:gloo,cuda:gloo", True),
                           ("fake", False)],
)  # fmt: skip
def test_a_step_is_known_where_the_backend_counts(forked, tmp_path, port, backend, known):
    answers = forked(2, lambda rank: over(backend, tmp_path, rank, 2, port))

    assert [[known, known]] * 2 == answers


def copied(folder, port, *, watched):
    """Outputs of a model, and of its copies; the hooks that it shows."""
    prepared(folder, 0, 1, port)
    dist.init_process_group("gloo")
    if watched:
        recording()
    batch = next(programs.inputs())
    model = DistributedDataParallel(programs.a_model())
    model(batch).sum().backward()
    saved = io.BytesIO()
    torch.save(model, saved)
    saved.seek(0)
    models = model, copy.deepcopy(model), torch.load(saved, weights_only=False)
    for each in models:
        each(batch).sum().backward()
    return [[each(batch).tolist(), len(each._comm_hooks)] for each in models]


def test_a_model_can_be_copied_and_saved(forked, tmp_path, port):
    (alone,) = forked(1, lambda rank: copied(tmp_path, port, watched=False))
    (watched,) = forked(1, lambda rank: copied(tmp_path, port, watched=True))

    assert alone == watched
    assert watched[0] == watched[1] == watched[2]
