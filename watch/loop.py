"""Runs cycle after cycle, whatever Prometheus does, saves the memory, and hands findings on."""

import logging
import math
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, process_time

from lockstep.analyzer.findings.finding import Change, Kind, Tier, WatchFinding
from lockstep.analyzer.hardware.sequential_test.state import State, restore, save
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.shapes.run import Verdict
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose.diagnosis import exit_code
from lockstep.terminal.output import bug
from lockstep.watch.archive.archivist import Archivist
from lockstep.watch.archive.jobs import Plan
from lockstep.watch.archive.reports import Reports
from lockstep.watch.cycle import Cycles, Outcome
from lockstep.watch.hangs.standstills import Standstills
from lockstep.watch.judge.detections import Still
from lockstep.watch.judge.memory import Memory, MemoryFileError, from_json, to_json
from lockstep.watch.judge.presence import stale_after
from lockstep.watch.serve import metrics as page
from lockstep.watch.settings import Settings

LOG = logging.getLogger(__name__)

END_SECONDS = 2.0
"""Between two cycles while it cannot be told yet how a run ended: a page that missed one scrape is
waited for."""
SUSPECT_SECONDS = 3.0
"""Between two cycles while something is new about a run and nobody is named: pages are scraped one
after the other, and a cycle of 15 s finds them 7.5 s old on average."""
LONGEST_PAUSE_SECONDS = 120.0
LONGEST_PAUSE_CYCLES = 20
"""After failures pauses double up to the shorter of both."""
LEAST_ANSWER_SECONDS = 30.0
ANSWER_CYCLES = 2.0
"""An answer may take so many intervals: then a cycle is missed, and that is said."""
LEAST_CYCLE_SECONDS = 60.0
CYCLES_OF_A_CYCLE = 4.0
MOST_CYCLE_SECONDS = 300.0
"""All answers of a cycle together may take the longer of the first two, and no longer than that."""
LATE = 2.0
"""A cycle that took so many times as long, pause and all, hangs."""
WOKEN_SECONDS = 0.2
"""A cycle that is wanted now begins so late at most."""
RENEW_SECONDS = 60.0
"""As alerts are sent again: so old is what finding.json says of an open finding at most."""
TRIES_WITH_OPERATIONS = 1
NO_OPERATIONS = "no operations: a process that fetched them ended before this archive was written"

GRAVEST_FIRST = (ExitCode.CULPRIT, ExitCode.WARNING, ExitCode.UNKNOWN, ExitCode.OK)
"""What was found is not hidden by what is not known."""

OnChange = Callable[[Sequence[WatchFinding], Sequence[WatchFinding], Sequence[WatchFinding]], None]
"""Called after every cycle with what opened, what closed, and what is open since before."""


class Watch:
    """The loop.

    Args:
        settings: How to work.

    Attributes:
        on_change: Hooks; they return soon, since a cycle waits for them.
        more_samples: What others add to the page.
        reports: Who writes the reports of archives.
        taken: Which alerts each Alertmanager took by now, which is saved with the findings; None =
            nobody sends any.
    """

    def __init__(self, settings: Settings) -> None:
        self.on_change: list[OnChange] = []
        self.more_samples: list[Callable[[], Iterable[Sample]]] = []
        self.taken: Callable[[], Mapping[str, frozenset[str]]] | None = None
        self._settings = settings
        self._cycles = _restored(settings)
        self._woken = threading.Event()
        self._standstills = Standstills(
            settings, self._pages, lambda: self._cycles.memory.runs, self._woken.set
        )
        self.reports = Reports()
        self._archivist = Archivist(settings, keep=self._standstills.keep, report=self.reports.want)
        self._last: Outcome | None = None
        self._trouble = ""
        self._replicas = ""
        self._failures = 0
        self._begun = 0
        self._answered = float("-inf")
        self._failed_cycles = 0
        self._opened = 0
        self._dumped: set[tuple[str, str]] = set()
        self._renewed: dict[str, tuple[float, tuple[float | None, float | None]]] = {}
        self._state_failures = 0
        self._seconds = float("nan")
        self._pause = 0.0
        self._finished = monotonic()
        self._lock = threading.Lock()
        self._saving = threading.Lock()

    @property
    def trouble(self) -> str:
        """Why the last cycle got no answer; empty = it got one."""
        return self._trouble

    @property
    def url(self) -> str:
        """Of the Prometheus."""
        return self._settings.access.url

    def start(self) -> None:
        """Write archives from now on; those that an earlier process owes are written again."""
        self.reports.start()
        self._archivist.start()
        self._standstills.start()

    def stop(self) -> None:
        """Save and end; an archive under way is written by the next process."""
        self._archivist.stop()
        self.reports.stop()
        self._standstills.stop()
        self._save()

    def run(self, ended: threading.Event) -> None:
        """Cycles until `ended` is set."""
        due = monotonic()
        while not ended.is_set():
            self.cycle()
            longest = min(LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_CYCLES * self._settings.interval)
            pause = self._settings.interval * 2 ** min(self._failures, 6)
            self._pause = max(self._settings.interval, min(pause, longest))
            due = max(due + min(self._pause, self._soon()), monotonic())
            while not self._woken.is_set() and (left := due - monotonic()) > 0:
                if ended.wait(min(left, WOKEN_SECONDS)):
                    break
            if self._woken.is_set():  # a run stands still: whom it concerns is told now
                self._woken.clear()
                due = monotonic()

    def _soon(self) -> float:
        """Seconds after which a cycle is wanted, however long cycles are apart."""
        if self._failures:
            return math.inf
        if self._cycles.awaits_end:
            return END_SECONDS
        if not self._cycles.suspects:
            return math.inf
        return max(SUSPECT_SECONDS, 2 * self._seconds)  # no more than half of the time in cycles

    def cycle(self) -> bool:
        """One cycle; whether Prometheus answered."""
        begin = monotonic()
        self._begun += 1
        answer_seconds = max(LEAST_ANSWER_SECONDS, ANSWER_CYCLES * self._settings.interval)
        until = begin + self._most_seconds
        try:
            access = self._settings.access
            with Connection(access, answer_seconds, whole=True, until=until) as connection:
                stood = self._standstills
                still = Still(stood.standing(), stood.excused(), stood.longest())
                outcome = self._cycles.next(connection, min(self._failures, 4), still)
                self._say_replicas(connection.replicas(outcome.look.now).words)
        except SourceError as error:
            self._failures += 1
            self._failed_cycles += 1
            self._say(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - one cycle must not end the others
            self._failures += 1
            self._failed_cycles += 1
            bug("a cycle failed", error)
            return False
        finally:
            self._finished = monotonic()
            self._seconds = self._finished - begin
        self._failures = 0
        self._answered = monotonic()
        self._say("")
        with self._lock:
            self._last = outcome
        self._tell(outcome, still)
        return True

    def hangs(self) -> str:
        """Why this must be taken for hung; empty = a cycle has finished not long ago.

        One that Prometheus did not answer has finished, too: starting anew would not help there.
        """
        age, most = monotonic() - self._finished, self._pause + LATE * self._most_seconds
        if age <= most:
            return ""
        return f"no cycle has finished for {age:.0f} s; one may take {most:.0f} s"

    def _pages(self, run: str) -> tuple[tuple[str, str], ...]:
        """(job, instance) of the pages that tell of a run."""
        with self._lock:
            last = self._last
        if last is None:
            return ()
        members = last.look.members
        columns = members.columns_of_run.get(run)
        if columns is None:
            return ()
        jobs, instances = members.job[columns].tolist(), members.instance[columns].tolist()
        return tuple(dict.fromkeys(zip(jobs, instances, strict=True)))

    @property
    def _most_seconds(self) -> float:
        """For the answers of one cycle."""
        wanted = max(LEAST_CYCLE_SECONDS, CYCLES_OF_A_CYCLE * self._settings.interval)
        return min(wanted, MOST_CYCLE_SECONDS)

    def verdicts(self) -> tuple[Verdict, ...]:
        """The last verdict of each run that lives."""
        return tuple(one.verdict for one in self._cycles.diagnoses.last.values())

    def findings(self) -> tuple[WatchFinding, ...]:
        """All that are open."""
        return tuple(self._cycles.memory.course.open.values())

    def closed_lately(self) -> tuple[WatchFinding, ...]:
        """Of whom whoever is told of findings may not have heard that they are over."""
        return tuple(self._cycles.closed_lately())

    def taken_before(self) -> Mapping[str, Collection[str]]:
        """Which alerts each Alertmanager had taken when that was last saved."""
        return self._cycles.memory.taken

    def report(self) -> list[str]:
        """A line for each open finding, or for each run where none is open."""
        open_now = [f"{one.tier.value}: {one.summary}" for one in self.findings()]
        lines = open_now or [f"{one.run}: {one.sentence}" for one in self.verdicts()]
        lines += [
            f"{run}: Unknown: no diagnosis of it is at hand; the log says why"
            for run in self._undiagnosed()
        ]
        return [one_line(line) for line in lines] or ["no run is known to live"]

    def live(self, node: str | None) -> tuple[str, ...]:
        """Runs that live; those on a node, if one is given."""
        with self._lock:
            last = self._last
        if last is None:
            return ()
        members, living = last.look.members, last.look.living
        here = living if node is None else living & (members.node == node)
        return tuple(dict.fromkeys(members.run[here].tolist()))

    def archive(self, finding: WatchFinding) -> Path:
        """Write the archive of a finding that this watch did not find: of somebody else's alert.

        Args:
            finding: Of a live run.

        Raises:
            OSError: It cannot be written, there is no folder for archives, or the archive of a
                finding of our own about this place is still to be written.
        """
        with self._lock:
            last = self._last
        if last is None or self._settings.out is None:
            raise OSError("no archives are written; give --out DIR")
        who, owed = replace(finding.who, link=None), self._cycles.memory.unwritten
        for one in self.findings():
            if one.folder in owed and who == replace(one.who, link=None):
                raise OSError(f"the archive {one.folder} about it is still to be written")
        return self._archivist.write(finding, self._cycles.plan(finding, last.look, last.known.own))

    def wait(self, seconds: float) -> bool:
        """Until all archives and their reports are written; whether it was in time."""
        until = monotonic() + seconds
        done = self._archivist.wait(seconds)
        self._settle()
        return self.reports.wait(max(0.0, until - monotonic())) and done

    def told_of(self, folder: str) -> str:
        """What is known of a finding, by its folder; "" = of none that is open, or was lately."""
        memory = self._cycles.memory
        known = (one for one in (*memory.course.open.values(), *memory.closed))
        return next((one.summary for one in known if one.folder == folder), "")

    def samples(self) -> list[Sample]:
        """The page."""
        with self._lock:
            last = self._last
        memory = self._cycles.memory
        found: list[Sample] = []
        if last is not None:
            fresh = monotonic() - self._answered <= stale_after(self._settings.interval)
            # Fresh or absent: of runs and healthy nodes nothing is told that nobody looked at
            # lately. Findings stay: they are over when somebody saw that.
            found += page.of_runs(last.known, memory.runs) if fresh else ()
            found += page.of_inventory(memory.inventory)
            found += page.of_findings(self.findings(), last.known.looked if fresh else ())
            newest = max((when for _, when in last.look.pages), default=float("nan"))
            found += (m.LAST_EVALUATION(last.look.now), m.DATA_AGE(last.look.now - newest))
        diagnoses = self._cycles.diagnoses
        found += (
            m.CYCLE_DURATION(self._seconds),
            m.CYCLES(self._begun),
            m.PROMETHEUS_UP(int(last is not None and not self._failures)),
            m.QUERY_FAILURES(
                self._failed_cycles + diagnoses.failed_queries + self._cycles.unanswered
            ),
            *diagnoses.samples(),
            m.FINDINGS_OPEN(len(memory.course.open)),
            m.FINDINGS_OPENED(self._opened),
            *self._archivist.samples(),
            m.STATE_FAILURES(self._state_failures),
            m.ANALYZER_CPU(process_time()),
            m.ANALYZER_RSS(resident_bytes()),
        )
        for more in self.more_samples:
            found += more()
        return found

    def exit_code(self) -> int:
        """Of one cycle, as of `analyze`; 69 where Prometheus did not answer.

        A finding comes before what is not known of another run; where nothing was judged, nothing
        is known.
        """
        if self._last is None:
            return ExitCode.UNREACHABLE
        found = self.findings()
        if any(one.tier is Tier.PAGE or one.kind is not Kind.HARDWARE for one in found):
            return ExitCode.CULPRIT
        codes = [exit_code(one) for one in self.verdicts()]
        codes += [ExitCode.WARNING] * bool(found) + [ExitCode.UNKNOWN] * bool(self._undiagnosed())
        return next((code for code in GRAVEST_FIRST if code in codes), ExitCode.UNKNOWN)

    def _undiagnosed(self) -> list[str]:
        """Runs that live and have no verdict."""
        last = self._cycles.diagnoses.last
        return [run for run in self.live(None) if run not in last]

    def _tell(self, outcome: Outcome, still: Still) -> None:
        """Remember first, then write and tell: who is killed in between tells again."""
        change = outcome.change
        self._opened += len(change.opened)
        self._settle()
        owed = self._owed(change, outcome)
        self._save()
        for finding in change.opened:
            LOG.warning("opened %r: %s", finding.folder, one_line(finding.words))
            self._archivist.opened(finding, outcome.plans[finding.folder])
        for finding in change.still:
            if finding.folder in change.paged:
                LOG.warning("pages %r: %s", finding.folder, one_line(finding.words))
                self._archivist.opened(finding, outcome.plans[finding.folder], again=True)
        self._keep_dumps(change, still)
        self._renew(change)
        for finding in change.closed:
            LOG.warning("closed %r: %s", finding.folder, one_line(finding.summary))
            self._archivist.closed(finding)
        for finding, plan in owed:
            self._archivist.opened(finding, plan)
        for hook in self.on_change:
            try:
                hook(change.opened, change.closed, change.still)
            except Exception as error:  # noqa: BLE001 - who is told must not end who watches
                bug("a finding was not handed on", error)

    def _renew(self, change: Change) -> None:
        """What is known of open findings by now, into their archives: what changed at once."""
        now, before = monotonic(), self._renewed
        for one in change.still:
            known = (one.learnt, one.paged)
            when, told = before.setdefault(one.folder, (now, known))
            if known == told and now - when < RENEW_SECONDS:
                continue
            before[one.folder] = now, known
            self._archivist.renewed(one, anew=known != told)
        here = {one.folder for one in change.open}
        self._renewed = {folder: when for folder, when in before.items() if folder in here}

    def _keep_dumps(self, change: Change, still: Still) -> None:
        """Into the archives of runs that stood; once, and again when the dumps tell more."""
        hangs = {run for run, one in still.standing.items() if one.hangs}
        now = {
            (one.folder, one.words): one
            for one in change.open
            if one.kind is Kind.STOP and one.who.run in hangs
        }
        for key in now.keys() - self._dumped:
            self._archivist.dumped(now[key])
        self._dumped = set(now)

    def _owed(self, change: Change, outcome: Outcome) -> list[tuple[WatchFinding, Plan]]:
        """What an earlier process did not get to: begun anew in the first cycle."""
        if self._begun - self._failed_cycles > 1 or self._settings.out is None:
            return []
        memory, new = self._cycles.memory, {one.folder for one in change.opened}
        begun = {one.folder: one for one in change.still if one.folder in memory.unwritten}
        begun |= {one.folder: one for one in memory.closed if one.folder in memory.unwritten}
        closed_now = {one.folder for one in change.closed}
        for one in memory.closed:
            if one.folder in memory.unclosed and one.folder not in closed_now:
                self._archivist.closed(one)
        # Of what closed long ago nobody knows any more what belongs into its archive.
        counted = {
            folder: tries + (folder in begun)
            for folder, tries in memory.unwritten.items()
            if folder in begun or folder in new
        }
        self._cycles.memory = replace(memory, unwritten=counted)
        plans = []
        for finding in begun.values():
            plan = self._cycles.plan(finding, outcome.look, outcome.known.own)
            if counted[finding.folder] > TRIES_WITH_OPERATIONS:
                plan = replace(plan, collectors={}, lacks=(*plan.lacks, NO_OPERATIONS))
            plans.append((finding, plan))
        return plans

    def _settle(self) -> None:
        memory = self._cycles.memory
        written, closed = self._archivist.done()
        if written or closed:
            self._cycles.memory = replace(
                memory,
                unwritten={name: n for name, n in memory.unwritten.items() if name not in written},
                unclosed={name: t for name, t in memory.unclosed.items() if name not in closed},
            )

    def _save(self) -> None:
        folder = self._settings.state
        if folder is None:
            return
        try:
            with self._saving:
                if self.taken is not None:
                    self._cycles.memory = replace(self._cycles.memory, taken=self.taken())
                store(folder, self._cycles.state, self._cycles.memory)
        except OSError as error:
            self._state_failures += 1
            if self._state_failures == 1:
                LOG.error("the state cannot be saved in %s: %s", folder, error.strerror or error)

    def _say_replicas(self, words: str) -> None:
        """Log whose series count, when that changes."""
        if words and words != self._replicas:
            LOG.warning("%s", words)  # what is less is not shown
        self._replicas = words

    def _say(self, trouble: str) -> None:
        """Once for each change of what is wrong."""
        if trouble and trouble != self._trouble:
            LOG.warning("%s; findings stay as they are, and it is asked again", trouble)
        elif self._trouble and not trouble:
            LOG.warning("%s answers again", self._settings.access.url)
        self._trouble = trouble


def one_line(text: str) -> str:
    """A text with names in it, on one line of a log."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _restored(settings: Settings) -> Cycles:
    state, memory, words = load(settings.state)
    for each in words:
        LOG.warning("%s", each)
    return Cycles(settings, state, memory)


STREAMS_FILE = "streams.npz"
MEMORY_FILE = "memory.json"


def load(folder: Path | None) -> tuple[State, Memory, list[str]]:
    """What was remembered, and sentences on what was not; without a folder nothing is."""
    if folder is None:
        return State.new(), Memory(), []
    state, why = restore(folder / STREAMS_FILE)
    words = [why] if why else []
    path = folder / MEMORY_FILE
    try:
        refused: list[str] = []
        memory = from_json(path.read_text("utf-8"), refused.append)
        words += [f"{path} has what cannot be, which is left out: {each}" for each in refused[:9]]
        return state, memory, words
    except FileNotFoundError:
        words.append(f"{path} is not there yet; no finding is open")
    except (OSError, UnicodeError, MemoryFileError) as error:
        words.append(f"{path} cannot be used ({error}); findings that were open open again")
    return state, Memory(), words


def store(folder: Path, state: State, memory: Memory) -> None:
    """Write both; who is killed between them finds a stream reported and its finding not open yet.

    Raises:
        OSError: The disk is full or not writable; what was there stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save(state, folder / STREAMS_FILE)
    write_whole(folder / MEMORY_FILE, to_json(memory))


STATM = Path("/proc/self/statm")


def resident_bytes() -> float:
    """Resident memory; NaN where the system does not tell (proc(5), statm)."""
    try:
        pages = int(STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return float("nan")
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
