"""The jobs of the archivist: what belongs into an archive, and a bounded queue with retries."""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.findings.finding import WatchFinding, is_named
from lockstep.watch.judge.diagnoses import MOST_PAGES, Judged, Pages, Targets, pages
from lockstep.watch.judge.memory import Memory
from lockstep.watch.look.snapshot import Look

OPERATION_PAGES = 32
"""Of a run on more nodes, only the collectors whose pages are read are asked for operations."""
STEPS_BEFORE = 100
"""Steps before the first slow one that an archive should have."""
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


def plan(
    finding: WatchFinding, seen: Look, own: NDArray[np.float64], memory: Memory,
    verdicts: Mapping[str, Judged], window: float,
) -> Plan:  # fmt: skip
    """What belongs into the archive of a finding.

    Args:
        finding: As it is known now.
        seen: Of this cycle.
        own: (R,) own time over the median of the peers.
        memory: Which pages told of the run before.
        verdicts: The last diagnosis of each run, if it is fresh.
        window: Seconds before its onset that belong into it.
    """
    run, members = finding.who.run, seen.members
    judged = verdicts.get(run)
    if judged is not None and not is_named(judged.verdict, finding.who):
        judged = None
    begin = min(finding.onset, seen.now) - window
    columns = members.columns_of_run.get(run)
    if columns is None:
        here = [key for key, (node, _) in memory.nodes.items() if node == finding.who.node]
        if (life := memory.lives.get(run)) is not None:  # what its pages told last
            here += sorted(life.pages.difference(here))
        few, targets = here[:MOST_PAGES], dict[str, tuple[str, ...]]()
        for job, instance in few:
            targets[job] = (*targets.get(job, ()), instance)
        chosen = Pages(targets, part=life is None or len(few) < len(here))
        return Plan(chosen, {}, begin, seen.now, 0, None)
    suspects = [] if finding.who.rank is None else [finding.who.rank]
    every, life = seen.pages_of(run), memory.lives.get(run)
    silent = frozenset() if life is None else life.pages - every  # as of a lost node
    # What the verdict was reached by is read again: it is then the archive's own.
    chosen = pages(members, run, suspects, own, silent) if judged is None else judged.pages
    collectors: dict[str, tuple[str, ...]] = {}
    for job, instance in sorted(every):
        collectors[job] = (*collectors.get(job, ()), instance)
    begin = max(begin, seen.now - 6 * window)
    first = 0 if finding.from_step is None else finding.from_step
    done = memory.runs[run].steps
    return Plan(
        pages=chosen,
        collectors=collectors if len(every) <= OPERATION_PAGES else chosen.targets,
        start=begin if judged is None else min(begin, judged.span.start),
        end=seen.now,
        from_step=max(0, first - STEPS_BEFORE - int(max(0.0, done - first))),
        judged=judged,
    )


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
