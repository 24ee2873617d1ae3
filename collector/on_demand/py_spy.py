"""Stacks by py-spy (https://github.com/benfred/py-spy): its program, its JSON, its refusals."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.stacks import MAX_FRAMES, Thread, frame, most
from lockstep.collector.contract.visible import visible_line
from lockstep.collector.on_demand.process import STOPPED, status, why_refused
from lockstep.collector.readings.source import SourceError

NAME = "py-spy"
MAX_OUTPUT = 8 << 20
"""Of a process; a frame is 300 bytes."""
NOT_INSTALLED = "py-spy is not installed: pip install 'lockstep-monitor[stacks]'"
TRIES = 3
"""A program that runs changes while it is read."""
END_SECONDS = 1.0
"""For a program that was killed to be gone; one inside the kernel stays as long as that."""
UNNAMED = "??"
"""As gdb has it, of a call in a library without names: the address differs in each process."""
_ADDRESS = re.compile("0x[0-9a-f]+")
_REFUSED = ("permission denied", "os error 1)", "os error 13)", "operation not permitted")
_NO_PYTHON = ("failed to find python version", "failed to find a python interpreter")


def program() -> str | None:
    """Where py-spy is: beside this Python, or on the PATH; None = nowhere."""
    beside = Path(sys.executable).with_name(NAME)
    return str(beside) if os.access(beside, os.X_OK) else shutil.which(NAME)


def by_py_spy(
    pid: int, *, native: bool, proc: Path, clock: Clock, until: float
) -> tuple[Thread, ...]:  # fmt: skip
    """The threads of one process; the process is not stopped unless native frames are asked for.

    Args:
        pid: In the process table of /proc.
        until: Monotonic seconds; py-spy is ended then.

    Raises:
        SourceError: There is no py-spy, ptrace is refused, it is no Python, or time is up.
    """
    path = program()
    if path is None:
        raise SourceError("missing", NOT_INSTALLED)
    mode = "--native" if native else "--nonblocking"  # py-spy knows no native frames without a stop
    command = [path, "dump", "--json", "--full-filenames", mode, "--pid", str(pid)]
    why = ""
    for _ in range(TRIES):
        code, output, errors = _ran(command, clock, until)
        if native and code is None:
            _let_go(pid, proc)
        if code == 0:
            return parsed(output, pid, status(proc, pid).inside)
        why = _why(errors, proc)
        if clock.monotonic() >= until or any(word in errors.lower() for word in _REFUSED):
            break
    raise SourceError("py_spy", why)


def _let_go(pid: int, proc: Path) -> None:
    """Let a process go on that nobody had stopped before py-spy, and that is stopped after it.

    The kernel does that when a tracer ends (ptrace(2)); a stop that it was about to make may be
    left, and nothing may be.
    """
    try:
        if status(proc, pid).state in STOPPED:
            os.kill(pid, signal.SIGCONT)
    except (SourceError, OSError):
        return


def parsed(output: bytes, pid: int, inside: int = 0) -> tuple[Thread, ...]:
    """The threads in what `py-spy dump --json` writes: frames there begin with the innermost.

    Args:
        inside: By which the process knows itself: threads of a container have its numbers.

    Raises:
        SourceError: It is nothing that py-spy writes.
    """
    try:
        tree = bounded_json.loads(output, limit=MAX_OUTPUT)
        if not isinstance(tree, list) or not tree:
            raise ValueError("it lists no threads")
        return most([_thread(thread, pid, inside or pid) for thread in tree])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceError("content", f"py-spy's answer is not understood: {error}"[:160]) from error


def _why(errors: str, proc: Path) -> str:
    words = errors.lower()
    if any(word in words for word in _REFUSED):
        return why_refused(proc)
    if any(word in words for word in _NO_PYTHON):
        return "py-spy finds no Python in it"
    lines = [line.strip() for line in errors.splitlines() if line.strip()] or ["no reason"]
    return f"py-spy: {visible_line(lines[-1])[:160]}"


def _thread(thread: Any, pid: int, inside: int) -> Thread:
    frames = [
        frame(
            UNNAMED if _ADDRESS.fullmatch(str(each["name"])) else each["name"],
            each["filename"],
            each["line"],
            native=_is_native(each),
        )
        for each in list(thread["frames"])[:MAX_FRAMES]
    ]
    number = thread["os_thread_id"]
    return Thread(
        pid=pid,
        name=visible_line(str(thread["thread_name"] or "")[:100]),
        main=number in (pid, inside)
        if number is not None
        else thread["thread_name"] == "MainThread",
        holds_gil=bool(thread["owns_gil"]),
        frames=tuple(reversed(frames)),
    )


def _is_native(frame: Any) -> bool:
    """Of a native frame py-spy tells the library; Cython's have a source, and that is Python's."""
    return frame["module"] is not None


def _ran(command: list[str], clock: Clock, until: float) -> tuple[int | None, bytes, str]:
    """Exit code, output and errors; ended when time is up, None then."""
    environment = {"RUST_BACKTRACE": "0", "RUST_LIB_BACKTRACE": "0"}  # and nothing of ours
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        raise SourceError("no_process", f"py-spy cannot be started: {error.strerror}") from error
    try:
        output, errors = _drained(child, clock, until)
        code = child.wait(max(0.0, until - clock.monotonic()))
    except (subprocess.TimeoutExpired, TimeoutError):
        return None, b"", "it did not end in time"
    finally:
        _end(child)
    return code, output, errors.decode("utf-8", "replace")


def _drained(child: "subprocess.Popen[bytes]", clock: Clock, until: float) -> tuple[bytes, bytes]:
    """What it writes, as far as MAX_OUTPUT.

    Raises:
        TimeoutError: It writes no end of it in time.
    """
    assert child.stdout is not None
    assert child.stderr is not None
    parts: dict[int, bytearray] = {
        child.stdout.fileno(): bytearray(),
        child.stderr.fileno(): bytearray(),
    }
    with DefaultSelector() as selector:
        for descriptor in parts:
            selector.register(descriptor, EVENT_READ)
        while selector.get_map():
            left = until - clock.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                parts[key.fd] += chunk
                if not chunk or len(parts[key.fd]) > MAX_OUTPUT:
                    selector.unregister(key.fd)
    output, errors = parts.values()
    return bytes(output), bytes(errors)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Leave no process and no pipe behind; the kernel lets go what it traced."""
    if child.poll() is None:
        child.kill()
        # One that waits inside the kernel, as who it reads does, ends when that goes on.
        with suppress(subprocess.TimeoutExpired):
            child.wait(END_SECONDS)
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
