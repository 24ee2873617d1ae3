"""Where timing cannot be, or a model is copied, the program computes what it would without."""

import copy
import io
import os
import traceback
from collections import Counter
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import DataLoader

import lockstep
from lockstep.workloads.launch.joining.reachable import free_port
from tests.workloads.sdk.waits import programs
from tests.workloads.sdk.waits.ranks import prepared

pytestmark = pytest.mark.distributed


def recording(rank=0, world=1):
    return lockstep.recorder(rank=rank, world=world, environment=dict(os.environ))


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


def lost(folder, rank, port, *, watched):
    """Where the traceback of a program stands whose peer is gone, by file and function."""
    prepared(folder, rank, 2, port)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    if watched:
        recording(rank, 2).watch_torch()
    dist.all_reduce(torch.ones(4))
    if rank == 1:
        return []
    frames = []
    for call in (
        lambda: dist.all_reduce(torch.ones(4)),
        lambda: dist.all_reduce(torch.ones(4), async_op=True).wait(),
        lambda: dist.barrier(),
        lambda: functional.wait_tensor(functional.all_reduce(torch.ones(4), "sum", [0, 1])),
        lambda: dist.broadcast(torch.ones(4), 1),
    ):
        try:
            call()
            frames.append([])
        except RuntimeError as error:
            stack = traceback.extract_tb(error.__traceback__)
            frames.append([[each.filename, each.name] for each in stack])
    return frames


def test_an_error_of_gloo_ends_in_torch_s_frames(forked, tmp_path):
    first, second = free_port(), free_port()
    alone, _ = forked(2, lambda rank: lost(tmp_path, rank, first, watched=False))
    watched, _ = forked(2, lambda rank: lost(tmp_path, rank, second, watched=True))

    assert all(alone)
    assert alone == watched


def compiled(folder, rank, port, order):
    """Whether each step of a compiled model's is known, without the first two."""
    prepared(folder, rank, 2, port)
    recorder = recording(rank, 2) if order == "recorder first" else None
    dist.init_process_group("gloo")
    model = DistributedDataParallel(programs.a_model())
    recorder = recorder or recording(rank, 2)
    model = torch.compile(model, backend="aot_eager")
    optimizer = SGD(model.parameters(), lr=0.05)
    known = []
    for batch in programs.inputs(6):
        with recorder.step():
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        own = recorder.recorder.own_seconds
        known.append(own == own)
    return known[2:]


@pytest.mark.parametrize("order", ["recorder first", "model first"])
def test_steps_of_a_compiled_model_are_known(forked, tmp_path, port, order):
    answers = forked(2, lambda rank: compiled(tmp_path, rank, port, order))

    assert [[True] * 4] * 2 == answers


def patched(folder, rank, port, when):
    """Weights and losses of a program that puts functions of its own into torch, and their calls.

    Args:
        when: Before or after the recorder is made; "alone" = without one.
    """
    prepared(folder, rank, 2, port)
    dist.init_process_group("gloo")
    calls = Counter()

    def patch(owner, name):
        original = getattr(owner, name)

        def mine(*arguments, **named):
            calls[name] += 1
            return original(*arguments, **named)

        setattr(owner, name, mine)

    def patch_all():
        patch(dist, "all_reduce")
        patch(dist.Work, "wait")
        patch(dist.ProcessGroup, "allreduce")
        patch(DistributedDataParallel, "_pre_forward")
        patch(DistributedDataParallel, "__init__")
        patch(DataLoader, "__iter__")
        patch(torch.optim.Optimizer, "zero_grad")

    if when == "before":
        patch_all()
    recorder = None if when == "alone" else recording(rank, 2)
    if recorder is not None:
        recorder.watch_torch()
    if when != "before":
        patch_all()
    model = DistributedDataParallel(programs.a_model())
    optimizer = SGD(model.parameters(), lr=0.05)
    loader = DataLoader(torch.stack(list(programs.inputs())))
    losses = []
    for batch in loader if recorder is None else recorder.steps(loader):
        loss = model(batch[0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach()
        dist.all_reduce(total)
        losses.append(total.item().hex())
    return [losses, sorted(calls)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_program_that_patches_torch_itself_computes_the_same(forked, tmp_path, when):
    first, second = free_port(), free_port()
    alone = forked(2, lambda rank: patched(tmp_path, rank, first, "alone"))
    watched = forked(2, lambda rank: patched(tmp_path, rank, second, when))

    assert alone == watched
