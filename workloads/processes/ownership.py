"""Whose a run's folder of rings is, and whether somebody of the run still lives."""

import fcntl
import os
from pathlib import Path

from lockstep.collector.contract import bounded_json

SHARED_MEMORY = Path("/dev/shm/lockstep")  # noqa: S108 - the place of docs/method/collecting.md
"""Where the folders are, one a run."""
OWNER_FILE = "owner.json"
"""Says who made the folder: {"pid", "start_ticks"}, the second because pids are reused."""
COMMAND_FILE = "command"
"""The line that started the run, secrets masked; a run whose launcher is ours has one."""
LOCK_FILE = "ranks.lock"
"""Each rank that has no launcher holds it shared (flock(2)), for as long as it lives."""


def owner() -> dict[str, int]:
    """This process, in the words of the owner file."""
    return {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int:
    """Start time of a process in clock ticks: proc(5), stat field 22.

    Raises:
        OSError: There is no such process.
    """
    # Field 2, the name, may hold spaces and brackets.
    stat = (proc / str(pid) / "stat").read_text()
    return int(stat.rpartition(")")[2].split()[19])


def lives(pid: int, ticks: int, proc: Path = Path("/proc")) -> bool:
    """Whether the process of that id and start time lives."""
    try:
        return start_ticks(pid, proc) == ticks
    except OSError:
        return False


def is_dead(folder: Path, proc: Path = Path("/proc")) -> bool:
    """Whether nobody of the run of a folder lives any more.

    Ranks without a launcher are judged by their lock, for any of them may end first; else the
    launcher decides. A folder without an owner file is nobody's, or is being made.
    """
    try:
        made_by = bounded_json.read(folder / OWNER_FILE)
        pid, ticks = int(made_by["pid"]), int(made_by["start_ticks"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    try:
        lock = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return not lives(pid, ticks, proc)
    except OSError:  # we may not ask
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, or nobody can tell
        return False
    finally:
        os.close(lock)
    return True
