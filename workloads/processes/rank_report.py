"""What a rank's keeper tells the launcher of it: one line of JSON on standard output, all of it.

Every line says everything, so that a line that mpirun tore or mixed up costs nothing.
"""

import json
from dataclasses import asdict, dataclass

from lockstep.collector.contract import bounded_json
from lockstep.workloads.joining.from_json import ShapeError, built
from lockstep.workloads.processes.ring_state import RingState

MARK = "lockstep-rank "


@dataclass(frozen=True, slots=True)
class Report:
    """One rank as its keeper sees it.

    Attributes:
        pid: Of the rank's process, on its host; 0 before there is one.
        status: How it ended, as waitpid gives it; None while it runs.
        last: The exception with which its log ends, or the last line of it, once it has ended.
        told: What its ring says; None before there is one.
        refused: Why it was not started; empty = it was.
    """

    rank: int
    host: str
    pid: int = 0
    status: int | None = None
    last: str = ""
    told: RingState | None = None
    refused: str = ""

    def line(self) -> str:
        """The line to write."""
        return f"{MARK}{json.dumps(asdict(self))}\n"


def parsed(line: str) -> Report | None:
    """The report that a line is; None for any other."""
    _, mark, text = line.partition(MARK)
    if not mark:
        return None
    try:
        return built(Report, bounded_json.loads(text), "report")
    except (ShapeError, ValueError):
        return None
