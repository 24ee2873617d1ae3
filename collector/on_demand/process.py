"""What the process table says of a process before its stacks are read, or a signal is sent."""

import re
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.files.opening import read_bytes
from lockstep.collector.readings.source import SourceError

ENDED = frozenset("ZXx")
STOPPED = frozenset("Tt")
LIMIT = 64 * 1024
MAX_THREADS = 4096

_FIELD = re.compile(
    rb"^(State|Uid|NSpid|SigPnd|ShdPnd|SigBlk|SigCgt|CapEff):\t([^\n]*)$", re.MULTILINE
)
_SYS_PTRACE = 19
"""Bit of CAP_SYS_PTRACE (linux/capability.h)."""


@dataclass(frozen=True, slots=True)
class Status:
    """Of a process or thread, from proc_pid_status(5).

    Attributes:
        state: Its letter.
        caught: Signals for which it has a handler; bit n - 1 is signal n. So the other masks.
        waiting: Signals that were sent to the process and not delivered yet.
        blocked: Signals that are held back, as its own while a handler runs.
        inside: The pid by which it knows itself, which in a container is another one.
        users: Its real, effective and saved user; one, unless it changed them.
    """

    state: str
    caught: int
    waiting: int
    blocked: int
    inside: int
    users: frozenset[int] = frozenset()


def has(mask: int, number: int) -> bool:
    """Whether the signal is in the mask."""
    return bool(mask >> (number - 1) & 1)


def status(proc: Path, pid: int) -> Status:
    """Of a process.

    Raises:
        SourceError: It has ended, or the table cannot be read.
    """
    try:
        return _status(proc / str(pid) / "status")
    except SourceError as error:
        if error.reason == "missing":
            raise SourceError("missing", "its process has ended") from error
        raise


def blocking(proc: Path, pid: int, number: int) -> frozenset[int]:
    """The threads that hold the signal back: libraries have some that block all, always."""
    threads = _threads(proc, pid).items()
    return frozenset(thread for thread, state in threads if has(state.blocked, number))


def handling(proc: Path, pid: int, number: int, always: frozenset[int] = frozenset()) -> bool:
    """Whether the signal still waits, or a thread holds it back since: its handler runs.

    Args:
        always: Threads that held it back before it was sent (`blocking`), which says nothing.

    Raises:
        SourceError: The process has ended.
    """
    if has(status(proc, pid).waiting, number):
        return True
    return any(
        has(state.waiting, number) or (thread not in always and has(state.blocked, number))
        for thread, state in _threads(proc, pid).items()
    )


def _threads(proc: Path, pid: int) -> dict[int, Status]:
    found = {}
    for task in _tasks(proc, pid):
        try:
            found[int(task.name)] = _status(task / "status")
        except SourceError:  # a thread that has ended
            continue
    return found


def children(proc: Path, pid: int) -> list[int]:
    """Processes that it started and that are still its own; [] where the kernel does not tell."""
    pids: list[int] = []
    for task in _tasks(proc, pid):
        try:
            text = read_bytes(task / "children", LIMIT)
        except SourceError:
            continue
        pids += [int(word) for word in text.split() if word.isdigit()]
    return sorted(set(pids))


def why_refused(proc: Path) -> str:
    """Why this process may not read the memory of another one, and what would let it.

    ptrace(2), "Ptrace access mode checking": the same user and no more capabilities than ours,
    and what Yama adds; or CAP_SYS_PTRACE.
    """
    scope = _scope(proc)
    note = "" if scope is None else f" and kernel.yama.ptrace_scope is {scope}"
    if _has_ptrace(proc):
        return f"ptrace is refused although we have CAP_SYS_PTRACE{note}: look at security modules"
    right = "run as root, or give CAP_SYS_PTRACE (docker --cap-add SYS_PTRACE; in a pod"
    return f"ptrace is refused: CAP_SYS_PTRACE is missing{note}; {right} capabilities.add)"


def _scope(proc: Path) -> str | None:
    try:
        return read_bytes(proc / "sys/kernel/yama/ptrace_scope", 16).decode("ascii").strip()
    except (SourceError, UnicodeDecodeError):
        return None


def _has_ptrace(proc: Path) -> bool:
    try:
        text = read_bytes(proc / "self/status", LIMIT)
    except SourceError:
        return False
    fields = {match[1]: match[2] for match in _FIELD.finditer(text)}
    return bool(int(fields.get(b"CapEff", b"0"), 16) >> _SYS_PTRACE & 1)


def _tasks(proc: Path, pid: int) -> list[Path]:
    try:
        return list((proc / str(pid) / "task").iterdir())[:MAX_THREADS]
    except OSError:
        return []


def _status(path: Path) -> Status:
    fields = {match[1]: match[2].strip() for match in _FIELD.finditer(read_bytes(path, LIMIT))}
    masks = [
        int(fields.get(name, b"0"), 16) for name in (b"SigCgt", b"ShdPnd", b"SigPnd", b"SigBlk")
    ]
    state = fields.get(b"State", b"")[:1].decode("ascii", "replace")
    pids = fields.get(b"NSpid", b"").split()
    inside = int(pids[-1]) if pids else 0
    users = frozenset(int(user) for user in fields.get(b"Uid", b"").split()[:3])
    return Status(state, masks[0], masks[1] | masks[2], masks[3], inside, users)
