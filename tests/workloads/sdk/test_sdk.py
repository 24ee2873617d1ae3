"""lockstep.recorder in programs of other people: what it records, and that it never disturbs."""

import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from lockstep.collector.clock import SystemClock
from lockstep.collector.contract.ring import StepRecord
from lockstep.collector.contract.words import PHASES, STEP_TAGS, RankState
from lockstep.collector.sources.ranks.records import Records, read_records
from lockstep.collector.sources.ranks.rings import scan
from lockstep.workloads.recording import WARMUP_STEPS
from lockstep.workloads.sdk import warning
from lockstep.workloads.sdk.holder import Holder, Means, holder, may_take
from lockstep.workloads.sdk.recorder import Recorder
from lockstep.workloads.sdk.recording import RingRecorder
from lockstep.workloads.sdk.start import run_name, who_am_i


@pytest.fixture
def environment(tmp_path):
    return {"LOCKSTEP_DIR": str(tmp_path), "LOCKSTEP_RUN": "mine", "LOCKSTEP_NODE": "node-7"}


@pytest.fixture
def recorder(environment):
    made = lockstep.recorder(environment=environment)
    assert isinstance(made, RingRecorder)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(warning, "_said", set())


def rank_of(folder: Path):
    (rank,), rejected = scan(folder, Path("/proc"), SystemClock())
    assert [] == rejected
    return rank


def steps_of(folder: Path) -> tuple[StepRecord, ...]:
    return records_of(folder).steps


def records_of(folder: Path) -> Records:
    return read_records(rank_of(folder).path, 0, None, SystemClock())


def tags(step: StepRecord) -> set[str]:
    return {tag for bit, tag in enumerate(STEP_TAGS) if step.tags >> bit & 1}


def phase(step: StepRecord, name: str) -> int:
    return step.phase_ns[PHASES.index(name)]


def test_without_a_folder_nothing_happens_and_the_loader_itself_is_given_back():
    silent = lockstep.recorder(environment={"RANK": "x"})
    loader = [1, 2]

    assert silent.steps(loader) is loader
    assert not silent.active
    with silent.step(), silent.phase("no such phase"), silent.collective("dp", bytes=1):
        silent.tell(loss="?", samples=-1)
    silent.step_ended()
    silent.watch_torch()
    silent.log(reward="?")


def test_what_the_program_logs_is_in_its_ring(recorder, tmp_path):
    with recorder.step():
        recorder.log(grad_norm=1.5, reward=0)
        recorder.log(reward=2)
    assert {"grad_norm": 1.5, "reward": 2.0} == dict(rank_of(tmp_path).header.live.values)


def test_a_name_or_a_value_that_cannot_be_shown_is_told_once_and_harms_nothing(
    recorder, tmp_path, capsys
):
    for _ in range(3):
        with recorder.step():
            recorder.log(**{"a b": 1.0, "x" * 40: 1.0}, fine=object(), good=1.0)
    with recorder.step():
        recorder.log(**{f"own_{place}": 1.0 for place in range(9)})

    told = dict(rank_of(tmp_path).header.live.values)
    assert 1.0 == told["good"]
    assert math.isnan(told["fine"])
    assert 8 == len(told)
    said = capsys.readouterr().err
    assert 1 == said.count("log(a b=…) is not shown")
    assert 4 == len(steps_of(tmp_path))


def test_a_phase_within_another_is_a_part_of_it(recorder, tmp_path):
    with recorder.step(), recorder.phase("data"):
        threading.Event().wait(0.02)
        with recorder.phase("data"), recorder.phase("forward"):
            threading.Event().wait(0.02)
        threading.Event().wait(0.02)
    (step,) = steps_of(tmp_path)

    assert 60e6 <= phase(step, "data") <= step.wall_ns
    assert 0 == phase(step, "forward")


def test_a_phase_that_is_open_when_its_step_ends_is_no_part_of_the_next(recorder, tmp_path):
    with recorder.phase("optimizer"):
        threading.Event().wait(0.02)
        recorder.step_ended()
    with recorder.phase("forward"):
        threading.Event().wait(0.02)
    recorder.step_ended()
    last = steps_of(tmp_path)[-1]

    assert 0 == phase(last, "optimizer")
    assert 20e6 <= phase(last, "forward") <= last.wall_ns


def test_a_collective_within_another_is_waited_for_once(recorder, tmp_path):
    with recorder.step(), recorder.collective("dp"):
        threading.Event().wait(0.02)
        with recorder.collective("tp"):
            threading.Event().wait(0.02)
        assert recorder.recorder.marking
        threading.Event().wait(0.02)
    (step,) = steps_of(tmp_path)

    assert not recorder.recorder.marking
    assert 0 <= step.own_ns <= step.wall_ns - 60e6


def test_the_module_has_nothing_else():
    with pytest.raises(AttributeError, match="no attribute 'recorders'"):
        lockstep.recorders  # noqa: B018


def test_recording_imports_neither_torch_nor_numpy_nor_anything_that_is_not_python_s_own(tmp_path):
    program = (
        "import sys; known = set(sys.modules)\n"
        "import lockstep\n"
        "for _ in lockstep.recorder().steps(range(3)): pass\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - known}\n"
        "print(sorted(new - sys.stdlib_module_names))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "LOCKSTEP_DIR": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert "['lockstep']\n" == told.stdout
    assert 3 == len(steps_of(tmp_path))


def test_every_item_is_a_step_with_its_phases_and_facts(recorder, tmp_path):
    for index in recorder.steps(range(WARMUP_STEPS + 1)):
        with recorder.phase("forward"):
            pass
        recorder.tell(loss=index / 2, samples=4, tokens=64, flops=2.0)
    *warm, last = steps_of(tmp_path)

    assert list(range(WARMUP_STEPS)) == [step.step for step in warm]
    assert [{"warmup"}] * WARMUP_STEPS == [tags(step) for step in warm]
    assert set() == tags(last)
    assert (4, 64, 2.0, WARMUP_STEPS / 2) == (last.samples, last.tokens, last.flops, last.loss)
    assert phase(last, "forward") > 0
    assert phase(last, "data") > 0
    assert sum(last.phase_ns) <= last.wall_ns + 1
    assert last.own_ns == last.wall_ns


def test_waiting_in_a_collective_is_not_own_time(recorder, tmp_path):
    with recorder.step(), recorder.collective("dp", bytes=4096):
        os.sched_yield()
    (step,) = steps_of(tmp_path)
    (op,) = records_of(tmp_path).ops

    assert ("dp-all-reduce", "dp", 1, 4096) == (op.op, op.group, op.sequence, op.bytes)
    assert op.complete_ns - op.enqueue_ns == step.wall_ns - step.own_ns


def test_a_collective_without_a_name_in_the_ring_counts_as_waiting_only(recorder, tmp_path):
    with recorder.step(), recorder.collective("ep", kind="all-reduce"):
        os.sched_yield()
    (step,) = steps_of(tmp_path)

    assert step.own_ns < step.wall_ns
    assert () == records_of(tmp_path).ops


def test_a_collective_that_raises_stays_open_as_evidence(recorder, tmp_path):
    with pytest.raises(RuntimeError), recorder.step(), recorder.collective("dp"):
        raise RuntimeError("connection closed")

    assert "dp-all-reduce" == rank_of(tmp_path).header.live.open.op
    assert () == steps_of(tmp_path)


def test_leaving_the_loop_counts_the_step_that_did_something(recorder, tmp_path):
    for index in recorder.steps(range(10)):
        recorder.tell(samples=1)
        if index == 2:
            break
    assert 3 == len(steps_of(tmp_path))

    for _ in recorder.steps(range(10)):
        break
    assert 3 == len(steps_of(tmp_path))


def test_evaluation_and_checkpoints_mark_their_step_as_slow_by_design(recorder, tmp_path):
    for name in ("eval", "checkpoint"):
        with recorder.step(), recorder.phase(name):
            pass

    assert [{"warmup", "eval"}, {"warmup", "checkpoint"}] == [
        tags(step) for step in steps_of(tmp_path)
    ]


def test_callbacks_end_steps_one_after_the_other(recorder, tmp_path):
    for loss in (1.0, 0.5):
        recorder.step_ended(loss=loss, samples=2)
    first, second = steps_of(tmp_path)

    assert (1.0, 0.5) == (first.loss, second.loss)
    assert first.start_ns + first.wall_ns <= second.start_ns


def test_foolish_facts_are_warned_of_once_and_training_goes_on(recorder, tmp_path, capsys):
    for _ in range(2):
        with recorder.step(), recorder.phase("fwd"):
            recorder.tell(loss="high", samples=-1)
    first, _ = steps_of(tmp_path)
    said = capsys.readouterr().err

    assert (0, True) == (first.samples, first.loss != first.loss)
    assert 3 == len(said.splitlines())
    assert "there is no phase 'fwd'" in said


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"LOCKSTEP_DIR": "/proc/none"}, "cannot be written"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK is 'one'"),
        ({"RANK": "1"}, "WORLD_SIZE is not"),
    ],
)
def test_what_cannot_be_recorded_is_one_line_and_training_goes_on(
    environment, variables, sentence, capsys
):
    silent = lockstep.recorder(environment=environment | variables)
    said = capsys.readouterr().err

    assert Recorder is type(silent)
    assert [1] == list(silent.steps([1]))
    assert 1 == len(said.splitlines())
    assert sentence in said


def test_a_forked_child_records_nothing_into_its_parent_s_ring(recorder, tmp_path):
    pid = os.fork()
    if pid == 0:
        for _ in recorder.steps(range(5)):
            with recorder.phase("forward"), recorder.collective("dp"):
                pass
        os._exit(0)
    os.waitpid(pid, 0)

    assert () == steps_of(tmp_path)


def test_two_processes_do_not_record_one_rank(recorder, environment):
    program = "import lockstep; print(lockstep.recorder().active)"
    told = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True,
        text=True, check=True,
    )  # fmt: skip

    assert "False\n" == told.stdout
    assert f"process {os.getpid()} records rank 0 of mine already" in told.stderr


@pytest.mark.parametrize(
    ("last_line", "state"), [("pass", RankState.FINISHED), ("1 / 0", RankState.FAILED)]
)
def test_the_ring_says_how_the_program_ended(environment, tmp_path, last_line, state):
    program = f"import lockstep; lockstep.recorder().step_ended()\n{last_line}"
    subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True,
        check=False,
    )  # fmt: skip

    assert state == rank_of(tmp_path).header.state


@pytest.mark.parametrize(
    ("variables", "who"),
    [
        ({}, (0, 1, 0)),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}, (3, 4, 1)),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "8",
                "OMPI_COMM_WORLD_LOCAL_RANK": "0", "SLURM_PROCID": "7",
            },
            (2, 8, 0),
        ),
    ],
)  # fmt: skip
def test_the_launcher_says_which_rank_this_is(variables, who):
    known = who_am_i(variables, "train", None, None)

    assert who == (known.rank, known.world, known.local_rank)


def test_what_the_program_says_goes_before_the_launcher():
    known = who_am_i({"RANK": "0", "WORLD_SIZE": "1"}, "train", 5, 8)

    assert (5, 8) == (known.rank, known.world)


@pytest.mark.parametrize(("rank", "world"), [(4, 4), (-1, 4), (1, None), (None, 2)])
def test_a_rank_that_does_not_exist_is_refused(rank, world):
    with pytest.raises(ValueError, match=r"ranks count from 0|give both or neither"):
        who_am_i({}, "train", rank, world)


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"LOCKSTEP_RUN": "a b/c", "TORCHELASTIC_RUN_ID": "x"}, "a-b-c"),
        ({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "12"}, "slurm-12"),
        ({"TORCHELASTIC_RUN_ID": "job-7"}, "job-7"),
        ({}, "train"),
    ],
)
def test_all_ranks_find_the_same_name_for_the_run(variables, name):
    assert name == run_name(variables, "train")


@given(
    means=st.sampled_from(Means), other=st.sampled_from(Means), steps=st.integers(0, 3),
    same=st.booleans(), trains=st.booleans(),
)  # fmt: skip
def test_a_worse_means_never_displaces_a_better_one_that_works(means, other, steps, same, trains):
    order = list(Means)
    living = Holder("r", 0, 1, steps, other, lives=True, waited=False)
    taken = may_take(living, "r", 0, 1 if same else 2, means, trains=trains)

    if order.index(means) > order.index(other) and (steps or other is Means.SDK):
        assert not taken or (same and other is not Means.SDK)
    gone = Holder("r", 0, 1, steps, other, lives=False, waited=False)
    assert may_take(gone, "r", 0, 2, means, trains=trains)


def test_a_file_that_is_no_ring_has_no_holder(tmp_path):
    (tmp_path / "rank-0.ring").write_bytes(b"LKSTRING")

    assert holder(tmp_path / "rank-0.ring") is None
    assert holder(tmp_path / "rank-1.ring") is None
