"""Seconds by which faults held up the steps of a rank, as the rank measured them.

Written step by step: who is killed leaves what was done to it until then.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from lockstep.collector.contract import bounded_json
from lockstep.workloads.faults.plan import Fault


class Added:
    """What was added to the step that goes on, by fault.

    Args:
        path: A line a step that was held up: its number, and fault to seconds; None = nowhere.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._step: dict[str, float] = {}

    def add(self, asked: Mapping[Fault, float], seconds: float) -> None:
        """Faults that asked for so many seconds each took these together."""
        whole = sum(asked.values())
        for fault, each in asked.items():
            took = seconds * each / whole if whole > 0.0 else 0.0
            self._step[fault.spec] = self._step.get(fault.spec, 0.0) + took

    def end_step(self, step: int) -> None:
        """Write down what was added to it."""
        if self._step and self._path is not None:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("a")  # a rank may be started again
            told = {spec: round(seconds, 6) for spec, seconds in self._step.items()}
            self._file.write(json.dumps([step, told]) + "\n")
            self._file.flush()
        self._step = {}

    def close(self) -> None:
        """No more steps."""
        if self._file is not None:
            self._file.close()


def read_added(path: Path) -> dict[str, dict[str, list[float]]]:
    """Fault -> `steps` and `seconds`, as `Added` wrote them; a torn line is none.

    Raises:
        OSError: There is none: no fault has held this rank up.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for step, told in _lines(path.read_text().splitlines()):
        for spec, seconds in told.items():
            columns = found.setdefault(spec, {"steps": [], "seconds": []})
            columns["steps"].append(step)
            columns["seconds"].append(seconds)
    return found


def _lines(lines: Iterable[str]) -> Iterable[tuple[int, Mapping[str, float]]]:
    for line in lines:
        try:
            step, told = bounded_json.loads(line)
            yield int(step), {str(spec): float(each) for spec, each in told.items()}
        except (ValueError, TypeError, AttributeError):
            continue
