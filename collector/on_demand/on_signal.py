"""Stacks by Python's own faulthandler, of a rank whose recorder offers them on a signal.

A program that has no handler of a signal ends by it. So it is sent to nobody but who says in the
environment which signal that is (LOCKSTEP_STACK_SIGNAL), whose recorder holds the file for the
answer (and takes it away once somebody else handles that signal), and who, by the kernel's word,
catches it. The process is pinned by a descriptor (pidfd_open(2)): a pid that was given to another
program meanwhile is not hit.
"""

import os
import re
import signal
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.contract.stacks import (
    MAX_FRAMES,
    SIGNAL_VARIABLE,
    Frame,
    Thread,
    frame,
    most,
    signal_of,
)
from lockstep.collector.files.opening import environment, opened_of
from lockstep.collector.on_demand.process import STOPPED, Status, blocking, handling, has, status
from lockstep.collector.readings.source import SourceError

POLL_SECONDS = 0.02
MAX_ANSWER = 4 << 20
NAME = "faulthandler"

_THREAD = re.compile(
    r"(?:Current t|T)hread (0x[0-9a-f]+)(?: \[(.{0,64}?)\])?[^\n]* \(most recent call first\):"
)
_CALL = re.compile(r'  File "(.*)", line (\d{1,9}|\?\?\?) in (.*)')


def by_signal(
    proc: Path, pid: int, known: Status, file: Path, clock: Clock, until: float
) -> tuple[Thread, ...]:
    """The threads of a process, as its own faulthandler writes them.

    Raises:
        SourceError: It does not offer that, may not be signalled, or did not answer in time.
    """
    if known.state in STOPPED:
        raise SourceError("stopped", f"it is stopped (state {known.state}), and answers no signal")
    user = min(known.users, default=None)  # there is one: who has several is not touched
    try:
        process = os.pidfd_open(pid)
    except OSError as error:
        raise SourceError("missing", "its process has ended") from error
    try:
        number, begin = _offered(proc, pid, file, user)
        if not has(status(proc, pid).caught, number):
            name = signal.Signals(number).name
            raise SourceError("no_handler", f"it has no handler of {name}, which would end it")
        if clock.monotonic() >= until:
            raise SourceError("timeout", "no time was left to ask its faulthandler")
        always = blocking(proc, pid, number)
        signal.pidfd_send_signal(process, number)
    except PermissionError as error:
        text = "it may not be signalled: it is of another user, and CAP_KILL is missing"
        raise SourceError("permission", text) from error
    except OSError as error:
        raise SourceError("missing", "its process has ended") from error
    finally:
        os.close(process)
    while _size(file, user) == begin or handling(proc, pid, number, always):
        if clock.monotonic() >= until:
            raise SourceError("timeout", "its faulthandler did not answer in time")
        clock.sleep(POLL_SECONDS)
    return parsed(_read(file, user, begin), pid)


def _offered(proc: Path, pid: int, file: Path, user: int | None) -> tuple[int, int]:
    """The signal on which it writes its stacks, and how many bytes the file holds before."""
    name = environment(proc, pid).get(SIGNAL_VARIABLE, "")
    number = signal_of(name)
    if number is None:
        text = f"it offers none itself: start it with {SIGNAL_VARIABLE}=USR2, an unused signal"
        raise SourceError("not_offered", text)
    try:
        return number, _size(file, user)
    except SourceError as error:
        text = f"its recorder does not hold {file.name}: it, or the program, handles the signal"
        raise SourceError("not_offered", text) from error


def parsed(text: str, pid: int) -> tuple[Thread, ...]:
    """The threads in what faulthandler.dump_traceback writes (CPython, Python/traceback.c).

    The main thread is the last: the interpreter lists the newest first.

    Raises:
        SourceError: There is no thread in it.
    """
    threads: list[tuple[str, list[Frame]]] = []
    for line in text.splitlines():
        if (head := _THREAD.match(line)) is not None:
            threads.append((head[2] or "", []))
        elif threads and (call := _CALL.fullmatch(line)) is not None:
            number = int(call[2]) if call[2].isdigit() else 0
            threads[-1][1].append(frame(call[3], call[1], number))
    if not threads:
        raise SourceError("content", "what its faulthandler wrote is not understood")
    last = len(threads) - 1
    return most(
        [
            Thread(pid, name, index == last, None, tuple(reversed(frames[:MAX_FRAMES])))
            for index, (name, frames) in enumerate(threads)
        ]
    )


def _size(file: Path, user: int | None) -> int:
    with opened_of(file, user) as descriptor:
        return os.fstat(descriptor).st_size


def _read(file: Path, user: int | None, begin: int) -> str:
    with opened_of(file, user) as descriptor:
        return os.pread(descriptor, MAX_ANSWER, begin).decode("utf-8", "replace")
