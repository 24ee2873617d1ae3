"""The state of a benchmark in the folder of each cell, and who holds its lock."""

import fcntl
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lockstep.bench.plan import Cell
from lockstep.bench.results import Value, checked
from lockstep.bench.spec import BenchError
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.whole_file import write_whole
from lockstep.runs.claim import FILE, MAX_BYTES

CLOSED = "closed.json"
"""Of a cell that came to its end, whichever; written last, whole or not at all."""
UNDERWAY = "underway.json"
"""Of a cell whose run has finished, while the steps after it go on."""
RESULTS = "results.parquet"
"""The table, in the benchmark's folder."""
FINISHED = "finished"
_ATTEMPT = re.compile(r"archive-(\d+)")


@dataclass(frozen=True, slots=True)
class Closed:
    """How a cell ended.

    Attributes:
        status: finished, failed, timeout or stopped.
        steps: Name -> seconds, of those that ran.
    """

    status: str
    reason: str
    fingerprint: str
    steps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Underway:
    """An attempt whose run has finished: what of it is not done again.

    Attributes:
        attempt: Number of its archive.
        told: Columns of its row that are known from when it began: when, of which code.
        steps: Name -> seconds, of those that have finished.
        archive: Whether its archive was on this machine; without it, nothing goes on.
    """

    fingerprint: str
    attempt: int
    told: Mapping[str, Value]
    steps: Mapping[str, float]
    archive: bool


def closed(out: Path, cell: Cell) -> Closed | None:
    """How the cell ended before; None = it never did.

    Raises:
        BenchError: What is there is not ours.
    """
    path = out / cell.folder / CLOSED
    try:
        told = bounded_json.read(path)
        return Closed(
            str(told["status"]), str(told["reason"]), str(told["fingerprint"]), dict(told["steps"])
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _unreadable(path, error) from error


def underway(out: Path, cell: Cell) -> Underway | None:
    """What a kill left of an attempt whose run had finished; None = nothing.

    Raises:
        BenchError: What is there is not ours.
    """
    path = out / cell.folder / UNDERWAY
    try:
        told = bounded_json.read(path)
        row = dict(told["told"])
        checked({**cell.known_columns(), **row})
        return Underway(
            str(told["fingerprint"]), int(told["attempt"]), row,
            {str(name): float(each) for name, each in dict(told["steps"]).items()},
            bool(told["archive"]),
        )  # fmt: skip
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _unreadable(path, error) from error


def close(out: Path, cell: Cell, ended: Closed) -> None:
    """Remember how it ended.

    Raises:
        OSError: It cannot be written; the cell is as open as it was.
    """
    told = {"cell": cell.name, "repeat": cell.repeat, **asdict(ended)}
    _write(out / cell.folder / CLOSED, told)
    forget(out, cell)


def remember(out: Path, cell: Cell, done: Underway) -> None:
    """Keep what of an attempt is done.

    Raises:
        OSError: It cannot be written; what was done before is remembered as it was.
    """
    _write(out / cell.folder / UNDERWAY, asdict(done))


def forget(out: Path, cell: Cell) -> None:
    """The next attempt begins at the beginning."""
    (out / cell.folder / UNDERWAY).unlink(missing_ok=True)


def attempts(out: Path, cell: Cell) -> int:
    """How many archives of it are there; the next attempt gets the next number.

    Raises:
        BenchError: The benchmark's folder is none, or cannot be read.
    """
    try:
        found = [_ATTEMPT.fullmatch(each.name) for each in (out / cell.folder).iterdir()]
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise BenchError(
            f"{out} is no folder of a benchmark ({error.strerror}: {error.filename}); choose"
            " another --out"
        ) from error
    return max((int(each[1]) + 1 for each in found if each), default=0)


def _unreadable(path: Path, error: Exception) -> BenchError:
    return BenchError(f"{path} cannot be read ({error}); remove it to run the cell again")


def _write(path: Path, tree: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(tree, indent=2) + "\n", mode=None)


# The process that writes a benchmark's folder holds a lock there.

_WHO = re.compile(r"process (\d+) on (\S+)")


def writer(out: Path) -> int | None:
    """The process that holds the folder's lock; None = nobody does, or one of another machine."""
    import socket

    try:
        handle = os.open(out / FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        found = _WHO.search(os.pread(handle, MAX_BYTES, 0).decode("utf-8", "replace"))
        return int(found[1]) if found and found[2] == socket.gethostname() else None
    except OSError:
        return None
    finally:
        os.close(handle)
    return None
