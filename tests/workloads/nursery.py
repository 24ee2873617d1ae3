"""A process without threads, from which the ranks of a test are forked.

A test worker has threads of many libraries (execnet, asyncio, torch, a browser's): what they hold
at a fork, a child waits for, or dies of (POSIX fork: only async-signal-safe functions).
This process imports, forks and waits, and does nothing else.
"""

import contextlib
import faulthandler
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import cloudpickle

PATIENCE = 300.0
"""Seconds after which a rank that does not answer shows where it stands, and ends."""

GRACE = 10.0
"""Seconds that the others have when a rank failed."""

_LENGTH = struct.Struct("<Q")


class Nursery:
    """The process as a test worker sees it; it starts with the first call."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ranks(self, world: int, work: Callable[[int], Any]) -> list[Any]:
        """What `work(rank)` answers in `world` processes, in rank order.

        `work` and what it closes over travel by cloudpickle: what was patched in the caller's
        modules is not patched there, its environment and working folder are the caller's.

        Raises:
            AssertionError: a rank raised (its traceback is on stderr), died or did not answer.
        """
        told = cloudpickle.dumps((world, work, dict(os.environ), os.getcwd()))
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        answered = False
        try:
            _send(self._process.stdin, told)
            endings = pickle.loads(_received(self._process.stdout))
            answered = True
        finally:
            if not answered:
                self.close()
        failed = {
            rank: _ending(status)
            for rank, (text, status) in enumerate(endings)
            if status or not text
        }
        assert not failed, f"ranks without an answer: {failed}"
        return [json.loads(text) for text, _ in endings]

    def close(self) -> None:
        """Ends the process and the ranks it has."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit status {os.WEXITSTATUS(status)}"


def _send(pipe: Any, data: bytes) -> None:
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def _received(pipe: Any) -> bytes:
    length = pipe.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        raise EOFError("the nursery ended")
    return bytes(pipe.read(_LENGTH.unpack(length)[0]))


def _fork(rank: int, work: Callable[[int], Any], answer: int) -> int:
    """The process of a rank, which writes its answer into the file."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.write(answer, json.dumps(work(rank)).encode())
            status = 0
        except BaseException:  # noqa: BLE001 - the test shows it
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def _all(world: int, work: Callable[[int], Any]) -> list[tuple[bytes, int]]:
    """Answer and exit status of each rank."""
    files = [os.memfd_create(f"rank {rank}") for rank in range(world)]
    running = {_fork(rank, work, file): rank for rank, file in enumerate(files)}
    endings, until = [0] * world, monotonic() + PATIENCE
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            endings[running.pop(pid)] = status
            # Who waits for a rank that failed never ends by itself.
            until = min(until, monotonic() + GRACE) if status else until
            continue
        if monotonic() > until:
            for each in running:
                os.kill(each, signal.SIGABRT)  # faulthandler shows where it stands
                os.kill(each, signal.SIGCONT)  # if it is stopped, that is not delivered
        sleep(0.005)
    texts = [os.pread(file, os.fstat(file).st_size, 0) for file in files]
    for file in files:
        os.close(file)
    return list(zip(texts, endings, strict=True))


def main() -> None:
    """Forks what it is asked for, until its stdin is closed."""
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what ranks print is for people
    faulthandler.enable()
    import torch  # noqa: F401 - once, for all tests

    while True:
        try:
            told = _received(asked)
        except EOFError:
            return
        environment: dict[str, str]
        # Its own process group sent this.
        world, work, environment, folder = pickle.loads(told)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        _send(answers, pickle.dumps(_all(world, work)))


if __name__ == "__main__":
    main()
