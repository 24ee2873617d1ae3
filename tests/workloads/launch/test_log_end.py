"""How a log ends: the exception that ended a program, by what Python, torch and C++ write."""

import signal
import subprocess
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from lockstep.workloads.launch.launcher import Exit, Raised
from lockstep.workloads.launch.log_end import as_exception, exception, last_words, of_a_lost_peer
from lockstep.workloads.launch.rank_process import RankProcess
from lockstep.workloads.launch.ring_state import RingState
from lockstep.workloads.launch.watching import _first_to_fail, exceptions

PEER = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:29572"

NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: x.cpp:9, remote process exited or there was"
    " a network error, NCCL version 2.21.5"
)
LOSES_PEER = f"raise RuntimeError({PEER.partition(': ')[2]!r})"


def written(folder: Path, text: str) -> Path:
    log = folder / "rank-0.log"
    log.write_text(text)
    return log


def of_program(folder: Path, program: str) -> Path:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return written(folder, done.stderr)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (r"raise ValueError('label 9 is bad\nof 8')", "ValueError: label 9 is bad"),
        ("[bytearray(1 << 60)]", "MemoryError"),
        ("class Bad(Exception): pass\nraise Bad('x: y')", "Bad: x: y"),
        ("import json; json.loads('{')", "json.decoder.JSONDecodeError: Expecting property name"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("if 1 print", "SyntaxError: invalid syntax"),
        ("try: 1/0\nexcept Exception as e: raise KeyError('lr') from e", "KeyError: 'lr'"),
        (f"try: 1/0\nfinally: {LOSES_PEER}", "ZeroDivisionError: division"),
        (f"try: {LOSES_PEER}\nexcept Exception: raise OSError('lost')", PEER),
        ("import sys; sys.exit(3)", ""),
        ("import sys; sys.exit('no such dataset')", ""),
    ],
)  # fmt: skip
def test_the_exception_that_ended_a_program_is_read_from_its_log(tmp_path, program, told):
    found = exception(of_program(tmp_path, program))

    assert found.startswith(told)
    assert "\n" not in found
    assert bool(told) == bool(found)


def test_torch_s_prefix_and_lines_of_other_processes_between_are_no_obstacle(tmp_path):
    log = written(tmp_path, (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "train.py", line 9, in <module>\n'
        "worker 3 is done\n"
        "[rank1]:     loss.backward()\n"
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
        "[W1129 ProcessGroupNCCL.cpp:1538] Warning: destroy_process_group() was not called\n"
    ))  # fmt: skip

    assert exception(log) == "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"


def test_an_exception_of_cpp_is_told_with_what_it_says(tmp_path):
    text = (
        "step 3\nterminate called after throwing an instance of 'std::bad_alloc'\n  what():  full\n"
    )

    assert exception(written(tmp_path, text)) == "std::bad_alloc: full"


def test_an_exception_after_which_the_program_went_on_ended_nothing(tmp_path):
    raised = 'Traceback (most recent call last):\n  File "a.py", line 1\nOSError: try again\n'
    steps = "".join(f"step {step}\n" for step in range(60))
    log = written(tmp_path, raised + steps)

    assert exception(log) == ""
    assert last_words(log) == "step 59"


@pytest.mark.parametrize("text", ["", "\xff\xfe" * 9, "Traceback (most recent call last):", "a: b"])
def test_a_log_without_an_exception_tells_none(tmp_path, text):
    assert exception(written(tmp_path, text)) == ""
    assert as_exception(text) == ""


@pytest.mark.parametrize(
    ("error", "follows"),
    [
        (PEER, True),
        (NCCL, True),
        ("RuntimeError: Timed out waiting 1800000ms for recv operation to complete", True),
        ("torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1.", True),
        ("torch.distributed.DistNetworkError: The client socket has timed out after 60s", True),
        ("RuntimeError: Connection reset by peer", True),
        ("RuntimeError: Broken pipe", True),
        ("c10::DistStoreError: wait timeout after 300000ms", True),
        ("horovod.common.exceptions.HorovodInternalError: failed", True),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", False),
        ("BrokenPipeError: [Errno 32] Broken pipe", False),
        ("ConnectionRefusedError: [Errno 111] Connection refused", False),
        ("botocore.exceptions.ConnectionClosedError: Connection was closed before", False),
        ("urllib3.exceptions.ProtocolError: ('Connection broken: reset', 9)", False),
        ("requests.exceptions.ReadTimeout: Read timed out after 60 s", False),
        ("ValueError: label 9 is out of range", False),
        ("torch.OutOfMemoryError: CUDA out of memory", False),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/x'", False),
    ],
)  # fmt: skip
def test_an_exception_of_a_lost_peer_is_told_from_one_of_its_own(error, follows):
    assert of_a_lost_peer(error) is follows


OWN = "ValueError: label 9"


@pytest.mark.parametrize(
    ("ends", "raised", "first"),
    [
        ([(1, 0.0), (0, 0.3), (2, 0.3)], {0: PEER, 1: OWN, 2: PEER}, (1,)),
        ([(0, 0.0), (2, 0.0), (1, 2.0)], {0: PEER, 1: OWN, 2: PEER}, (1,)),  # a long teardown
        ([(0, 0.0), (2, 0.0)], {0: PEER, 1: OWN, 2: PEER}, (1,)),  # it never ended
        ([(0, 0.0), (1, 0.1)], {0: PEER, 1: PEER}, (0, 1)),
        ([(0, 0.0), (1, 0.9), (2, 0.9)], {0: OWN, 1: OWN, 2: OWN}, (0, 1, 2)),  # the program's
        ([(0, 0.0), (1, 0.9)], {0: OWN, 1: OWN.replace("9", "12")}, (0, 1)),
        ([(1, 0.0), (0, 0.1)], {}, (1, 0)),
    ],
)
def test_who_raised_its_own_exception_goes_before_those_that_lost_a_peer(ends, raised, first):
    exits = [Exit(rank, 1, seconds) for rank, seconds in ends]

    told = [Raised(rank, error, error == PEER) for rank, error in raised.items()]

    assert first == _first_to_fail(exits, told)


HANDLED = 'Traceback (most recent call last):\n  File "a.py", line 1\nImportError: no apex\n'


@pytest.fixture
def rank(tmp_path, monkeypatch):
    """A rank whose ring says `steps[0]`; a second passes between two looks at it."""
    steps, clock = [0], count()
    monkeypatch.setattr("lockstep.workloads.launch.rank_process.monotonic", lambda: next(clock))
    monkeypatch.setattr(
        "lockstep.workloads.launch.rank_process.read_ring_state",
        lambda path: RingState(steps[0], 1.0, 0, waits=False, heartbeat_age=0.1),
    )
    return RankProcess(0, 1, tmp_path, tmp_path / "rank-0.log"), steps


@pytest.mark.parametrize("status", [None, 3 << 8, signal.SIGKILL])
def test_an_exception_after_which_a_rank_completed_a_step_is_not_how_it_ended(rank, status):
    one, steps = rank
    one.log.write_text(HANDLED)
    for steps[0] in (0, 0, 1):
        one.ring_state()
    one.status = status

    assert one.raised() == ""
    assert status is None or "ImportError" not in one.how()

    with one.log.open("a") as log:
        log.write(HANDLED.replace("ImportError: no apex", OWN))
    steps[0] = 2  # completed just before, and seen only now
    one.ring_state()

    assert one.raised() == ("" if status == signal.SIGKILL else OWN)


@pytest.mark.parametrize("status", [0, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_rank_that_a_signal_or_its_end_ended_raised_nothing(rank, status):
    one, _ = rank
    one.log.write_text(HANDLED)
    one.status = int(status)

    assert one.raised() == ""


@pytest.mark.parametrize("status", [None, 1 << 8, signal.SIGABRT])
def test_a_rank_that_raised_before_its_first_step_is_told_by_it(rank, status):
    one, _ = rank
    one.log.write_text(HANDLED)
    one.ring_state()
    one.status = status

    assert one.raised() == "ImportError: no apex"


RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"


@dataclass
class Wrote:
    rank: int
    text: str

    def raised(self) -> str:
        return self.text


@pytest.mark.parametrize(
    ("ends", "wrote", "first"),
    [
        ([(0, 1, 0.0), (2, 1, 0.1), (1, 1, 0.2)], [PEER, PEER, RESET], (2,)),  # of its data
        ([(2, 1, 0.0), (0, 1, 0.2)], [PEER, "", RESET], (2,)),
        ([(1, 1, 0.0), (2, 1, 0.2)], ["", OWN, RESET], (1,)),
        ([(1, -9, 0.0), (2, 1, 0.2)], ["", "", RESET], (1,)),
        ([(2, 1, 0.0), (1, 1, 3.0)], ["", OWN, RESET], (2,)),
        ([(0, 1, 0.0), (1, 1, 0.1)], [PEER, PEER, RESET], (2,)),  # it stands
    ],
)
def test_a_lost_connection_is_a_peer_s_where_another_rank_had_failed_before(ends, wrote, first):
    exits = [Exit(*one) for one in ends]
    raised = exceptions([Wrote(rank, text) for rank, text in enumerate(wrote)], exits)

    assert first == _first_to_fail(exits, raised)
