"""Stacks of a process: what py-spy and faulthandler write, and who is not asked."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.clock import SystemClock
from lockstep.collector.config import Config, ConfigError, load
from lockstep.collector.contract import stacks
from lockstep.collector.contract.stacks import Depth, Frame, Reader, Stacks, Thread
from lockstep.collector.on_demand import on_signal, process, py_spy
from lockstep.collector.on_demand.stacks import Asked, read_stacks, take_stacks
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.ranks.rings import Rings

FIXTURES = Path(__file__).parents[2] / "fixtures" / "stacks"
PROC = Path("/proc")
CLOCK = SystemClock()


def asked(pid: int | None, file: Path = Path("/nowhere")) -> list[Asked]:
    return [Asked(3, "node-1", pid, file, os.geteuid())]


def uid(*users: int) -> str:
    """The line of proc_pid_status(5): real, effective, saved and file system's user."""
    real, effective, saved = users or [os.geteuid()] * 3
    return f"Uid:\t{real}\t{effective}\t{saved}\t{effective}\n"


def told(
    pid: int | None, depth: Depth = Depth.PYTHON, seconds: float = 30.0, file: Path | None = None
) -> Stacks:
    return read_stacks(asked(pid, file or Path("/nowhere")), depth, PROC, CLOCK, seconds)[0]


@pytest.fixture
def spy(tmp_path, monkeypatch):
    """A program in py-spy's place: what it is told to do, and a file of how it was called."""

    def make(script: str) -> Path:
        path = tmp_path / "py-spy"
        path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(py_spy, "program", lambda: str(path))
        return tmp_path / "calls"

    return make


@pytest.fixture
def sleeper():
    """A process that is no Python, and catches no signal."""
    child = subprocess.Popen(["sleep", "1000"])
    yield child
    child.kill()
    child.wait()


# What is written


def test_py_spys_threads_begin_with_the_outermost_call():
    heart, main = py_spy.parsed((FIXTURES / "py_spy_0.4.3_python.json").read_bytes(), 4711)

    assert ("heartbeat", False) == (heart.name, heart.main)
    assert (4711, True, False) == (main.pid, main.main, main.holds_gil)
    assert [
        ("<module>", 13), ("main", 12), ("Samples.__getitem__", 8), ("read_record", 5)
    ] == [(one.function, one.line) for one in main.frames]  # fmt: skip
    assert {"/home/me/job/train.py"} == {one.file for one in main.frames}


def test_native_frames_are_told_apart_and_addresses_are_no_names():
    main = py_spy.parsed((FIXTURES / "py_spy_0.4.3_native.json").read_bytes(), 4711)[1]

    assert ["??", "read"] == [one.function for one in main.frames if one.native]
    assert "read" == main.frames[-1].function
    assert ("read_record", 5) == (main.frames[-2].function, main.frames[-2].line)


def test_in_a_container_threads_have_its_numbers():
    text = (FIXTURES / "py_spy_0.4.3_python.json").read_bytes()
    heart, main = py_spy.parsed(text, 99, inside=4711)

    assert (99, True, False) == (main.pid, main.main, heart.main)


def test_faulthandlers_last_thread_is_the_main_one():
    heart, main = on_signal.parsed((FIXTURES / "faulthandler_3.11.txt").read_text(), 4711)

    assert (False, True, None) == (heart.main, main.main, main.holds_gil)
    assert [
        ("<module>", 13), ("main", 12), ("__getitem__", 8), ("read_record", 5)
    ] == [(one.function, one.line) for one in main.frames]  # fmt: skip


def test_names_of_threads_lines_unknown_and_cut_stacks_are_read():
    text = (
        'Thread 0x00007f [loader] (most recent call first):\n  File "a.py", line ??? in f\n  ...\n'
        "Current thread 0x00007e [MainThread] (most recent call first):\n  <no Python frame>\n"
    )
    loader, main = on_signal.parsed(text, 7)

    assert ("loader", 0, "f") == (loader.name, loader.frames[0].line, loader.frames[0].function)
    assert () == main.frames


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[1]", b"[]", b'[{"frames": 1}]', b"[" * 5000, b"\xff"]
)
def test_what_py_spy_does_not_write_is_refused(text):
    with pytest.raises(SourceError, match="py-spy's answer is not understood"):
        py_spy.parsed(text, 7)


@given(st.text(max_size=400))
def test_no_text_of_faulthandler_ends_the_reader(text):
    try:
        found = on_signal.parsed(text, 7)
    except SourceError:
        return
    assert found[-1].main


def test_names_steer_no_terminal_and_have_an_end():
    one = stacks.frame("f\x1b[2J\n" + "g" * 5000, "/" + "a" * 5000 + "/data.py", 10**12)

    assert "\x1b" not in one.function
    assert "\n" not in one.function
    assert stacks.MAX_FUNCTION == len(one.function)
    assert one.file.endswith("/data.py")
    assert (stacks.MAX_FILE, 0) == (len(one.file), one.line)


def test_of_a_thousand_threads_the_main_one_is_kept():
    other = "Thread 0x1 (most recent call first):\n  <no Python frame>\n"
    main = 'Current thread 0x2 (most recent call first):\n  File "a.py", line 3 in f\n'
    found = on_signal.parsed(other * 1000 + main, 7)

    assert stacks.MAX_THREADS == len(found)
    assert [("f", 3)] == [(one.function, one.line) for one in found[-1].frames]


def test_recursion_keeps_the_innermost_calls():
    calls = "".join(f'  File "a.py", line {n} in f\n' for n in range(1, 1001))
    [main] = on_signal.parsed(f"Current thread 0x1 (most recent call first):\n{calls}", 7)

    assert stacks.MAX_FRAMES == len(main.frames)
    assert 1 == main.frames[-1].line


# stacks.json


FRAMES = st.builds(
    stacks.frame, st.text(max_size=300), st.text(max_size=500), st.integers(), native=st.booleans()
)
THREADS = st.builds(
    Thread, st.integers(1, 9), st.text("abc 1", max_size=9),
    st.booleans(), st.none() | st.booleans(), st.lists(FRAMES, max_size=4).map(tuple),
)  # fmt: skip
STACKS = st.builds(
    Stacks, st.integers(0, 9), st.just("node-0"), st.none() | st.integers(1, 9),
    st.sampled_from(["", "S", "T"]), st.floats(0, 2e9), st.none() | st.sampled_from(Reader),
    st.booleans(), st.just("why"), st.lists(THREADS, max_size=3).map(tuple),
)  # fmt: skip


@given(st.lists(STACKS, max_size=3))
def test_a_file_is_read_as_it_was_written(every):
    assert every == stacks.from_tree(json.loads(stacks.as_text(every)))


@pytest.mark.parametrize(
    "tree",
    [
        [], {}, {"ranks": 3}, {"ranks": [3]}, {"ranks": [{}]}, {"ranks": [{"rank": "x"}]},
        {"ranks": [{"rank": 1}]},
        {"ranks": [{"rank": 1, "reader": "gdb"}]}, {"ranks": [{"rank": 1, "threads": [1]}]},
        {"ranks": [{"rank": float("inf")}]},
    ],
)  # fmt: skip
def test_a_file_that_does_not_hold_together_is_a_value_error(tree):
    with pytest.raises(ValueError, match=r"ranks|rank|gdb|invalid"):
        stacks.from_tree(tree)


# Who is not asked, and why


def test_a_rank_that_is_gone_a_zombie_and_a_foreign_table_are_told(sleeper, tmp_path):
    gone = subprocess.Popen(["true"])
    until = time.monotonic() + 60
    while process.status(PROC, gone.pid).state != "Z" and time.monotonic() < until:
        time.sleep(0.01)
    zombie = told(gone.pid)
    gone.wait()

    assert "its process has ended (state Z)" == zombie.why
    assert "its process has ended" == told(gone.pid).why
    assert "not ours" in told(None).why
    (tmp_path / str(sleeper.pid)).mkdir()
    text = f"State:\tS (sleeping)\n{uid()}SigCgt:\t0\n"
    (tmp_path / str(sleeper.pid) / "status").write_text(text)
    one = read_stacks(asked(sleeper.pid), Depth.PYTHON, tmp_path, CLOCK, 5)[0]
    assert f"py-spy knows the processes of /proc, not those of {tmp_path}" in one.why


@pytest.mark.parametrize(
    ("line", "user", "whose"),
    [
        (uid(1000, 1000, 1000), 1001, "user 1000, and the ring of user 1001"),
        (uid(0, 0, 0), 1001, "user 0, and the ring of user 1001"),
        (uid(1000, 1000, 1000), 0, "user 1000, and the ring of user 0"),
        (uid(1001, 0, 0), 1001, "user 0 and 1001, and the ring of user 1001"),  # a setuid program
        (uid(1001, 1001, 0), 1001, "user 0 and 1001, and the ring of user 1001"),
        ("", 1001, "user unknown, and the ring of user 1001"),
        (uid(1000, 1000, 1000), None, "user 1000, and the ring of user None"),
    ],
)
def test_a_ring_that_tells_the_process_of_another_user_gives_nothing(
    tmp_path, spy, line, user, whose
):
    calls = spy("exit 1")
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "status").write_text(f"State:\tS (sleeping)\n{line}SigCgt:\t0\n")
    one = Asked(3, "node-1", 7, Path("/nowhere"), user)
    [told] = read_stacks([one], Depth.NATIVE, tmp_path, CLOCK, 5)

    assert (None, None, ()) == (told.pid, told.reader, told.threads)
    assert f"the process that its ring names is of {whose}" in told.why
    assert "\n" not in told.why
    assert not calls.exists()


@pytest.mark.parametrize("other", [0, 1])
def test_whose_the_ring_is_is_the_word_of_the_kernel(machine, clock, image, other):
    """The ring's file is ours; that the process is, too, or not, is told by the process table."""
    machine.process(100)
    owner = os.geteuid() + other
    machine.file(machine.proc / "100" / "status", f"State:\tS (s)\n{uid(owner, owner, owner)}")
    machine.ring(image())
    [rank] = Rings(machine.rings, machine.proc, clock).scan().ranks
    [told] = take_stacks([rank], [0], Depth.PYTHON, machine.proc, clock, 5)

    assert os.geteuid() == rank.user
    assert ("py-spy knows the processes of /proc" in told.why) is not bool(other)
    assert (f"of user {owner}, and the ring of user {rank.user}" in told.why) is bool(other)


def test_a_program_that_is_no_python_says_so_and_what_would_be_right(sleeper):
    one = told(sleeper.pid)

    assert (None, ()) == (one.reader, one.threads)
    assert "py-spy finds no Python in it" in one.why
    assert "start it with LOCKSTEP_STACK_SIGNAL=USR2" in one.why
    assert sleeper.poll() is None


def test_refused_ptrace_says_what_lacks(sleeper, spy):
    calls = spy('echo "Permission Denied: Try running again" >&2; exit 1')
    one = told(sleeper.pid)

    assert "ptrace is refused" in one.why
    assert "CAP_SYS_PTRACE" in one.why  # that it lacks, or that it is there and does not help
    assert 1 == len(calls.read_text().splitlines())  # asking again changes nothing


@pytest.mark.parametrize(
    ("capabilities", "scope", "words"),
    [
        ("0000000000000000", "1", "CAP_SYS_PTRACE is missing and kernel.yama.ptrace_scope is 1"),
        (
            "0000000000000000",
            None,
            "CAP_SYS_PTRACE is missing; run as root, or give",
        ),
        (
            "0000000000080000",
            "3",
            "we have CAP_SYS_PTRACE and kernel.yama.ptrace_scope is 3",
        ),
    ],
)
def test_who_is_refused_learns_what_would_be_right(tmp_path, capabilities, scope, words):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "status").write_text(f"CapEff:\t{capabilities}\n")
    if scope is not None:
        (tmp_path / "sys/kernel/yama").mkdir(parents=True)
        (tmp_path / "sys/kernel/yama/ptrace_scope").write_text(f"{scope}\n")

    assert words in process.why_refused(tmp_path)


def test_without_py_spy_it_says_how_to_get_it(sleeper, monkeypatch):
    monkeypatch.setattr(py_spy, "program", lambda: None)

    assert (
        "py-spy is not installed: pip install 'lockstep-monitor[stacks]'" in told(sleeper.pid).why
    )


def test_python_stacks_are_read_without_a_stop_and_native_ones_only_if_asked(sleeper, spy):
    calls = spy(f"cat {FIXTURES}/py_spy_0.4.3_python.json")
    python, native = told(sleeper.pid), told(sleeper.pid, Depth.NATIVE)
    first, second = calls.read_text().splitlines()

    assert "--nonblocking" in first
    assert "--native" not in first
    assert "--native" in second
    assert {True} == {"--locals" not in each for each in (first, second)}
    assert (False, True) == (python.native, native.native)


def test_a_reading_that_does_not_hold_together_is_made_again(sleeper, spy, tmp_path):
    good = FIXTURES / "py_spy_0.4.3_python.json"
    spy(
        f'[ "$(wc -l < {tmp_path}/calls)" -gt 2 ] && exec cat {good}\n'
        'echo "Error: torn" >&2; exit 1'
    )

    assert Reader.PY_SPY is told(sleeper.pid).reader


def test_where_native_frames_cannot_be_read_python_ones_are(sleeper, spy):
    spy(f'case "$*" in *--native*) echo "Error: no symbols" >&2; exit 1;; esac\n'
        f"cat {FIXTURES}/py_spy_0.4.3_python.json")  # fmt: skip
    one = told(sleeper.pid, Depth.NATIVE)

    assert (Reader.PY_SPY, False) == (one.reader, one.native)
    assert "no native frames: py-spy: Error: no symbols" == one.why


def test_a_reader_that_hangs_is_ended_and_each_rank_has_its_share(sleeper, spy):
    spy("exec sleep 1000")
    two = [Asked(rank, "n", sleeper.pid, Path("/x"), os.geteuid()) for rank in range(2)]
    first, second = read_stacks(two, Depth.PYTHON, PROC, CLOCK, 0.5)

    assert "did not end in time" in first.why
    assert "did not end in time" in second.why
    assert not any(
        b"sleep\x001000" in Path(f"/proc/{pid}/cmdline").read_bytes()
        for pid in process.children(PROC, os.getpid())
        if pid != sleeper.pid
    )


def test_where_native_frames_take_too_long_half_the_time_is_left_for_pythons(sleeper, spy):
    spy(f'case "$*" in *--native*) exec sleep 1000;; esac\n'
        f"cat {FIXTURES}/py_spy_0.4.3_python.json")  # fmt: skip
    one = told(sleeper.pid, Depth.NATIVE, seconds=4)

    assert (Reader.PY_SPY, False) == (one.reader, one.native)
    assert "no native frames: py-spy: it did not end in time" == one.why


def test_one_rank_that_is_slow_leaves_the_others_their_time(sleeper, spy):
    slow = subprocess.Popen(["sleep", "1000"])
    try:
        spy(f'[ "$(echo "$@" | grep -c "pid {slow.pid}")" = 1 ] && exec sleep 1000\n'
            f"exec cat {FIXTURES}/py_spy_0.4.3_python.json")  # fmt: skip
        every = [asked(pid)[0] for pid in (slow.pid, sleeper.pid)]
        first, second = read_stacks(every, Depth.PYTHON, PROC, CLOCK, 4)
    finally:
        slow.kill()
        slow.wait()

    assert (None, Reader.PY_SPY) == (first.reader, second.reader)


def test_no_signal_is_sent_when_no_time_is_left(offering, tmp_path):
    child, file = offering("ours"), tmp_path / "stacks-run-3"
    with pytest.raises(SourceError, match="no time was left to ask its faulthandler"):
        on_signal.by_signal(
            PROC, child.pid, process.status(PROC, child.pid), file, CLOCK, CLOCK.monotonic()
        )

    assert 0 == file.stat().st_size


def test_a_reader_that_writes_without_end_is_ended(sleeper, spy, monkeypatch):
    monkeypatch.setattr(py_spy, "MAX_OUTPUT", 1000)
    spy("exec yes")

    assert told(sleeper.pid, seconds=0.5).reader is None


# The signal


def test_no_signal_is_sent_to_who_has_no_handler_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(py_spy, "program", lambda: None)
    file = tmp_path / "stacks-run-3"
    file.touch()
    child = subprocess.Popen(["sleep", "1000"], env={"LOCKSTEP_STACK_SIGNAL": "USR2"})
    until = time.monotonic() + 60  # a program that has just begun has no environment yet
    while not Path(f"/proc/{child.pid}/environ").read_bytes() and time.monotonic() < until:
        time.sleep(0.01)
    try:
        one = told(child.pid, file=file)
        assert "it has no handler of SIGUSR2, which would end it" in one.why
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


OFFERING = """
import signal, sys, time
from pathlib import Path
from lockstep.workloads.measure.heartbeat import stacks_on_signal
folder = Path(sys.argv[1])
offer = stacks_on_signal(folder, "run", 3)
if sys.argv[2] == "blocked":
    import threading
    def library():
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        blocked.set()
        time.sleep(100000)
    blocked = threading.Event()
    threading.Thread(target=library, daemon=True).start()
    blocked.wait()
if sys.argv[2] == "taken":
    signal.signal(signal.SIGUSR2, lambda *_: (folder / "theirs").touch())
    offer()
def load_sample():
    (folder / "ready").touch()
    while True:
        time.sleep(0.01)
        (folder / "beat").touch()
load_sample()
"""


@pytest.fixture
def offering(tmp_path, monkeypatch):
    """A program that offers its stacks on USR2; nobody has py-spy."""
    monkeypatch.setattr(py_spy, "program", lambda: None)
    children = []

    def start(how: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-c", OFFERING, str(tmp_path), how],
            env={**os.environ, "LOCKSTEP_STACK_SIGNAL": "USR2"},
        )
        children.append(child)
        until = time.monotonic() + 120
        while not (tmp_path / "ready").exists() and time.monotonic() < until:
            time.sleep(0.01)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()


def test_a_program_that_offers_them_answers_again_and_again_and_goes_on(offering, tmp_path):
    child = offering("ours")
    file = tmp_path / "stacks-run-3"
    for _ in range(3):
        one = told(child.pid, file=file)
        assert Reader.FAULTHANDLER is one.reader
        assert "load_sample" in {frame.function for frame in one.main.frames}
        (tmp_path / "beat").unlink(missing_ok=True)
        until = time.monotonic() + 60
        while not (tmp_path / "beat").exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert (tmp_path / "beat").exists()
        assert child.poll() is None


def test_a_thread_that_blocks_every_signal_is_no_handler_that_runs(offering, tmp_path):
    child = offering("blocked")
    one = told(child.pid, file=tmp_path / "stacks-run-3")

    assert 1 == len(process.blocking(PROC, child.pid, signal.SIGUSR2))
    assert Reader.FAULTHANDLER is one.reader, one.why
    deepest = {each.frames[-1].function for each in one.threads if each is not one.main}
    assert "library" in deepest
    assert "load_sample" in {frame.function for frame in one.main.frames}


@pytest.mark.parametrize(
    ("waiting", "main", "library", "runs"),
    [
        ("0", "0", "800", False),  # blocked before, as bit 11 = signal 12 says
        ("0", "800", "800", True),  # the main thread blocks it since
        ("800", "0", "800", True),
        ("0", "0", "0", False),
    ],
)
def test_a_handler_runs_where_a_thread_blocks_the_signal_since(
    machine, waiting, main, library, runs
):
    tasks = machine.proc / "7" / "task"
    state = f"State:\tS (s)\nShdPnd:\t{waiting}\n"
    machine.file(machine.proc / "7" / "status", state)
    for thread, mask in ((7, main), (8, library)):
        machine.file(tasks / str(thread) / "status", f"{state}SigBlk:\t{mask}\n")

    assert runs is process.handling(machine.proc, 7, signal.SIGUSR2, frozenset([8]))


def test_a_stopped_program_is_sent_nothing(offering, tmp_path):
    child = offering("ours")
    child.send_signal(signal.SIGSTOP)
    until = time.monotonic() + 60
    while process.status(PROC, child.pid).state != "T" and time.monotonic() < until:
        time.sleep(0.01)
    one = told(child.pid, file=tmp_path / "stacks-run-3")

    assert "it is stopped (state T), and answers no signal" in one.why
    assert 0 == process.status(PROC, child.pid).waiting


def test_a_signal_that_the_program_has_taken_since_is_not_sent(offering, tmp_path):
    child = offering("taken")
    one = told(child.pid, file=tmp_path / "stacks-run-3")

    assert "its recorder does not hold stacks-run-3" in one.why
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize("name", ["KILL", "9", "TERM", "usr2", "USR3", "SIGSTOP", " "])
def test_only_the_programs_own_signals_carry_the_question(name):
    assert stacks.signal_of(name) is None


def test_both_spellings_of_a_signal_are_one():
    assert signal.SIGUSR2 == stacks.signal_of("USR2") == stacks.signal_of("SIGUSR2")


# The switch


def test_stacks_are_off_until_somebody_turns_them_on(tmp_path):
    file = tmp_path / "collector.toml"
    file.write_text('[collector]\nstacks = "python"\n')

    assert Depth.OFF is Config().stacks
    assert Depth.PYTHON is load(file, {}, {}).stacks
    assert Depth.NATIVE is load(file, {"LOCKSTEP_COLLECTOR_STACKS": "native"}, {}).stacks
    with pytest.raises(ConfigError, match="must be one of off, python, native"):
        load(None, {}, {"stacks": "all"})


def test_a_frame_holds_no_values():
    assert {"function", "file", "line", "native"} == set(Frame.__slots__)
