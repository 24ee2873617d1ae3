"""Runs the cells of a benchmark, one after the other, and remembers each that came to its end.

Whatever is killed, whenever: a cell is closed by one rename after its row is in the table, so the
next `lockstep bench run` goes on with the first cell that is not closed, and there with the first
step that had not finished, once its run had. A cell that failed is closed, too, and is run again by
the next call; the others go on.
"""

import math
import os
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from lockstep.bench import measure, state
from lockstep.bench.measure import surroundings
from lockstep.bench.plan import ARCHIVE, CLUSTER, METRICS, Cell, Step, fingerprint, steps
from lockstep.bench.processes import Exit, Running, by_hand, last_lines, sentence, start
from lockstep.bench.results import ResultError, Value, has_finished, write
from lockstep.bench.spec import Bench, BenchError, UnreachableError
from lockstep.bench.state import FINISHED, Closed, Underway
from lockstep.collector.contract.words import ExitCode

FAILED, TIMEOUT, STOPPED = "failed", "timeout", "stopped"
CLEAN_UP_SECONDS = 30.0
"""For `clean-up` after Ctrl-C; a pod of a Workflow is killed a minute after it was asked to end."""
BY_SOMEBODY = "somebody stopped it"
_ENDS_IT = re.compile(r"to end it from elsewhere: (.+)")
"""What `lockstep run` says on a cluster once its objects are there (on_cluster.py)."""
FULL = "the results cannot be written: {}; make room, then start again: nothing is lost"


@dataclass(frozen=True, slots=True)
class Told:
    """How a cell ended, for the line about it.

    Attributes:
        again: It was closed before, and was not run now.
        queued: Seconds of `seconds` in which it waited in a queue of its cluster.
    """

    cell: Cell
    status: str
    reason: str
    seconds: float
    step_seconds: float | None = None
    again: bool = False
    queued: float = 0.0


@dataclass(slots=True)
class Runner:
    """One benchmark in one folder, which nobody else has meanwhile.

    Attributes:
        out: The folder, as an absolute path.
        table: Where rows go.
        beside: The folder of the file, `{here}` of templates, whose commit is told.
        lockstep: How our own command is called.
        show: Where the work stands.
        heeded: While this lasts, Ctrl-C is raised.
        left: What an end that came too early left on a cluster, and the command that ends it.
    """

    bench: Bench
    out: Path
    table: Path
    beside: Path
    lockstep: Sequence[str]
    show: Callable[[str, str], None] = lambda stage, text: None
    heeded: Callable[[], AbstractContextManager[None]] = nullcontext
    left: str = field(default="", init=False)
    _running: Running | None = field(default=None, init=False)
    _launched: tuple[Step, Running] | None = field(default=None, init=False)
    """The step in the background, which others go on beside."""

    def planned(self, cell: Cell) -> list[Step]:
        """The steps of its next attempt, or those that are left of the one that goes on."""
        done = self._begun(cell)
        planned = self._planned(cell, done.attempt)
        return [step for step in planned if step.name not in done.steps]

    def _planned(self, cell: Cell, attempt: int) -> list[Step]:
        return steps(self.bench, cell, self.out, attempt, self.lockstep, self.beside)

    def _begun(self, cell: Cell) -> Underway:
        """The attempt that goes on where its run has finished, or a new one."""
        new = Underway(self.mark(cell), state.attempts(self.out, cell), {}, {}, archive=False)
        before = state.underway(self.out, cell)
        if before is None or before.fingerprint != new.fingerprint:
            return new
        gone = before.archive and not self._archive(cell, before.attempt).exists()
        return new if gone else before

    def _archive(self, cell: Cell, attempt: int) -> Path:
        return self.out / cell.folder / f"{ARCHIVE}-{attempt}"

    def mark(self, cell: Cell) -> str:
        """Of everything that is run for it, whichever attempt."""
        return fingerprint(cell, self._planned(cell, 0))

    def finished(self, cell: Cell) -> Closed | None:
        """How this very cell finished before; None = it is to be run.

        Raises:
            BenchError: What is there is not ours.
        """
        before = state.closed(self.out, cell)
        if before is None or before.status != FINISHED or before.fingerprint != self.mark(cell):
            return None
        return before

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
        """Run a cell, unless this very one has finished before.

        Raises:
            UnreachableError: The row or the closing file cannot be written.
            KeyboardInterrupt: The user does not want to wait; what runs is ended, its row says
                `stopped`, and the cell is open.
        """
        if before := self.finished(cell):
            return Told(cell, FINISHED, "", sum(before.steps.values()), again=True)
        done = self._begun(cell)
        planned, seconds = self._planned(cell, done.attempt), dict(done.steps)
        archive = self._archive(cell, done.attempt)
        if not done.told:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            done = replace(done, told={"started": now, **surroundings(self.beside)})
        row: dict[str, Value] = {}
        try:
            (self.out / cell.folder).mkdir(parents=True, exist_ok=True)
            if not done.steps:  # or what an attempt before had done would count for this one
                state.forget(self.out, cell)
            left = [step for step in planned if step.name not in done.steps]
            _remove_outputs(left, self.out / cell.folder)
            try:
                with self.heeded():
                    status, reason = self._steps(cell, left, done, seconds)
            except KeyboardInterrupt:
                self._end()
                self._stopped(cell, done, archive, planned)
                raise
            finally:
                self._end()
            row = {**cell.known_columns(), **done.told}
            self._measure(row, cell, planned, archive, status, reason)
            write(self.table, row)
            state.close(
                self.out, cell, Closed(str(row["status"]), str(row["reason"] or ""),
                                       done.fingerprint, seconds),
            )  # fmt: skip
        except OSError as error:
            raise UnreachableError(FULL.format(error)) from error
        speed, queued = row.get("step_seconds"), row.get("queued_seconds")
        return Told(
            cell, str(row["status"]), str(row["reason"] or ""), sum(seconds.values()),
            speed if isinstance(speed, float) else None,
            queued=queued if isinstance(queued, float) else 0.0,
        )  # fmt: skip

    def _stopped(
        self, cell: Cell, done: Underway, archive: Path, planned: Sequence[Step]
    ) -> None:  # fmt: skip
        """Clean up, and its row; what cannot be written now is when it is run again."""
        folder = self.out / cell.folder
        left = [_left(folder)] if cell.launcher in CLUSTER else []
        clean_up = [step for step in planned if step.always and (step.command or step.container)]
        if clean_up:  # and what it takes away, no step finds again
            state.forget(self.out, cell)
        left += [self._cleaned_up(step, folder) for step in clean_up]
        self.left = "; ".join(filter(None, left))
        row: dict[str, Value] = {
            **cell.known_columns(), "started": done.told["started"], "status": STOPPED,
            "reason": "; ".join(filter(None, (BY_SOMEBODY, self.left))),
            "archive": str(archive) if archive.exists() else None,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        }  # fmt: skip
        if cell.launcher in CLUSTER:
            row |= measure.of_cluster(folder / "logs" / "launch.out")
        with suppress(OSError, ResultError):
            if not has_finished(self.table, row):  # another folder's, or before a kill
                write(self.table, row)

    def _cleaned_up(self, step: Step, folder: Path) -> str:
        """What to do about a step that cleans up and did not within CLEAN_UP_SECONDS."""
        most = min(step.timeout, CLEAN_UP_SECONDS)
        try:
            status, why = _judged(start(step, folder).wait(most), step, folder, most)
        except (BenchError, OSError) as error:
            status, why = FAILED, str(error)
        return "" if status == FINISHED else _undone(why, step, folder)

    def _steps(
        self, cell: Cell, left: Sequence[Step], done: Underway, seconds: dict[str, float]
    ) -> tuple[str, str]:
        """(status, reason) of all steps that are left, in their order."""
        folder = self.out / cell.folder
        status, reason = FINISHED, ""
        for step in left:
            if status != FINISHED and not step.always:
                continue
            if step.name in ("analyze", "report") and self._on_cluster(step, cell):
                continue
            self.show(cell.name, step.name)
            begun = monotonic()
            try:
                status_now, reason_now = self._step(step, cell, folder)
            except BenchError as error:
                status_now, reason_now = FAILED, str(error)
            seconds[step.name] = round(monotonic() - begun, 3)
            if status_now != FINISHED and step.always:
                reason_now = _undone(reason_now, step, folder)
                reason = "; ".join(filter(None, (reason, reason_now)))
            if status_now != FINISHED and status == FINISHED:
                status, reason = status_now, reason_now
            if status == FINISHED and "launch" in seconds and self._launched is None:
                archive = self._archive(cell, done.attempt).exists()
                with suppress(OSError):  # what is not remembered is done again
                    state.remember(self.out, cell, replace(done, steps=seconds, archive=archive))
        if status == FINISHED:  # a launch that stands after its wait
            status, reason = self._launch_ended(cell, folder, self.bench.timeout)
        return status, reason

    def _end(self) -> None:
        """What a step that went wrong, or Ctrl-C, left running."""
        launched = None if self._launched is None else self._launched[1]
        running, self._running, self._launched = self._running, None, None
        for each in (running, launched):
            if each is not None:
                each.end()

    def _on_cluster(self, step: Step, cell: Cell) -> bool:
        """Whether it is a command of ours about a run there.

        Then its archive is on a claim, where it is read, and its launcher keeps every limit of the
        run, each from its own begin.
        """
        ours = step.command[: len(self.lockstep)] == tuple(self.lockstep)
        return cell.launcher in CLUSTER and ours

    def _step(self, step: Step, cell: Cell, folder: Path) -> tuple[str, str]:
        missing = [each for each in step.inputs if not Path(each).exists()]
        if missing:
            raise BenchError(f"step {step.name} needs {missing[0]}, which no step before it wrote")
        if step.waits:
            return self._launch_ended(cell, folder, step.timeout)
        if not step.command and step.container is None:
            return FINISHED, ""
        if step.background:
            self._launched = (step, start(step, folder))
            return FINISHED, ""
        self._running = start(step, folder)
        ended = self._running.wait(step.timeout)
        self._running = None
        told = _judged(ended, step, folder, step.timeout)
        if told[0] == FINISHED and step.name == "wait":  # one that was replaced
            return self._launch_ended(cell, folder, self.bench.timeout)
        return told

    def _launch_ended(self, cell: Cell, folder: Path, timeout: float) -> tuple[str, str]:
        """(status, reason) of the launch, which has `timeout` seconds more; at once, if none."""
        if self._launched is None:
            return FINISHED, ""
        step, running = self._launched
        on_cluster = self._on_cluster(step, cell)
        ended = running.wait(math.inf if on_cluster else timeout)
        self._launched = None
        status, reason = _judged(ended, step, folder, timeout)
        if status == FAILED and ended.code == ExitCode.INTERRUPTED:
            left = _left(folder) if on_cluster else ""
            return STOPPED, "; ".join(filter(None, (BY_SOMEBODY, left)))
        if status != FAILED or not on_cluster:
            return status, reason
        answer = measure.answer(folder / "logs" / "launch.out")
        if answer.get("ending") in (TIMEOUT, STOPPED):
            return str(answer["ending"]), reason
        return status, reason if answer else "; ".join(filter(None, (reason, _left(folder))))

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
        if cell.launcher in CLUSTER:
            row |= measure.of_cluster(folder / "logs" / "launch.out")
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


def _judged(ended: Exit, step: Step, folder: Path, timeout: float) -> tuple[str, str]:
    """(status, reason) of a step that ended."""
    if ended.code is None:
        return TIMEOUT, f"{step.name} had not ended after {timeout:g} s, and was ended"
    if ended.code not in step.ok:
        why = sentence(folder, step.name) or "it said nothing"
        return FAILED, f"{step.name} exited {ended.code}: {why}"
    lacking = [each for each in step.outputs.values() if not Path(each).exists()]
    if lacking:
        return FAILED, f"step {step.name} did not write {lacking[0]}"
    return FINISHED, ""


def _undone(why: str, step: Step, folder: Path) -> str:
    """Why a step that cleans up did not, and what a person types to do it."""
    return f"{why}; by hand: cd {shlex.quote(str(folder))} && {by_hand(step, folder)}"


def _left(folder: Path) -> str:
    """What a launch on a cluster left there, and the command that ends it; empty = nothing."""
    answer = measure.answer(folder / "logs" / "launch.out")
    if answer:
        return str(answer.get("left") or "")
    with suppress(OSError):
        said = (folder / "logs" / "launch.err").read_text(errors="replace")
        if found := _ENDS_IT.findall(said):
            return f"what it put onto the cluster may be there; this ends it: {found[-1]}"
    return ""


def _remove_outputs(planned: Sequence[Step], folder: Path) -> None:
    """Files of an attempt before this one, which would be taken for what this one wrote."""
    for step in planned:
        for each in step.outputs.values():
            path = Path(os.path.normpath(each))
            if path.is_relative_to(folder) and (path.is_symlink() or path.is_file()):
                path.unlink(missing_ok=True)


def refuse_without_room(out: Path, needed: int = 64 << 20) -> None:
    """Refuse a disk that is nearly full before hours are spent.

    Raises:
        UnreachableError: There are fewer than `needed` bytes.
    """
    place = next(each for each in (out, *out.parents) if each.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise UnreachableError(
            f"{place} has {free >> 20} MiB left, and a run's archive needs some 10; make room, or"
            " choose another --out"
        )


__all__ = ["FAILED", "STOPPED", "TIMEOUT", "ResultError", "Runner", "Told", "refuse_without_room"]
