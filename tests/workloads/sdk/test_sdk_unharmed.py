"""lockstep.recorder never ends, hangs or changes a program, whatever it is given or finds."""

import copy
import errno
import fcntl
import functools
import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from decimal import Decimal
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import lockstep
from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import ring
from lockstep.collector.contract.words import RankState
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.rings import scan
from lockstep.workloads.launch.joining.reachable import free_port
from lockstep.workloads.measure.heartbeat import Heartbeat
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.sdk import guard, warning
from lockstep.workloads.sdk.holder import Means, holder, may_take
from lockstep.workloads.sdk.recorder import Recorder
from lockstep.workloads.sdk.recording import RingRecorder
from lockstep.workloads.sdk.start import started, who_am_i

ODD = (
    2**31, 2**32, 2**63, 2**64, 2**70, 10**5000, -1, -(2**70), 0.5, 1e308, -0.0, math.nan, math.inf,
    -math.inf, True, None, "", "x" * 10_000, b"\xff", [], {}, (1, 2), object(), print, 1j,
    Decimal("1e400"), np.int64(3), np.float32(2.5), np.uint8(200), np.array([1, 2]), np.array(3),
    torch.tensor(4), torch.tensor(1.5, requires_grad=True), torch.ones(3), torch.tensor(math.nan),
)  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(warning, "_said", set())


@pytest.fixture
def environment(tmp_path):
    return {"LOCKSTEP_DIR": str(tmp_path / "rings"), "LOCKSTEP_RUN": "mine"}


@pytest.fixture
def recorder(environment):
    made = lockstep.recorder(environment=environment)
    assert isinstance(made, RingRecorder)
    yield made
    made.close()


def read(folder: Path):
    """The steps, as the collector reads them."""
    (rank,), rejected = scan(folder / "rings", Path("/proc"), SystemClock())
    assert [] == rejected
    return read_records(rank.path, 0, None, SystemClock()).steps


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_a_step_is_recorded_whatever_the_program_tells_of_it(recorder, tmp_path, value):
    for _ in range(3):
        with recorder.step():
            with recorder.phase(value):
                pass
            with recorder.collective(value, kind=value, bytes=value):
                pass
            with recorder.collective(bytes=value):
                pass
            recorder.tell(loss=value, samples=value, tokens=value, flops=value)
            recorder.log(odd=value)
    recorder.step_ended(loss=value, samples=value, tokens=value)

    assert recorder.active
    assert 4 == len(read(tmp_path))


def test_a_program_with_another_fault_in_each_step_is_not_answered_in_each(recorder, capsys):
    for number in range(1000):
        with recorder.step(), recorder.phase(f"phase {number}"):
            recorder.tell(samples=-number)

    assert len(capsys.readouterr().err.splitlines()) <= warning.MOST_SAID


class Dear:
    """Another value each time, as a tensor is; to show it takes long."""

    shown = 0

    def __repr__(self):
        type(self).shown += 1
        return f"Dear({self.shown})"


def test_a_fault_that_returns_with_other_values_is_said_once_and_shown_once(
    recorder, capsys, monkeypatch
):
    monkeypatch.setattr(Dear, "shown", 0)
    wrong = ("samples", "tokens", "flops", "phase", "group", "kind", "bytes")
    for number in range(100):
        with recorder.step(), recorder.phase(Dear()):
            recorder.tell(samples=Dear(), tokens=Dear(), flops=10.0 ** (40 + number))
            with recorder.collective(Dear(), bytes=Dear()), recorder.collective(kind=Dear()):
                pass
    said = capsys.readouterr().err.splitlines()

    assert len(wrong) == len(said)
    assert len(wrong) - 1 == Dear.shown


def test_what_ends_the_recording_is_said_after_however_many_faults(recorder, tmp_path, capsys):
    for number in range(4 * warning.MOST_SAID):
        with recorder.step():
            recorder.log(**{f"name_{number}": object()})
    shutil.rmtree(tmp_path / "rings")
    recorder._look_at_place()

    assert "this rank is not recorded any more" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["rank", "world", "dp", "tp", "pp", "first_step"])
@pytest.mark.parametrize(
    "value", [each for each in ODD if each is not None], ids=range(len(ODD) - 1)
)
def test_any_place_is_recorded_or_refused_in_one_line(environment, tmp_path, capsys, name, value):
    places = {"rank": 0, "world": 4, name: value}
    made = lockstep.recorder(environment=environment, **places)
    made.step_ended()
    said = capsys.readouterr().err.splitlines()

    if made.active:
        assert [] == said
        assert 1 == len(read(tmp_path))
        made.close()
    else:
        assert ["lockstep: this rank is not recorded: "] == [each[:37] for each in said]
        assert [] == list((tmp_path / "rings").glob("*"))


@pytest.mark.parametrize("text", [str(2**31), str(2**64), "9" * 5000, "-1", "", "one", "1.0", "१"])
def test_a_rank_that_no_ring_holds_is_refused_and_a_restart_count_is_let_be(environment, text):
    ranked = {"RANK": text, "WORLD_SIZE": text + "0"}
    assert not lockstep.recorder(environment=environment | ranked).active
    restarted = {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RESTART_COUNT": text}
    assert 0 == who_am_i(restarted, "train", None, None).attempt


def test_without_room_for_a_thread_the_rank_is_not_recorded(
    environment, tmp_path, capsys, monkeypatch
):
    def none(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    made = lockstep.recorder(environment=environment)

    assert not made.active
    assert [1] == list(made.steps([1]))
    assert "not recorded: can't start new thread" in capsys.readouterr().err
    assert [] == list((tmp_path / "rings").glob("*"))


def test_without_room_for_the_ring_the_rank_is_not_recorded(
    environment, tmp_path, capsys, monkeypatch
):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)

    assert not lockstep.recorder(environment=environment).active
    assert "cannot be written (No space left on device)" in capsys.readouterr().err
    assert [] == list((tmp_path / "rings").glob("*"))


def a_pipe(path):
    os.mkfifo(path)


def a_folder(path):
    path.mkdir()


def a_link(path):
    path.symlink_to("/etc/hostname")


def a_loop(path):
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [a_pipe, a_folder, a_link, a_loop])
def test_whatever_lies_in_the_ring_s_place_nobody_waits_for_it(environment, tmp_path, make):
    (tmp_path / "rings").mkdir()
    make(tmp_path / "rings" / "rank-0.ring")
    target = Path("/etc/hostname")
    before = target.read_bytes() if target.exists() else b""
    program = "import lockstep; r = lockstep.recorder(); r.step_ended(); print(r.active)"
    told = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True,
        text=True, timeout=60, check=True,
    )  # fmt: skip

    assert told.stdout == ("False\n" if make is a_folder else "True\n")
    assert before == (target.read_bytes() if target.exists() else b"")


def test_two_starts_at_once_have_a_file_each(environment, monkeypatch):
    """The second comes between the first one's file and its name."""
    variables = environment | {"RANK": "0", "WORLD_SIZE": "1"}
    rename, second = Path.rename, []

    def slow(path, target):
        if not second:
            second.append(None)
            second[0] = started(variables, Means.SDK)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", slow)
    first = started(variables, Means.SDK)

    for writer in (first, *second):
        assert ring.FILE_BYTES == len(writer._map)
        writer.heartbeat()
    assert first.inode != second[0].inode
    assert first.inode == first.inode_in_place()
    assert ["rank-0.ring"] == os.listdir(environment["LOCKSTEP_DIR"])


def test_a_heart_beats_on_after_a_beat_that_failed():
    beats = []

    def once():
        beats.append(1)
        if len(beats) == 1:
            raise ZeroDivisionError

    heart = Heartbeat(once, period=0.001)
    heart.start()
    until = monotonic() + 30
    while len(beats) < 3 and monotonic() < until:
        sleep(0.001)
    heart.stop()

    assert len(beats) >= 3


def test_a_deleted_folder_is_said_once_and_training_goes_on(recorder, tmp_path, capsys):
    recorder.step_ended()
    shutil.rmtree(tmp_path / "rings")
    recorder._look_at_place()
    recorder._look_at_place()
    recorder.step_ended()
    said = capsys.readouterr().err

    assert 1 == said.count("this rank is not recorded any more")
    assert recorder.active


def test_a_program_may_go_to_another_folder(environment, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = lockstep.recorder(environment=environment | {"LOCKSTEP_DIR": "rings"})
    (tmp_path / "outputs").mkdir()
    monkeypatch.chdir(tmp_path / "outputs")
    made._look_at_place()
    made.step_ended()
    made.close()

    assert "" == capsys.readouterr().err
    assert 1 == len(read(tmp_path))
    assert [] == os.listdir()


def test_what_stands_for_a_loader_behaves_as_the_loader_does(recorder):
    loader = DataLoader(TensorDataset(torch.arange(10.0)), batch_size=3)
    loader.epoch = 0
    given = recorder.steps(loader)

    assert len(loader) == len(given) == 4
    assert isinstance(given, DataLoader)
    assert (loader.dataset, loader.sampler, loader.batch_sampler) == (
        given.dataset, given.sampler, given.batch_sampler,
    )  # fmt: skip
    given.epoch = 7
    assert 7 == loader.epoch
    for _ in range(2):  # epochs
        assert 10 == sum(len(batch) for (batch,) in given)
    assert 4 == len(pickle.loads(pickle.dumps(given)))
    assert DataLoader is type(pickle.loads(pickle.dumps(given)))
    assert 4 == len(copy.deepcopy(given)) == len(copy.copy(given))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        given.nothing  # noqa: B018


def test_a_loader_without_a_length_has_none_and_a_list_is_one(recorder):
    class Endless(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    endless = recorder.steps(Endless())
    assert not hasattr(type(endless), "__len__")
    with pytest.raises(TypeError):
        len(endless)
    assert [0, 1, 2] == list(endless)
    listed = recorder.steps([1, 2])
    assert ([1, 2], 2, True, 1) == (listed, len(listed), 2 in listed, listed[0])
    assert 1 == next(recorder.steps(iter([1, 2])))
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        list(recorder.steps(5))


@pytest.mark.parametrize("items", [[1, 2], (1, 2), range(1, 3)], ids=["list", "tuple", "range"])
def test_plain_items_are_an_iterable_that_claims_no_class_of_c(recorder, tmp_path, items):
    given = recorder.steps(items)

    assert not isinstance(given, (list, tuple, range))
    assert (2, 1, True, [2, 1]) == (len(given), given[0], 2 in given, list(reversed(given)))
    assert items == given
    with pytest.raises(TypeError):  # as docs/ml/own-code.md says
        json.dumps(given)
    if not isinstance(items, range):
        assert type(items)([0, 1, 2]) == type(items)([0]) + given
        assert type(items)([1, 2, 3]) == given + type(items)([3])
    assert () == read(tmp_path)
    assert [1, 2] == list(given)
    recorder.step_ended()
    assert 3 == len(read(tmp_path))


def test_a_loader_that_is_a_with_block_is_recorded_within_it(recorder, tmp_path):
    class Bar(list):
        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.closed = True

    bar = Bar([1, 2])
    with recorder.steps(bar) as items:
        assert [1, 2] == list(items)
    items += [3]
    assert [1, 2, 3] == list(items) == bar
    recorder.step_ended()

    assert bar.closed
    assert 6 == len(read(tmp_path))


def test_without_stderr_nothing_is_said_on_stdout(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    warning.warn("something is wrong")

    assert "" == capsys.readouterr().out


def test_a_loader_s_exception_is_the_loader_s(recorder):
    def broken():
        yield 1
        raise LookupError("mine")

    with pytest.raises(LookupError) as caught:
        list(recorder.steps(broken()))
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]

    assert {__file__} == set(files)


def test_the_recorder_can_be_copied_and_handed_on(recorder, tmp_path):
    assert recorder is copy.copy(recorder)
    assert recorder is copy.deepcopy({"callback": recorder})["callback"]
    other = pickle.loads(pickle.dumps(recorder))
    assert Recorder is type(other)
    with other.step():
        other.tell(loss=1.0)
    assert () == read(tmp_path)


def kept_blocks(recorder):
    return [recorder.phase("forward"), recorder.collective("dp"), recorder.step()]


def test_a_block_that_a_model_keeps_can_be_copied_and_handed_on(recorder, tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = kept_blocks(recorder)

    for copied in (copy.deepcopy(Model()).blocks, map(copy.copy, kept_blocks(recorder))):
        forward, collective, step = copied
        with step, forward, collective:
            pass
    for block in pickle.loads(pickle.dumps(Model().blocks)):
        with block:
            pass

    assert recorder.active
    assert 2 == len(read(tmp_path))


def test_a_forked_child_writes_nothing_into_its_parent_s_ring(recorder, tmp_path):
    with recorder.step(), recorder.phase("forward"):
        pid = os.fork()
        if pid == 0:
            recorder.log(mine=1.0)
    if pid == 0:
        recorder.step_ended()
        os._exit(0)
    os.waitpid(pid, 0)
    header = ring.Header((tmp_path / "rings" / "rank-0.ring").read_bytes())

    assert 1 == len(read(tmp_path))
    assert {b""} == {name.rstrip(b"\0") for name, _ in header.values}


def test_what_fails_ends_the_recording_is_said_once_and_leaves_a_rank_that_has_ended(
    recorder, tmp_path, capsys, monkeypatch
):
    recorder.step_ended()

    def fails(*_, **named):
        raise ArithmeticError("ours")

    monkeypatch.setattr(RingWriter, "end_step", fails)
    for _ in recorder.steps(range(3)):
        with recorder.phase("forward"):
            pass
    (rank,), _ = scan(tmp_path / "rings", Path("/proc"), SystemClock())

    said = capsys.readouterr().err
    assert said == "lockstep: this rank is not recorded from here on: ArithmeticError: ours\n"
    assert RankState.FINISHED == rank.header.state
    assert not recorder.active


def test_a_wrong_call_is_the_same_error_as_without_lockstep(recorder):
    with pytest.raises(TypeError, match="unexpected keyword argument 'los'"):
        recorder.tell(los=1.0)


def test_ctrl_c_within_our_own_code_is_the_program_s(recorder, monkeypatch):
    def interrupted(*_, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(RingWriter, "end_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recorder.step_ended()


def test_an_exception_from_within_a_call_that_is_timed_has_no_frame_of_ours():
    def foreign():
        raise LookupError("torch's")

    watched = guard.Guard().around(foreign, lambda: 1, lambda *_: None, lambda _: None)
    with pytest.raises(LookupError) as caught:
        watched()

    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert [sys._getframe().f_code.co_name, "foreign"] == names


def test_phases_do_not_break_a_graph(recorder):
    @torch.compile(fullgraph=True, backend="eager")
    def forward(values):
        with recorder.phase("forward"), recorder.collective("dp", bytes=4):
            doubled = values * 2
        recorder.tell(loss=doubled, samples=1)
        recorder.log(norm=1.0)
        return doubled

    with recorder.step():
        assert [2.0, 2.0] == forward(torch.ones(2)).tolist()


def ring_of(environment, attempt: int = 0) -> Path:
    """Of a process that has just been killed: its heart beat until then."""
    program = (
        "import lockstep, os, signal; r = lockstep.recorder(); r.step_ended()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    more = {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RESTART_COUNT": str(attempt)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment | more, check=False
    )
    assert -signal.SIGKILL == ended.returncode
    return Path(environment["LOCKSTEP_DIR"]) / "rank-0.ring"


def test_a_restart_at_once_is_recorded(environment, tmp_path):
    path = ring_of(environment)
    header = ring.Header(path.read_bytes())
    assert header.state == 1  # running, as far as it says
    made = lockstep.recorder(environment=environment)

    assert made.active
    made.close()


def test_an_ended_rank_s_place_is_free_and_a_living_one_s_is_not(environment, recorder):
    path = Path(environment["LOCKSTEP_DIR"]) / "rank-0.ring"
    assert holder(path).lives
    recorder.close()
    assert not holder(path).lives


@pytest.mark.parametrize(("attempt", "taken"), [(0, False), (1, False), (2, True)])
def test_a_later_attempt_takes_the_place_of_an_earlier_one_that_lives(environment, attempt, taken):
    earlier = {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RESTART_COUNT": "1"}
    writer = started(environment | earlier, Means.SDK)
    other = holder(writer.path)

    assert taken == may_take(other, "mine", attempt, os.getpid() + 1, Means.SDK, trains=True)


def elsewhere(path: Path, namespace: int, **words: int) -> None:
    """As if the ring's writer were in another PID namespace, and its heart beat just now."""
    with path.open("r+b") as file:
        for offset, word in (
            (ring.PID_NAMESPACE_OFFSET, ring.PID_NAMESPACE.pack(namespace)),
            (ring.HEARTBEAT_OFFSET, ring.HEARTBEAT.pack(round(monotonic() * 1e9))),
            *((ring.LOCKED_OFFSET, ring.LOCKED.pack(word)) for word in words.values()),
        ):
            file.seek(offset)
            file.write(word)


@pytest.mark.parametrize("namespace", [0, 12345])
def test_where_neither_pid_nor_lock_says_anything_the_heartbeat_decides(environment, namespace):
    """Of a writer that does not tell its namespace, as older ones, or of another namespace."""
    path = ring_of(environment)
    elsewhere(path, namespace, locked=0)

    assert holder(path).lives


@pytest.mark.parametrize("namespace", [0, 12345])
def test_a_restart_in_another_pid_namespace_is_recorded_at_once(environment, namespace):
    path = ring_of(environment)
    elsewhere(path, namespace)
    assert not holder(path).lives
    made = lockstep.recorder(environment=environment)

    assert made.active
    made.close()


@pytest.mark.parametrize("namespace", [0, 12345])
def test_a_rank_that_lives_in_another_pid_namespace_keeps_its_place(
    environment, recorder, namespace
):
    path = Path(environment["LOCKSTEP_DIR"]) / "rank-0.ring"
    elsewhere(path, namespace)

    assert holder(path).lives
    assert holder(path).lives, "asking does not take the lock away"


def test_several_that_ask_at_once_do_not_take_each_other_for_the_writer(environment):
    path = ring_of(environment)
    elsewhere(path, 12345)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert not holder(path).lives


CONTAINER = """\
import os, sys, time, lockstep
recorder = lockstep.recorder()
recorder.step_ended()
print("recorded" if recorder.active else "refused", flush=True)
if os.fork() == 0:  # as a loader's worker
    time.sleep(60)
time.sleep(60)
"""


@pytest.mark.root
def test_containers_of_one_rank_are_recorded_one_after_the_other_and_not_at_once(environment):
    """The rank is process 1 in each of them."""
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*inside, "true"]).returncode != 0:
        pytest.skip("needs the right to make pid namespaces")
    variables = os.environ | environment | {"RANK": "0", "WORLD_SIZE": "1"}

    def container() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*inside, sys.executable, "-c", CONTAINER], env=variables, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    first = container()
    try:
        assert "recorded\n" == first.stdout.readline()
        second = container()
        assert "refused\n" == second.stdout.readline()
        second.kill()
        second.communicate()
    finally:
        first.kill()
        first.communicate()
    third = container()
    told = third.stdout.readline()
    third.kill()
    third.communicate()

    assert "recorded\n" == told


def test_a_resumed_run_s_steps_carry_their_true_numbers(environment, tmp_path):
    made = lockstep.recorder(environment=environment, first_step=np.int64(1200))
    for _ in made.steps(range(3)):
        made.tell(loss=1.0)
    made.close()
    (rank,), _ = scan(tmp_path / "rings", Path("/proc"), SystemClock())

    assert [1200, 1201, 1202] == [step.step for step in read(tmp_path)]
    assert 1203 == rank.header.live.steps


@pytest.mark.parametrize("name", ["analyzer", "collector", "dashboard", "grafana", "workloads"])
def test_a_module_of_the_program_s_own_may_be_called_as_ours(environment, tmp_path, name):
    (tmp_path / f"{name}.py").write_text("MINE = 1")
    (tmp_path / "train.py").write_text(
        f"import {name}, lockstep\n"
        "recorder = lockstep.recorder()\n"
        "for item in recorder.steps([1, 2]): print(item)\n"
        f"import {name}; print({name}.MINE)\n"
    )
    told = subprocess.run(
        [sys.executable, "train.py"], env=os.environ | environment, cwd=tmp_path,
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert ("1\n2\n1\n", "") == (told.stdout, told.stderr)
    assert 2 == len(read(tmp_path))


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("path", ["{}.py", "{}/__init__.py"])
@pytest.mark.parametrize("name", ["collector", "workloads", "analyzer", "dashboard"])
def test_a_module_that_the_program_does_not_import_is_not_executed(
    environment, tmp_path, name, path, recorded
):
    theirs = tmp_path / path.format(name)
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("import sys; print('executed'); sys.exit(2)")
    (tmp_path / "train.py").write_text(
        "import lockstep, sys\n"
        "recorder = lockstep.recorder()\n"
        "for item in recorder.steps([1, 2]): print(item)\n"
        f"try: import {name}\n"
        "except SystemExit: print('mine')\n"
    )
    told = subprocess.run(
        [sys.executable, "train.py"], env=os.environ | (environment if recorded else {}),
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert ("1\n2\nexecuted\nmine\n", "") == (told.stdout, told.stderr)


@pytest.mark.parametrize("imported", [True, False])
@pytest.mark.parametrize("name", ["collector", "workloads", "analyzer"])
def test_a_client_beside_a_module_called_as_ours_is_ours_and_executes_none(
    tmp_path, name, imported
):
    (tmp_path / f"{name}.py").write_text("print('executed'); MINE = 1")
    (tmp_path / "ask.py").write_text(
        f"import lockstep\n{f'import {name}' if imported else ''}\n"
        "client = lockstep.Client('http://127.0.0.1:9', token='t')\n"
        "assert lockstep.Client is type(client)\n"
        "try: client.runs()\n"
        "except lockstep.ApiError as error: print(error.error)\n"
        "except Exception as error: print(type(error).__name__)\n"
        f"import {name}; print({name}.MINE)\n"
    )
    told = subprocess.run(
        [sys.executable, "ask.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )  # fmt: skip

    lines = told.stdout.splitlines()
    assert ["executed", "1"] == [lines[0 if imported else 1], lines[2]]
    assert "" == told.stderr


def test_a_module_of_the_program_s_own_that_exits_when_we_import_it_ends_nothing(
    environment, tmp_path
):
    """Called as one of Python's that our packages need, so that no name tells it from theirs."""
    (tmp_path / "mmap.py").write_text("raise SystemExit(2)")
    (tmp_path / "train.py").write_text(
        "import lockstep\nfor item in lockstep.recorder().steps([1, 2]): print(item)\n"
    )
    told = subprocess.run(
        [sys.executable, "train.py"], env=os.environ | environment, cwd=tmp_path,
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert "1\n2\n" == told.stdout


@pytest.mark.slow
def test_a_restart_by_torchrun_is_recorded_on_all_ranks(environment, tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, lockstep\n"
        "recorder = lockstep.recorder()\n"
        "for item in recorder.steps(range(3)): pass\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0': os._exit(7)\n"
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2",
              "--max-restarts=1", "--monitor-interval=0.1", "--master-port", str(free_port()),
              "train.py"]  # fmt: skip
    told = subprocess.run(
        launch, env=os.environ | environment, cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    ranks, _ = scan(tmp_path / "rings", Path("/proc"), SystemClock())

    assert "not recorded" not in told.stderr
    assert [(0, 1, 3), (1, 1, 3)] == sorted(
        (rank.header.identity.rank, rank.header.identity.attempt, rank.header.live.steps)
        for rank in ranks
    )


class PreemptedError(Exception):
    """Raised by the program's own signal handler."""


def at_the_end(recorder, monkeypatch, signalled):
    monkeypatch.setattr(recorder.recorder, "end_step", signalled)
    recorder.step_ended()


def in_a_number(recorder, monkeypatch, signalled):
    recorder.step_ended(loss=type("Loss", (), {"__float__": signalled})())


def in_a_value_that_is_shown(recorder, monkeypatch, signalled):
    recorder.phase(type("Name", (), {"__repr__": signalled})())


def in_a_line_that_is_written(recorder, monkeypatch, signalled):
    monkeypatch.setattr(sys, "stderr", type("Stream", (), {"write": signalled})())
    recorder.phase("none")


ANYWHERE = [at_the_end, in_a_number, in_a_value_that_is_shown, in_a_line_that_is_written]


def in_a_hook(recorder, monkeypatch, signalled):
    guard.Guard().around(lambda: None, signalled)()


@pytest.mark.parametrize("run", [*ANYWHERE, in_a_hook])
def test_what_a_signal_handler_raises_within_our_code_reaches_the_program(
    recorder, monkeypatch, run
):
    def handler(number, frame):
        raise PreemptedError

    def signalled(*_, **named):
        signal.raise_signal(signal.SIGUSR2)

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with pytest.raises(PreemptedError):
            run(recorder, monkeypatch, signalled)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert recorder.active


def resets_itself(number, frame):
    signal.signal(number, signal.SIG_DFL)
    raise PreemptedError


def resets_all_arguments(*arguments):
    resets_itself(*arguments)


class Preemption:
    def resets_a_method(self, number, frame):
        signal.signal(number, signal.SIG_DFL)
        raise PreemptedError

    def __call__(self, number, frame=None):
        self.resets_a_method(number, None)


@pytest.mark.parametrize(
    "handler",
    [
        resets_itself, resets_all_arguments, Preemption().resets_a_method, Preemption(),
        functools.partial(Preemption.resets_a_method, Preemption()),
        lambda number, _: resets_itself(number, None),
    ],
    ids=["function", "arguments", "method", "object", "partial", "lambda"],
)  # fmt: skip
@pytest.mark.parametrize("run", [*ANYWHERE, in_a_hook])
def test_what_a_handler_raises_that_uninstalled_itself_reaches_the_program(
    recorder, monkeypatch, run, handler
):
    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with pytest.raises(PreemptedError):
            run(recorder, monkeypatch, lambda *_, **named: signal.raise_signal(signal.SIGUSR2))
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert recorder.active
