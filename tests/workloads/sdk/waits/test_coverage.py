"""What makes the own time of a step unknown, and that nothing else does."""

import os
import subprocess
import sys
import threading

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

import lockstep
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.sdk.coverage import PATIENT_STEPS, SILENT_STEPS, Coverage
from tests.workloads.sdk.waits import programs
from tests.workloads.sdk.waits.ranks import prepared, unchanged

WORLD = 2


class Ring:
    """Takes what a RingWriter takes."""

    def __init__(self):
        self.own = []

    def end_step(self, *, own_ns, **other):
        self.own.append(own_ns)

    def begin(self, *where):
        return 0


class Torch:
    """Waits as a test has them."""

    def __init__(self, why="", *, used=True, fails=False):
        self.why, self.used, self.fails = why, used, fails

    def use(self, recorder):
        if self.fails:
            raise AttributeError("no such name in this torch")

    def leave(self, recorder): ...
    def settle(self): ...

    def in_use(self):
        return self.used

    def untimed(self):
        return self.why


class Data:
    """Time in torch's DataLoader that nobody asks for."""

    recorder = None

    def use(self, recorder):
        self.recorder = recorder

    def follow(self, recorder): ...

    def leave(self, recorder):
        self.recorder = None


def known(world, waits, *, marked=False, steps=1):
    """Whether the own time of steps is known, one by one."""
    ring = Ring()
    recorder = StepRecorder(ring)
    judge = Coverage(recorder, world, lambda: waits, Data)
    for _ in range(steps):
        judge.look()
        recorder.start_step()
        recorder.marked = int(marked)
        judge.settle()
        judge.judge()
        recorder.end_step(samples=0, tokens=0, flops=0.0, loss=0.0)
    return [own is not None for own in ring.own]


@pytest.mark.parametrize(
    ("world", "waits", "marked", "expected"),
    [
        (1, Torch(used=False), False, True),
        (4, Torch(used=False), False, False),
        (4, Torch(used=False), True, True),
        (4, Torch(), False, True),
        (4, Torch("one was not timed"), False, False),
        (4, Torch("one was not timed"), True, False),
        (1, Torch("one was not timed"), False, False),
        (4, Torch(fails=True), False, False),
        (1, Torch(fails=True), False, True),
    ],
)
def test_own_time_is_known_where_all_waiting_was_timed_or_there_is_none(
    world, waits, marked, expected
):
    assert [expected] == known(world, waits, marked=marked)


def test_it_is_said_once_where_nothing_could_be_timed(capsys, monkeypatch):
    monkeypatch.setattr("lockstep.workloads.sdk.warning._said", set())
    known(4, Torch("one was not timed"), steps=3 * PATIENT_STEPS)

    said = capsys.readouterr().err
    assert 1 == said.count("\n")
    assert "its own time is unknown: one was not timed" in said


def test_a_marked_program_may_be_silent_as_long_as_one_of_torch_s():
    ring = Ring()
    recorder = StepRecorder(ring)
    judge = Coverage(recorder, 4, lambda: Torch(used=False), Data)
    for step in range(1 + SILENT_STEPS + 1):
        recorder.start_step()
        recorder.marked = int(step == 0)
        judge.judge()
        recorder.end_step(samples=0, tokens=0, flops=0.0, loss=0.0)

    assert [True] * (1 + SILENT_STEPS) + [False] == [own is not None for own in ring.own]


def test_data_is_timed_where_torch_distributed_cannot_be_followed():
    recorder, data = StepRecorder(Ring()), Data()
    judge = Coverage(recorder, 4, lambda: Torch(fails=True), lambda: data)
    judge.look()
    assert data.recorder is recorder
    judge.leave()
    assert data.recorder is None


def test_a_count_that_cannot_be_learnt_is_unknown_and_raises_nothing():
    class Other(Torch):
        def untimed(self):
            raise RuntimeError("another backend")

    assert [False, False] == known(4, Other(), steps=2)


def test_torch_is_not_imported_for_a_program_without_it(tmp_path):
    program = (
        "import sys, lockstep\n"
        "for _ in lockstep.recorder().steps(range(3)): pass\n"
        "assert not any(name.partition('.')[0] == 'torch' for name in sys.modules)"
    )
    environment = {**os.environ, "LOCKSTEP_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=240)


def recording(rank):
    return lockstep.recorder(rank=rank, world=WORLD, environment=dict(os.environ))


class Steps:
    """Own times of the steps of a recorder, as they are written."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.known = []

    def __call__(self, work):
        with self.recorder.step():
            work()
        own = self.recorder.recorder.own_seconds
        self.known.append(own == own)
        return self.known[-1]


def reduce():
    dist.all_reduce(torch.ones(4))


def untimed_in_c():
    # Taken before anybody could put something in its place.
    _distributed_c10d._broadcast_coalesced(dist.group.WORLD, [torch.ones(4)], 1 << 20, 0)


def polled():
    work = dist.all_reduce(torch.ones(4), async_op=True)
    while not work.is_completed():
        pass
    work.wait()


def waited_for_elsewhere():
    work = dist.all_reduce(torch.ones(4), async_op=True)
    other = threading.Thread(target=work.wait)
    other.start()
    other.join()


def by_a_future():
    dist.all_reduce(torch.ones(4), async_op=True).get_future().wait()


def with_a_new_group():
    reduce()
    dist.new_group([0, 1])


def judged(folder, rank, port):
    """By name: whether a step is known, in which that was done."""
    prepared(folder, rank, WORLD, port)
    dist.init_process_group("gloo")
    steps = Steps(recording(rank))
    steps(reduce)
    works = []
    answers = {
        "reduce": steps(reduce),
        "nothing": steps(lambda: None),
        "untimed in C++": steps(untimed_in_c),
        "after it": steps(reduce),
        "elsewhere": steps(waited_for_elsewhere),
        "by a future": steps(by_a_future),
        "new group": steps(with_a_new_group),
        "in that group": steps(reduce),
        "begun": steps(lambda: works.append(dist.all_reduce(torch.ones(4), async_op=True))),
        "waited for": steps(lambda: works[0].wait()),
        "barrier": steps(dist.barrier),
        "monitored": steps(dist.monitored_barrier),
    }
    other = threading.Thread(target=lambda: steps(reduce))
    other.start()
    other.join()
    answers["in a thread"] = steps.known[-1]
    return answers


@pytest.mark.distributed
def test_a_step_is_known_if_and_only_if_all_its_collectives_were_timed(forked, tmp_path, port):
    answers = forked(WORLD, lambda rank: judged(tmp_path, rank, port))

    unknown = {"untimed in C++", "elsewhere", "by a future", "new group", "in a thread"}
    for rank in answers:
        assert unknown == {name for name, is_known in rank.items() if not is_known}


def marked(folder, rank, port):
    """Own seconds of a step with a collective that the program marks, and torch has, too."""
    prepared(folder, rank, WORLD, port)
    dist.init_process_group("gloo")
    recorder = recording(rank)
    for _ in range(3):
        with recorder.step():
            if rank == 1:
                threading.Event().wait(0.2)
            with recorder.collective("world"):
                reduce()
    return recorder.recorder.own_seconds


@pytest.mark.distributed
def test_a_collective_that_the_program_marks_is_waited_for_once(forked, tmp_path, port):
    own, late = forked(WORLD, lambda rank: marked(tmp_path, rank, port))

    assert 0.0 <= own < 0.15
    assert late > 0.19


def ordered(folder, rank, port, order):
    """Known steps of a program with DDP, whose own code is in this order."""
    prepared(folder, rank, WORLD, port)
    if order == "recorder first":
        recorder = recording(rank)
    dist.init_process_group("gloo")
    if order == "group, recorder, model":
        recorder = recording(rank)
    model = DistributedDataParallel(programs.a_model(normed=True))
    optimizer = SGD(model.parameters(), lr=0.05)
    batches = programs.inputs()
    if order == "a step before":
        model(next(batches)).sum().backward()
    if order not in {"recorder first", "group, recorder, model"}:
        recorder = recording(rank)
    steps = Steps(recorder)
    for batch in batches:
        steps(lambda batch=batch: model(batch).square().mean().backward() or optimizer.step())
    return steps.known[2:]


@pytest.mark.distributed
@pytest.mark.parametrize(
    "order", ["recorder first", "group, recorder, model", "model first", "a step before"]
)
def test_the_order_of_calls_does_not_matter(forked, tmp_path, port, order):
    answers = forked(WORLD, lambda rank: ordered(tmp_path, rank, port, order))

    assert all(known and all(known) for known in answers)


def both(folder, rank, port):
    """The program calls lockstep.recorder, and runs under --exec."""
    found = []

    def program():
        dist.init_process_group("gloo")
        model = DistributedDataParallel(programs.a_model(normed=True))
        optimizer = SGD(model.parameters(), lr=0.05)
        batches = programs.inputs()
        model(next(batches)).square().mean().backward()  # has --exec's hook from here on
        steps = Steps(recording(rank))
        for batch in batches:
            steps(lambda batch=batch: model(batch).square().mean().backward() or optimizer.step())
        found.extend(steps.known[2:])

    unchanged(folder, rank, WORLD, port, program)
    return found


@pytest.mark.distributed
def test_a_recorder_under_exec_has_what_exec_alone_has(forked, tmp_path, port):
    answers = forked(WORLD, lambda rank: both(tmp_path, rank, port))

    assert all(known and all(known) for known in answers)


ALIKE = (
    "ddp", "ddp_buffers", "ddp_unused", "ddp_static", "ddp_accumulating", "ddp_join_divided",
    "ddp_own_hook", "ddp_builtin_hook", "ddp_views", "ddp_sparse", "zero",
)  # fmt: skip


def trained():
    """Weights and buffers after each kind of program."""
    models = {name: getattr(programs, name)(lambda: None) for name in ALIKE}
    return {
        name: torch.cat([each.flatten() for each in model.state_dict().values()]).tolist()
        for name, model in models.items()
    }


def weights(folder, rank, world, port):
    """Without and with Lockstep."""
    prepared(folder, rank, world, port)
    dist.init_process_group("gloo")
    alone = trained()
    recording(rank)
    return [alone, trained()]


@pytest.mark.distributed
@pytest.mark.slow
def test_no_program_learns_anything_else_because_it_is_watched(forked, tmp_path, port):
    # Three ranks: dividing by three and multiplying by a third differ.
    for alone, watched in forked(3, lambda rank: weights(tmp_path, rank, 3, port)):
        assert all(len(values) > programs.WIDTH for values in alone.values())
        assert [] == [name for name in ALIKE if alone[name] != watched[name]]
