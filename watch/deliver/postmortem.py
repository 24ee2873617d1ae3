"""The post-mortems of alerts: a thread of its own finds their archives and has reports written.

Neither who tells of an alert nor the cycle that watches waits for it.
"""

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic

from lockstep.analyzer.findings.alertmanager.webhook import (
    FINDING_ALERT,
    Notification,
    ReceivedAlert,
    matching_finding,
    with_alert,
)
from lockstep.analyzer.findings.alerts import of_alert
from lockstep.analyzer.findings.finding import WatchFinding
from lockstep.analyzer.rules.alert_rules.shape import Severity
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import threads
from lockstep.collector.contract.archive import REPORT_STEM
from lockstep.collector.contract.metrics import Sample
from lockstep.terminal.output import CommandError
from lockstep.watch.archive import finding_folders
from lockstep.watch.archive.reports import Reports, Urgency

# An alert belongs to an archive, which names it from then on, or to a fresh one.

PAGE = f"{REPORT_STEM}.html"
MOST_OWED = 100
"""Reports that a new process writes for the one before it."""


@dataclass(frozen=True, slots=True)
class WatchAccess:
    """What the watching part knows and does for post-mortems; called from another thread.

    Attributes:
        out: Folder of all archives.
        live: Runs that live now, by the node if one is given.
        archive: Writes the archive of a finding that watch itself did not find; its folder.
    """

    out: Path
    live: Callable[[str | None], Sequence[str]]
    archive: Callable[[WatchFinding], Path]


class EarlyError(Exception):
    """The archive that the alert belongs to may not be there yet."""


class UnmatchedError(Exception):
    """The alert is about no run that is known here; the message says what it is about."""


def noted_in(
    alert: ReceivedAlert, received: float, watched: WatchAccess, *, early: bool
) -> list[Path]:
    """Archives whose post-mortem is to be written now, since an alert is new in them.

    Args:
        alert: Firing or resolved.
        received: When we heard of it, unix seconds.
        watched: The watching part.
        early: Whether the archive of a finding about it may still be on its way.

    Raises:
        EarlyError: It is to be tried again.
        UnmatchedError: There is nothing to be done about it.
        OSError: The archive cannot be written.
    """
    run, node = alert.labels.get("run", ""), alert.labels.get("node", "")
    own = alert.labels.get("alertname") == FINDING_ALERT
    # Hardware may be found to deviate without a run.
    runs = [run] if run or own else list(watched.live(node)) if node else []
    known = finding_folders.findings(watched.out, runs)
    place = matching_finding(alert, runs, [finding for _, finding in known])
    if place is not None:
        folder, _ = known[place]
        new = _note(folder, alert, received)
        return [folder] if alert.firing and (new or not has_report(folder)) else []
    if not alert.firing:
        return []
    lives = [one for one in runs if one in watched.live(node or None)]
    if early and (own or lives):
        raise EarlyError
    if not lives:
        raise UnmatchedError(f"{'run' if run else 'node'} {run or node!r}")
    return [_fresh(alert, one, received, watched) for one in lives]


def has_report(folder: Path) -> bool:
    """Whether an archive has its report."""
    return (folder / PAGE).exists()


def archives_without_report(out: Path) -> list[Path]:
    """Archives of findings without a report, the newest first."""
    wanted = (folder for folder in finding_folders.newest(out) if not has_report(folder))
    return list(islice((one for one in wanted if finding_folders.read(one) is not None), MOST_OWED))


def _fresh(alert: ReceivedAlert, run: str, received: float, watched: WatchAccess) -> Path:
    folder = watched.archive(of_alert(alert, run, received))
    _note(folder, alert, received)
    return folder


def _note(folder: Path, alert: ReceivedAlert, received: float) -> bool:
    """Note an alert in finding.json; whether it is new there."""
    return finding_folders.update(folder, lambda finding: with_alert(finding, alert, received))


LOG = logging.getLogger(__name__)

MAX_WAITING = 1000
"""Alerts; a notification that does not fit is refused, and its Alertmanager tries again."""
MAX_REMEMBERED = 10_000
PATIENCE_SECONDS = 60.0
"""For the archive of a finding: its alert may be here first."""
RULE_PATIENCE_SECONDS = 2.0
"""What a rule tells of is mostly found by `watch` too: then one archive is enough."""
LOOK_SECONDS = 0.5
STOP_SECONDS = 0.5
MOST_NAMES = 10
"""In a sentence."""
RESULTS = ("written", "failed", "unmatched")


@dataclass(frozen=True, slots=True)
class _Job:
    alert: ReceivedAlert
    received: float
    patience: float


class PostMortems:
    """Takes alerts, and writes the post-mortems of the archives that they belong to.

    Args:
        watching: The watching part.
        unix: Unix seconds.
        reports: Who writes them.
    """

    def __init__(self, watching: WatchAccess, unix: Callable[[], float], reports: Reports) -> None:
        self._watching = watching
        self._unix = unix
        self._reports = reports
        self._change = threading.Condition()
        self._jobs: list[_Job] = []
        self._fresh = False
        self._known: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._counts: Counter[str] = Counter()
        self._ending = False
        self._thread = threads.loop("post-mortems", self._run)

    def start(self) -> None:
        """Work from now on, and write what an earlier process noted and did not write."""
        self._thread.start()

    def stop(self) -> None:
        """Take up nothing more.

        The next process writes what is noted in a finding.json. What is not, is said here: an
        Alertmanager tells of it again only after its `repeat_interval`.
        """
        with self._change:
            self._ending = True
            self._change.notify()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)
        with self._change:
            names = sorted({job.alert.labels.get("alertname", "") for job in self._jobs})
            count = len(self._jobs)
        if count:
            LOG.warning(
                "%d alerts have no post-mortem yet, and this process ends: %s%s", count,
                ", ".join(map(repr, names[:MOST_NAMES])), ", …" if names[MOST_NAMES:] else "",
            )  # fmt: skip

    def take(self, notification: Notification) -> bool:
        """Take the alerts that are new; False if there is no room for them."""
        received = self._unix()
        with self._change:
            new = {
                key: _Job(alert, received, _patience(alert))
                for alert in notification.alerts
                if (key := (*alert.key, alert.firing)) not in self._known
            }
            if len(self._jobs) + len(new) > MAX_WAITING:
                return False
            self._jobs += new.values()
            self._fresh |= bool(new)
            self._known.update(dict.fromkeys(new))
            while len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
            self._change.notify()
        return True

    def samples(self) -> Iterator[Sample]:
        """What the page says about post-mortems."""
        with self._change:
            for result in RESULTS:
                yield m.POST_MORTEMS(self._counts[result], result)
            yield m.POST_MORTEMS_WAITING(len(self._jobs) + self._reports.waiting)
        yield m.POST_MORTEM_DURATION(self._reports.seconds)

    def work(self) -> None:
        """Do what can be done now: note all alerts, then have each archive's report written."""
        with self._change:
            jobs, self._fresh = list(self._jobs), False
        folders: dict[Path, list[_Job]] = {}
        early = {id(job) for job in jobs if not self._noted(job, folders)}
        for folder, told in folders.items():
            self._want(folder, told)
        done = {id(job) for job in jobs} - early
        with self._change:
            self._jobs = [job for job in self._jobs if id(job) not in done]

    def _run(self) -> None:
        for folder in archives_without_report(self._watching.out):
            self._reports.want(folder, Urgency.LATER)
        while True:
            with self._change:
                if not self._fresh and not self._ending:
                    self._change.wait(LOOK_SECONDS if self._jobs else None)
                if self._ending:
                    return
            self.work()

    def _noted(self, job: _Job, folders: dict[Path, list[_Job]]) -> bool:
        """Whether the alert is settled; the archives to be told of are put into `folders`."""
        name = job.alert.labels.get("alertname", "")
        early = monotonic() < job.patience
        try:
            found = noted_in(job.alert, job.received, self._watching, early=early)
        except EarlyError:
            return False
        except UnmatchedError as error:
            LOG.warning("no post-mortem of alert %r: %s is not watched here", name, error)
            self._count("unmatched", [job])
        except Exception as error:  # noqa: BLE001 - one alert must not end those after it
            LOG.error("no post-mortem of alert %r: %s", name, _sentence(error))
            self._count("failed", [job])
        else:
            for folder in found:
                folders.setdefault(folder, []).append(job)
        return True

    def _want(self, folder: Path, jobs: Sequence[_Job]) -> None:
        """Have a report written; alerts of one that failed are taken again when told again."""
        grave = any(job.alert.labels.get("severity") == Severity.CRITICAL for job in jobs)
        urgency = Urgency.PAGE if grave else Urgency.RECORD

        def done(why: str) -> None:
            self._count("failed" if why else "written", jobs if why else ())

        self._reports.want(folder, Urgency.LATER if has_report(folder) else urgency, done)

    def _count(self, result: str, nothing: Sequence[_Job] = ()) -> None:
        """Count; alerts that came to nothing are tried again when they are told again."""
        with self._change:
            self._counts[result] += 1
            for job in nothing:
                self._known.pop((*job.alert.key, job.alert.firing), None)


def _patience(alert: ReceivedAlert) -> float:
    """Until when, by the monotonic clock, the archive that an alert belongs to may be missing."""
    own = alert.labels.get("alertname") == FINDING_ALERT
    return monotonic() + (PATIENCE_SECONDS if own else RULE_PATIENCE_SECONDS)


def _sentence(error: Exception) -> str:
    if isinstance(error, CommandError):
        return error.sentence
    return f"{type(error).__name__}: {error}".partition("\n")[0]
