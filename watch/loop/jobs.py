"""What the archivist has to do: a bounded queue; what failed comes again, later and later."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic

from lockstep.analyzer.findings.finding import WatchFinding
from lockstep.watch.judge.choice import Pages, Targets
from lockstep.watch.loop.judged import Judged

MOST_JOBS = 1000
FIRST_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 1800.0
"""A disk that is full stays so for a while: pauses double up to this."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What belongs into the archive of a finding.

    Attributes:
        pages: Whose samples are read.
        collectors: Who is asked for operations.
        start, end: Unix seconds of the samples.
        from_step: First step of the operations.
        judged: By which the finding opened; None = by no verdict.
        lacks: What is left out on purpose, in words.
    """

    pages: Pages
    collectors: Targets
    start: float
    end: float
    from_step: int
    judged: Judged | None
    lacks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """The archive of a finding is to be written.

    Attributes:
        again: Though there is one: it is from when the finding was for the record.
    """

    finding: WatchFinding
    plan: Plan
    again: bool = False

    @property
    def folder(self) -> str:
        """Of the archive."""
        return self.finding.folder


@dataclass(frozen=True, slots=True)
class Closing:
    """An archive is to say that its finding closed, and how; its report is written again."""

    finding: WatchFinding

    @property
    def folder(self) -> str:
        """Of the archive."""
        return self.finding.folder


@dataclass(frozen=True, slots=True)
class Renewed:
    """The finding.json of an archive is to say what is known of its open finding by now.

    Attributes:
        anew: Whether cause or tier changed: the report is to say so, too.
    """

    finding: WatchFinding
    anew: bool = False

    @property
    def folder(self) -> str:
        """Of the archive."""
        return self.finding.folder


@dataclass(frozen=True, slots=True)
class Dumped:
    """An archive is to have the dumps of its run, and its finding.json what they tell."""

    finding: WatchFinding

    @property
    def folder(self) -> str:
        """Of the archive."""
        return self.finding.folder


Job = Opening | Closing | Renewed | Dumped


@dataclass(slots=True)
class _Later:
    due: float
    tries: int
    job: Job


class Jobs:
    """The queue; one thread takes from it.

    Args:
        most: Jobs that wait, those that come again included.
        first_pause: Seconds after which a job comes again that failed once.
    """

    def __init__(self, most: int = MOST_JOBS, first_pause: float = FIRST_PAUSE_SECONDS) -> None:
        self._most = most
        self._first_pause = first_pause
        self._ready: deque[tuple[Job, int]] = deque()
        self._later: list[_Later] = []
        self._under_way: tuple[Job, int] | None = None
        self._ended = False
        self._changed = threading.Condition()

    def put(self, job: Job) -> bool:
        """Hand a job in; False = too many wait."""
        with self._changed:
            if len(self._ready) + len(self._later) >= self._most:
                return False
            self._ready.append((job, 0))
            self._changed.notify_all()
            return True

    def take(self) -> Job | None:
        """The next job, waited for; None = the end."""
        with self._changed:
            while not self._ended:
                now = monotonic()
                for one in [one for one in self._later if one.due <= now]:
                    self._later.remove(one)
                    self._ready.append((one.job, one.tries))
                if self._ready:
                    self._under_way = self._ready.popleft()
                    return self._under_way[0]
                due = min((one.due for one in self._later), default=None)
                self._changed.wait(None if due is None else due - now)
            return None

    def over(self, *, failed: bool) -> None:
        """The job that was taken last is done, or is to come again."""
        with self._changed:
            assert self._under_way is not None
            job, tries = self._under_way
            self._under_way = None
            if failed:
                pause = min(LONGEST_PAUSE_SECONDS, self._first_pause * 2 ** min(tries, 20))
                self._later.append(_Later(monotonic() + pause, tries + 1, job))
            self._changed.notify_all()

    def closes_later(self, closing: Closing) -> bool:
        """Whether an archive that failed is to be written yet; it will say then that it closed."""
        with self._changed:
            for one in self._later:
                if isinstance(one.job, Opening) and one.job.folder == closing.folder:
                    one.job = replace(one.job, finding=closing.finding)
                    return True
        return False

    def wait(self, seconds: float) -> bool:
        """Until nothing is to be done but what comes again; whether it was in time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._ready and self._under_way is None, seconds
            )

    def end(self) -> None:
        """Nothing more is taken."""
        with self._changed:
            self._ended = True
            self._ready.clear()
            self._changed.notify_all()
