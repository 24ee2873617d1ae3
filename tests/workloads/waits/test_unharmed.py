"""Where timing cannot be, or a model is copied, the program computes what it would without."""

import copy
import io
import os

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import lockstep
from tests.workloads.waits import programs
from tests.workloads.waits.ranks import prepared

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
