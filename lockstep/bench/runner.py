"""Runs the cells of a benchmark, one after the other, and remembers each that came to its end.

Whatever is killed, whenever: a cell is closed by one rename after its row is in the table, so the
next `lockstep bench run` goes on with the first cell that is not closed. A cell that failed is
closed, too, and is run again by the next call; the others go on.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from lockstep.bench import measure, state
from lockstep.bench.plan import ARCHIVE, CLUSTER, METRICS, Cell, Step, fingerprint, steps
from lockstep.bench.processes import Exit, Running, last_lines, sentence, start
from lockstep.bench.results import ResultError, Value, write
from lockstep.bench.spec import Bench, BenchError
from lockstep.bench.state import FINISHED, Closed
from lockstep.bench.surroundings import surroundings

FAILED, TIMEOUT = "failed", "timeout"
FULL = "the results cannot be written: {}; make room, then start again: nothing is lost"


@dataclass(frozen=True, slots=True)
class Told:
    """How a cell ended, for the line about it.

    Attributes:
        again: It was closed before, and was not run now.
    """

    cell: Cell
    status: str
    reason: str
    seconds: float
    step_seconds: float | None = None
    again: bool = False


@dataclass(slots=True)
class Runner:
    """One benchmark in one folder, which nobody else has meanwhile.

    Attributes:
        out: The folder, as an absolute path.
        table: Where rows go.
        beside: The folder of the file, whose commit is told.
        lockstep: How our own command is called.
        show: Where the work stands.
        heeded: While this lasts, Ctrl-C is raised.
    """

    bench: Bench
    out: Path
    table: Path
    beside: Path
    lockstep: Sequence[str]
    show: Callable[[str, str], None] = lambda stage, text: None
    heeded: Callable[[], AbstractContextManager[None]] = nullcontext
    _running: Running | None = field(default=None, init=False)

    def planned(self, cell: Cell) -> list[Step]:
        """The steps of its next attempt."""
        attempt = state.attempts(self.out, cell)
        return steps(self.bench, cell, self.out, attempt, self.lockstep)

    def mark(self, cell: Cell) -> str:
        """Of everything that is run for it, whichever attempt."""
        return fingerprint(cell, steps(self.bench, cell, self.out, 0, self.lockstep))

    def check(self, cells: Sequence[Cell]) -> None:
        """Refuse a folder whose cells were run by another file.

        Raises:
            BenchError: A cell of the same name was run in another way.
        """
        for cell in cells:
            before = state.closed(self.out, cell)
            if before is not None and before.fingerprint != self.mark(cell):
                raise BenchError(
                    f"{self.out} has cell {cell.name} of another benchmark: it was run with other"
                    " settings; choose another --out, or another [bench] name"
                )

    def run(self, cell: Cell) -> Told:
        """Run a cell, unless it has finished before.

        Raises:
            BenchError: The row or the closing file cannot be written.
            KeyboardInterrupt: The user does not want to wait; what runs is ended, the cell is open.
        """
        before = state.closed(self.out, cell)
        if before is not None and before.status == FINISHED:
            return Told(cell, FINISHED, "", sum(before.steps.values()), again=True)
        begun, seconds = monotonic(), dict[str, float]()
        started = datetime.now(UTC).isoformat(timespec="seconds")
        planned = self.planned(cell)
        archive = Path(self.out / cell.folder / f"{ARCHIVE}-{state.attempts(self.out, cell)}")
        row: dict[str, Value] = {}
        try:
            (self.out / cell.folder).mkdir(parents=True, exist_ok=True)
            try:
                with self.heeded():
                    status, reason = self._steps(cell, planned, seconds)
            finally:
                if self._running is not None:  # a wait that was replaced, or Ctrl-C
                    self._running.end()
                    self._running = None
            row = {**cell.told(), "started": started, **surroundings(self.beside)}
            self._measure(row, cell, planned, archive, status, reason)
            write(self.table, row)
            state.close(
                self.out, cell, Closed(str(row["status"]), str(row["reason"] or ""),
                                       self.mark(cell), seconds),
            )  # fmt: skip
        except OSError as error:
            raise BenchError(FULL.format(error)) from error
        speed = row.get("step_seconds")
        return Told(
            cell, str(row["status"]), str(row["reason"] or ""), monotonic() - begun,
            speed if isinstance(speed, float) else None,
        )  # fmt: skip

    def _steps(
        self, cell: Cell, planned: Sequence[Step], seconds: dict[str, float]
    ) -> tuple[str, str]:
        """(status, reason) of all steps, in their order."""
        folder = self.out / cell.folder
        status, reason = FINISHED, ""
        for step in planned:
            if status != FINISHED and not step.always:
                continue
            if step.name in ("analyze", "report") and self._elsewhere(step, cell):
                continue
            self.show(cell.name, step.name)
            begun = monotonic()
            try:
                status_now, reason_now = self._step(step, folder)
            except BenchError as error:
                status_now, reason_now = FAILED, str(error)
            seconds[step.name] = round(monotonic() - begun, 3)
            if status_now != FINISHED and status == FINISHED:
                status, reason = status_now, reason_now
        return status, reason

    def _elsewhere(self, step: Step, cell: Cell) -> bool:
        """Whether the step reads an archive that is on a claim: there the chain of Argo does it."""
        ours = step.command[: len(self.lockstep)] == tuple(self.lockstep)
        return cell.launcher in CLUSTER and ours

    def _step(self, step: Step, folder: Path) -> tuple[str, str]:
        missing = [each for each in step.inputs if not Path(each).exists()]
        if missing:
            raise BenchError(f"step {step.name} needs {missing[0]}, which no step before it wrote")
        if step.waits:
            if self._running is None:
                return FINISHED, ""
            ended = self._running.wait(step.timeout)
            self._running = None
            return self._judged(ended, step, folder, "launch", (0,))
        if not step.command and step.container is None:
            return FINISHED, ""
        running = start(step, folder)
        self._running = running
        if step.background:
            return FINISHED, ""
        ended = running.wait(step.timeout)
        self._running = None
        told = self._judged(ended, step, folder, step.name, step.ok)
        lacking = [each for each in step.outputs.values() if not Path(each).exists()]
        if told[0] == FINISHED and lacking:
            raise BenchError(f"step {step.name} did not write {lacking[0]}")
        return told

    def _judged(
        self, ended: Exit, step: Step, folder: Path, logged: str, ok: Sequence[int]
    ) -> tuple[str, str]:
        if ended.code is None:
            return TIMEOUT, f"{logged} had not ended after {step.timeout:g} s, and was ended"
        if ended.code in ok:
            return FINISHED, ""
        why = sentence(folder, logged) or "it said nothing"
        return FAILED, f"{logged} exited {ended.code}: {why}"

    def _measure(
        self, row: dict[str, Value], cell: Cell, planned: Sequence[Step], archive: Path,
        status: str, reason: str,
    ) -> None:  # fmt: skip
        """Fill a row with what the cell's archive and outputs tell."""
        folder = self.out / cell.folder
        if (archive / "run.json").exists():
            try:
                row |= {key: value for key, value in measure.of_archive(archive).items()
                        if value is not None or key not in row}  # fmt: skip
            except BenchError as error:
                status, reason = (FAILED, str(error)) if status == FINISHED else (status, reason)
            failed, lines = measure.failed_ranks(archive)
            if status != FINISHED:
                row |= {"failed_ranks": failed, "last_lines": lines or None}
        for step in planned:
            path = step.outputs.get(METRICS)
            if path is not None and Path(path).exists():
                try:
                    row |= measure.metrics(Path(path))
                except BenchError as error:
                    status, reason = FAILED, f"step {step.name}: {error}"
        if status != FINISHED and not row.get("last_lines"):
            row["last_lines"] = last_lines(folder, "launch") or None
        row |= {"status": status, "reason": reason or None}
        row.setdefault("archive", str(archive) if archive.exists() else None)
        row["ended"] = datetime.now(UTC).isoformat(timespec="seconds")


def refuse_without_room(out: Path, needed: int = 64 << 20) -> None:
    """Refuse a disk that is nearly full before hours are spent.

    Raises:
        BenchError: There are fewer than `needed` bytes.
    """
    place = next(each for each in (out, *out.parents) if each.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise BenchError(
            f"{place} has {free >> 20} MiB left, and a run's archive needs some 10; make room, or"
            " choose another --out"
        )


__all__ = ["FAILED", "TIMEOUT", "ResultError", "Runner", "Told", "refuse_without_room"]
