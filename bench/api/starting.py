"""Runs that are started here: one at a time, the others wait in order behind it."""

import shutil
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any

from lockstep.bench.api.reading import LAST_LINES, Reading
from lockstep.bench.api.shapes import Refusal, StartRun, bad_value, conflict
from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import threads
from lockstep.collector.contract.archive import FINDING_FILE, RUN_FILE
from lockstep.collector.contract.words import ExitCode, FaultKind
from lockstep.dashboard.starting import process
from lockstep.dashboard.starting import world as kinds
from lockstep.dashboard.starting.plan import Form, Plan, PlanError, planned
from lockstep.dashboard.starting.process import Job, Stage, tail
from lockstep.dashboard.starting.progress import lines as log_lines
from lockstep.dashboard.starting.registry import HeldError, Lock, take
from lockstep.runs.archive import now
from lockstep.runs.claim import claim_folder
from lockstep.terminal.output import CommandError
from lockstep.workloads.spec import MAX_LOCAL_RANKS, WORKLOADS

PLACE = ".api"
"""Folder, among the archives, of the logs of runs that were started, and of the token."""
MOST_WAITING = 16
MOST_OVER = 200
"""Runs that are over and of which we still know how; their archives know for good."""
LOOK_SECONDS = 0.5
"""Between two looks whether another program's run is over."""
END_SECONDS = 90.0
"""For a run to close its archive when we end; process.PATIENCE is shorter."""
WALL = SystemClock().wall


@dataclass
class Entry:
    """One run that was asked for.

    Attributes:
        plan: What runs.
        asked: Its settings.
        at: Unix seconds at which it was asked for.
        since: Monotonic seconds, likewise.
        begun, ended: Unix seconds; None = not yet.
        job: Its processes; None = it waits, or never began.
        dropped: Why it never began; empty = it did, or waits.
        late: Whether its time was over.
        behind: Of one that waits: which run is before it.
    """

    plan: Plan
    asked: StartRun
    at: float
    since: float
    log: Path
    begun: float | None = None
    ended: float | None = None
    job: Job | None = None
    dropped: str = ""
    late: bool = False
    behind: str = ""
    stopped: bool = False
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self) -> str:
        """Id of the run, and of its folder."""
        return self.plan.name

    def state(self) -> str:
        """A word of shapes.State."""
        if self.job is None:
            return "queued" if not self.over.is_set() else ("stopped" if self.stopped else "failed")
        if not self.over.is_set():
            stage = self.job.snapshot().stage
            return "stopping" if stage is Stage.OVER else stage.value
        code = self.job.snapshot().code
        if self.late:
            return "failed"
        if self.stopped:
            return "stopped"
        return "ended" if code == ExitCode.OK else "failed"

    def failure(self) -> dict[str, Any] | None:
        """Why it did not end as it should; None = it did, or goes on."""
        state = self.state()
        if state not in ("failed", "stopped"):
            return None
        last = list(log_lines(tail(self.log)))[-LAST_LINES:]
        if self.late:
            reason = f"it was not over after {self.asked.time_limit_seconds} s (time_limit_seconds)"
        elif self.dropped:
            reason = self.dropped
        elif state == "stopped":
            reason = "somebody stopped it"
        else:
            reason = last[-1] if last else "it did not start"
        return {"reason": reason, "ranks": [], "nodes": [], "pods": [], "last_lines": last}


class Starting:
    """Starts, stops and forgets runs of one folder; many threads ask.

    Args:
        folder: Where archives go.
        program: What a run's arguments follow; None = this program.
    """

    def __init__(self, folder: Path, program: Sequence[str] | None = None) -> None:
        self._folder = folder
        self._program = tuple(program or process.PROGRAM)
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._changed = threading.Condition()
        self._ending = False
        self._worker = threads.loop("runs", self._work)
        self._worker.start()

    def start(self, asked: StartRun, taken: frozenset[str]) -> Entry:
        """Take a run, to be begun once those before it are over.

        Args:
            asked: Its settings; nothing of them is trusted.
            taken: Names that are not free.

        Raises:
            Refusal: It cannot be, or too many wait.
        """
        refused = kinds.refused()
        with self._changed:
            if self._ending:
                raise conflict("ending", "the server is ending, and begins no more runs")
            names = taken | self._entries.keys()
            name = asked.name or _free_name(asked.workload, names)
            if name in names:
                raise Refusal(
                    HTTPStatus.CONFLICT, "exists",
                    f"there is a run {name} already; choose another name", "name",
                )  # fmt: skip
            log = self._folder / PLACE / "logs" / f"{name}.log"
            entry = Entry(self._plan(asked, name, refused), asked, WALL(), monotonic(), log)
            waiting = self._waiting()
            if len(waiting) >= MOST_WAITING:
                raise conflict(
                    "queue_full", f"{len(waiting)} runs wait already, and that is the most; wait"
                    " until one is over, or stop one",
                )  # fmt: skip
            self._entries[name] = entry
            self._say_behind()
            self._changed.notify_all()
        return entry

    def entry(self, name: str) -> Entry | None:
        """A run that was asked for here; None = none."""
        with self._changed:
            return self._entries.get(name)

    def entries(self) -> tuple[Entry, ...]:
        """Those that were asked for, the newest first."""
        with self._changed:
            return tuple(reversed(self._entries.values()))

    def stop(self, name: str) -> Entry | None:
        """Ask a run to end; None = it was not started here. Twice is once."""
        with self._changed:
            entry = self._entries.get(name)
            if entry is None or entry.over.is_set():
                return entry
            entry.stopped = True
            if entry.job is None:
                self._drop(entry, "it was stopped before it began")
            else:
                entry.job.stop()
            return entry

    def log(self, name: str) -> list[str] | None:
        """The end of what a run says; None = it was not started here."""
        entry = self.entry(name)
        return None if entry is None else list(log_lines(tail(entry.log)))

    def forget(self, name: str) -> None:
        """Of a run that is over; its log goes, too."""
        with self._changed:
            entry = self._entries.get(name)
            if entry is not None and entry.over.is_set():
                del self._entries[name]
                entry.log.unlink(missing_ok=True)

    def capacity(self) -> dict[str, Any]:
        """What is running and what waits."""
        refused = kinds.refused()
        with self._changed:
            running = self._running()
            return {
                "ranks": MAX_LOCAL_RANKS, "runs": 1, "queue": MOST_WAITING,
                "running": None if running is None else running.name,
                "waiting": [each.name for each in self._waiting()],
                "workloads": list(WORKLOADS),
                "refused_faults": {str(kind): why for kind, why in refused.items() if why},
            }  # fmt: skip

    def close(self) -> list[str]:
        """End: those that wait never begin, the one that goes on closes its archive.

        Returns:
            Names of those that were ended.
        """
        with self._changed:
            self._ending = True
            going = [each for each in self._entries.values() if not each.over.is_set()]
            for each in going:
                if each.job is None:
                    self._drop(each, "the server ended before it began")
                else:
                    each.stopped = True
                    each.job.stop()
            self._changed.notify_all()
        self._worker.join(END_SECONDS)
        return [each.name for each in going]

    def _plan(self, asked: StartRun, name: str, refused: dict[FaultKind, str]) -> Plan:
        """The checked plan: what `lockstep run` would refuse is refused here."""
        world = asked.nodes * asked.ranks_per_node
        if asked.nodes > 0 and asked.ranks_per_node > 0 and world > MAX_LOCAL_RANKS:
            raise Refusal(
                HTTPStatus.UNPROCESSABLE_ENTITY, "over_capacity",
                f"{asked.nodes} nodes of {asked.ranks_per_node} ranks are {world} ranks, and this"
                f" machine runs {MAX_LOCAL_RANKS} at most",
                "nodes" if asked.nodes > MAX_LOCAL_RANKS else "ranks_per_node",
            )  # fmt: skip
        form = Form(
            workload=asked.workload, nodes=asked.nodes, ranks_per_node=asked.ranks_per_node,
            dp=asked.dp or 0, tp=asked.tp, pp=asked.pp, steps=asked.steps,
            model=asked.model or "", seed=asked.seed, name=name, follow=asked.analyze,
            faults=tuple(asked.faults),
        )  # fmt: skip
        try:
            plan = planned(form, self._folder, (), refused)
        except PlanError as error:
            raise bad_value(error.field, str(error)) from None
        return replace(plan, arguments=(*plan.arguments, "--run-id", name))

    def _work(self) -> None:
        """Begins one after the other, for as long as this process lives."""
        while True:
            with self._changed:
                while not self._ending and not self._waiting():
                    self._changed.wait()
                if self._ending:
                    return
                entry = self._waiting()[0]
            try:
                if (lock := self._locked(entry)) is not None:
                    self._live(entry, lock)
            except Exception:
                with self._changed:
                    if not entry.over.is_set():
                        self._drop(entry, "it could not be followed; the server's log says why")
                raise

    def _locked(self, entry: Entry) -> Lock | None:
        """The folder, once nobody else's run is in it; None where the entry may not begin now."""
        try:
            return take(self._folder, entry.name)
        except HeldError as error:
            self._wait(entry, str(error))
        except OSError as error:
            with self._changed:
                self._drop(entry, f"the folder of runs cannot be written: {error.strerror}")
        return None

    def _wait(self, entry: Entry, holder: str) -> None:
        with self._changed:
            entry.behind = holder
            self._give_up_late()
            self._changed.wait(LOOK_SECONDS)

    def _live(self, entry: Entry, lock: Lock) -> None:
        """One run from its begin to its end."""
        with self._changed:
            if entry.over.is_set() or self._ending:
                lock.release()
                return
            try:
                entry.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                entry.begun, entry.behind = WALL(), ""
                entry.job = Job(entry.plan, entry.log, lock.handle, lock.release, self._program)
            except (OSError, RuntimeError) as error:
                lock.release()
                self._drop(entry, f"it could not be started: {error}")
                return
            self._say_behind()
        until = monotonic() + entry.asked.time_limit_seconds
        while not entry.job.wait(LOOK_SECONDS):
            if not entry.late and monotonic() > until:
                entry.late = True
                entry.job.stop()
            with self._changed:
                self._give_up_late()
        with self._changed:
            entry.ended = WALL()
            entry.over.set()
            self._trim()
            self._say_behind()

    def _give_up_late(self) -> None:
        """Those that wait longer than they may never begin."""
        for each in self._waiting():
            limit = each.asked.wait_limit_seconds
            if monotonic() - each.since > limit:
                self._drop(each, f"it had not begun after {limit} s (wait_limit_seconds)")

    def _drop(self, entry: Entry, why: str) -> None:
        """It never begins."""
        entry.dropped, entry.behind, entry.ended = why, "", WALL()
        entry.over.set()
        self._say_behind()

    def _waiting(self) -> list[Entry]:
        return [
            each for each in self._entries.values() if each.job is None and not each.over.is_set()
        ]

    def _running(self) -> Entry | None:
        going = (each for each in self._entries.values() if each.job and not each.over.is_set())
        return next(going, None)

    def _say_behind(self) -> None:
        before = self._running()
        for each in self._waiting():
            each.behind = before.name if before is not None else each.behind
            before = each

    def _trim(self) -> None:
        over = [name for name, each in self._entries.items() if each.over.is_set()]
        for name in over[: max(0, len(over) - MOST_OVER)]:
            del self._entries[name]


def _free_name(workload: str, taken: frozenset[str]) -> str:
    kind = workload if workload in WORKLOADS else "run"
    while True:
        name = f"{kind}-{now():%Y%m%dt%H%M%S}-{token_hex(2)}"
        if name not in taken:
            return name


# A run that is over can be removed with its archive, and nothing else on this disk.

_ONE = threading.Lock()


def delete(reading: Reading, starting: Starting, name: str) -> None:
    """Remove a run.

    Raises:
        Refusal: There is none, it is not over, or its archive is not ours to remove.
    """
    with _ONE:
        entry = starting.entry(name)
        if entry is not None and not entry.over.is_set():
            raise conflict("not_over", f"the run {name} is {entry.state()}; stop it first")
        try:
            folder = reading.archive(name)
        except Refusal as refusal:
            if entry is None or refusal.error != "unknown_run":
                raise
        else:
            _remove(reading, name, folder)
        starting.forget(name)


def _remove(reading: Reading, name: str, folder: Path) -> None:
    ours = folder.parent == reading.folder and not folder.is_symlink()
    if not ours or (folder / FINDING_FILE).exists():
        raise conflict(
            "not_ours", f"the archive of {name} is one of lockstep watch, which keeps it"
        )
    gone = reading.folder / f".deleted-{name[:40].replace('/', '-')}-{token_hex(4)}"
    try:
        with claim_folder(folder):
            if (folder / RUN_FILE).exists():
                folder.rename(gone)  # from here on nobody sees half of it
        with suppress(OSError):
            folder.rmdir()  # somebody else removed it, and the lock made it anew
        if not gone.exists():
            raise reading.unknown(name)
        shutil.rmtree(gone)
    except CommandError as error:
        if "being written" in error.sentence:
            raise conflict(
                "not_over", f"the run {name} is still being written; stop it, or wait for its end"
            ) from None
        raise _kept(name, error.sentence) from None
    except OSError as error:
        raise _kept(name, error.strerror or str(error)) from None


def _kept(name: str, why: str) -> Refusal:
    return Refusal(HTTPStatus.CONFLICT, "not_removed", f"the run {name} is not removed: {why}")
