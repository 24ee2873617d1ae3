"""What a benchmark remembers in its folder: one closed file a cell, and the attempts before it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collector.contract import bounded_json
from lockstep.bench.plan import Cell
from lockstep.bench.spec import BenchError

CLOSED = "closed.json"
"""Of a cell that came to its end, whichever; written last, whole or not at all."""
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
        raise BenchError(f"{path} cannot be read ({error}); remove it to run the cell again") from (
            error
        )


def close(out: Path, cell: Cell, ended: Closed) -> None:
    """Remember how it ended.

    Raises:
        OSError: It cannot be written; the cell is as open as it was.
    """
    told: dict[str, Any] = {
        "cell": cell.name, "repeat": cell.repeat, "status": ended.status, "reason": ended.reason,
        "fingerprint": ended.fingerprint, "steps": dict(ended.steps),
    }  # fmt: skip
    path = out / cell.folder / CLOSED
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(told, indent=2) + "\n")
    temporary.replace(path)


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
