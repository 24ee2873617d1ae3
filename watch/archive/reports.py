"""Reports on their way: the most urgent first, each written by a process of its own.

Neither the cycle that watches nor who tells of an alert waits for one, and no report of one run
waits for longer than another may take.
"""

import json
import logging
import os
import select
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol

from lockstep.collector.contract import bounded_json, threads

LOG = logging.getLogger(__name__)

PROCESSES = 2
"""At a time: a report takes a core for some seconds, and up to 200 MB."""
DEADLINE_SECONDS = 120.0
"""For one report; a process that takes longer is killed."""
IDLE_SECONDS = 60.0
"""A process that had nothing to do for so long is ended: it holds 150 MB for nothing."""
PAUSE_SECONDS = 15.0
"""Before a report that failed is tried again, times the number of tries."""
TRIES = 3
KILL_SECONDS = 1.0
"""For a process that was killed to be gone."""


class Urgency(IntEnum):
    """Who waits for a report; the least is written first."""

    PAGE = 0
    RECORD = 1
    LATER = 2
    """It is there already, and says less than is known by now."""


Done = Callable[[str], None]
"""Is told why a report was not written; "" = it was."""


class Writer(Protocol):
    """Writes one report at a time."""

    def write(self, folder: Path) -> str:
        """Why it was not written; "" = it was."""

    def idle(self) -> None:
        """Give back what is not needed while nothing is to be written."""

    def end(self) -> None:
        """Leave nothing behind; from any thread."""


class WriterProcess:
    """A process that writes reports one after the other (lockstep.watch.archive.report_worker).

    Args:
        deadline: Seconds for one report.
    """

    def __init__(self, deadline: float = DEADLINE_SECONDS) -> None:
        self._deadline = deadline
        self._child: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._lock = threading.Lock()

    def write(self, folder: Path) -> str:
        """Why it was not written; "" = it was."""
        try:
            child = self._started()
            if child is None:
                return "this process ends"
            assert child.stdin is not None
            child.stdin.write(json.dumps(str(folder.absolute())).encode() + b"\n")
            answer = _line(child, monotonic() + self._deadline)
        except OSError as error:
            self._kill()
            return f"its process ended ({error.strerror or error})"
        if answer is None:
            self._kill()
            return f"it took longer than {self._deadline:.0f} s"
        if not answer:
            self._kill()
            return "its process ended before it was written"
        return str(bounded_json.loads(answer))

    def idle(self) -> None:
        """End the process: it holds memory for nothing."""
        self._kill()

    def end(self) -> None:
        """Leave no process behind; from any thread. Who writes notices, and closes its pipes."""
        with self._lock:
            self._ended, child = True, self._child
        if child is not None:
            _end(child)

    def _started(self) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._ended:
                return None
            if self._child is None or self._child.poll() is not None:
                self._child = subprocess.Popen(
                    _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                    start_new_session=True,
                )  # fmt: skip
            return self._child

    def _kill(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return
        _end(child)
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


def _command() -> list[str]:
    """What starts the process; a file beside which watch was started is never its library (-P)."""
    home = str(Path(__file__).parent.parent)
    program = (
        f"import sys; sys.path.append({home!r})\n"
        "from lockstep.watch.archive.report_worker import main; sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-P", "-c", program, str(os.getpid())]


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    try:
        child.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        LOG.error("the process %d that wrote a report does not end", child.pid)


def _line(child: "subprocess.Popen[bytes]", until: float) -> bytes | None:
    """What it answers, without the line's end; b"" = it ended; None = it is late."""
    assert child.stdout is not None
    told, output = b"", child.stdout.fileno()
    while not told.endswith(b"\n"):
        left = until - monotonic()
        if left <= 0 or not select.select([output], [], [], left)[0]:
            return None
        more = os.read(output, 1 << 16)
        if not more:
            return b""
        told += more
    return told


@dataclass(slots=True)
class _Wanted:
    """A report that is wanted.

    Attributes:
        order: Urgency, and when it was first wanted.
        due: Monotonic seconds before which it is not tried again.
    """

    order: tuple[int, float]
    due: float = 0.0
    tries: int = 0
    done: list[Done] = field(default_factory=list)


class Reports:
    """Takes folders whose reports are wanted; `start`, then `stop`.

    Args:
        writer: Makes what writes, one a thread.
        processes: How many of them.
        pause: Seconds before what failed is tried again.
    """

    def __init__(
        self, writer: Callable[[], Writer] = WriterProcess, processes: int = PROCESSES,
        pause: float = PAUSE_SECONDS,
    ) -> None:  # fmt: skip
        self._writers = [writer() for _ in range(processes)]
        self._pause = pause
        self._wanted: dict[Path, _Wanted] = {}
        self._begun: dict[Path, _Wanted] = {}
        self._failed: dict[Path, str] = {}
        self._counts: Counter[str] = Counter()
        self._seconds = float("nan")
        self._ended = False
        self._changed = threading.Condition()
        self._threads = [threads.loop("reports", partial(self._run, one)) for one in self._writers]

    def start(self) -> None:
        """Write from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin nothing more, and kill what is under way: each file is whole or not there.

        The next process writes the reports that are missing.
        """
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for writer in self._writers:
            writer.end()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(KILL_SECONDS)

    def want(self, folder: Path, urgency: Urgency, done: Done | None = None) -> None:
        """Have the report of an archive written, after those that are more urgent.

        What is wanted already is written once; what is being written is written again.

        Args:
            folder: Of the archive.
            urgency: Who waits for it.
            done: Is told once what came of it, after the last try or the one that succeeded, from
                another thread; it returns soon.
        """
        with self._changed:
            order = int(urgency), monotonic()
            known = self._wanted.setdefault(folder, _Wanted(order))
            known.order, known.due, known.tries = min(known.order, order), 0.0, 0
            known.done += [] if done is None else [done]
            self._changed.notify_all()

    def trouble(self, folder: Path) -> str:
        """Why the last try to write a report failed; "" = it did not."""
        with self._changed:
            return self._failed.get(folder, "")

    def wait(self, seconds: float) -> bool:
        """Until nothing is to be done but what is tried again; whether it was in time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._begun and all(one.tries for one in self._wanted.values()),
                seconds,
            )

    @property
    def waiting(self) -> int:
        """Reports that are wanted or under way."""
        with self._changed:
            return len(self._wanted.keys() | self._begun.keys())

    @property
    def counts(self) -> Counter[str]:
        """How many were written, and how many tries failed."""
        with self._changed:
            return Counter(self._counts)

    @property
    def seconds(self) -> float:
        """Of the last that was written; NaN = none was."""
        return self._seconds

    def _run(self, writer: Writer) -> None:
        while (folder := self._next(writer)) is not None:
            with self._changed:
                wanted = self._begun[folder]
            self._write(writer, folder, wanted)
        writer.idle()

    def _next(self, writer: Writer) -> Path | None:
        """The most urgent that is due and not under way, waited for; None = the end."""
        with self._changed:
            while not self._ended:
                now = monotonic()
                free = {path: one for path, one in self._wanted.items() if path not in self._begun}
                ready = [(one.order, path) for path, one in free.items() if one.due <= now]
                if ready:
                    folder = min(ready)[1]
                    self._begun[folder] = self._wanted.pop(folder)
                    return folder
                due = min((one.due - now for one in free.values()), default=None)
                if not self._changed.wait(IDLE_SECONDS if due is None else due) and due is None:
                    writer.idle()
        return None

    def _write(self, writer: Writer, folder: Path, wanted: _Wanted) -> None:
        begin = monotonic()
        why = "it failed"
        try:
            why = writer.write(folder)
        except Exception as error:  # noqa: BLE001 - one report must not end the others
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
        finally:
            self._over(folder, wanted, why, monotonic() - begin)

    def _over(self, folder: Path, wanted: _Wanted, why: str, seconds: float) -> None:
        listeners: list[Done] = []
        with self._changed:
            self._begun.pop(folder, None)
            if self._ended and why:
                return
            self._counts["failed" if why else "written"] += 1
            if why:
                self._failed[folder] = why
                wanted.tries += 1
                if (again := self._wanted.get(folder)) is not None:
                    again.done = [*wanted.done, *again.done]
                elif wanted.tries < TRIES:
                    wanted.due = monotonic() + self._pause * wanted.tries
                    self._wanted[folder] = wanted
                else:
                    listeners = wanted.done
            else:
                listeners = wanted.done
                self._seconds = seconds
                self._failed.pop(folder, None)
            self._changed.notify_all()
        if why:
            LOG.error("the report of %s was not written: %s", folder, why)
        for done in listeners:
            done(why)
