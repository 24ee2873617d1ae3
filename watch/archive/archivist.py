"""Writes the archives of findings, in a thread of its own: no cycle waits for a collector."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lockstep.analyzer.findings.finding import Tier, WatchFinding, finding_json
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.analyzer.read.prometheus.connection import SCRAPE_URL, Connection
from lockstep.analyzer.read.prometheus.load import read_targets
from lockstep.analyzer.shapes.run import Fact, Run
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import threads
from lockstep.collector.contract.archive import SAMPLES_FILE
from lockstep.collector.contract.metrics import Sample
from lockstep.terminal.output import bug
from lockstep.watch.archive import finding_folders, folder
from lockstep.watch.archive.jobs import Closing, Dumped, Job, Jobs, Opening, Plan, Renewed
from lockstep.watch.archive.reports import Urgency
from lockstep.watch.judge.diagnoses import Judged
from lockstep.watch.look import collectors as operations
from lockstep.watch.look.collectors import Operations
from lockstep.watch.settings import Settings

LOG = logging.getLogger(__name__)

DUMPS_FOLDER = "dumps"
"""Below the archive of a finding: the dumps, evidence.json and hang.json, the verdict on them."""
KEPT = ("alerts", "record_of")
"""What finding.json says that watch's finding does not know."""
NO_DUMPS = Fact(False, "its dumps were gone before they could be kept", "")
"""In an archive whose finding tells of dumps that nobody has any more."""
TRIES = 3
AGAIN_SECONDS = 5.0
"""Between two tries to read from Prometheus."""
MOST_SAMPLES = 400_000
"""Of an archive, about 100 MB while it is written and 4 MB on disk."""
SAME_SECONDS = 60.0
"""Findings of a run that open so close together have one archive: the files are linked."""


Keep = Callable[[str, Path], bool]
"""Puts the dumps of a run into a folder; False = there are none any more."""
Report = Callable[[Path, Urgency], None]
"""Has the verdict and the report of an archive written, by somebody else."""


@dataclass(frozen=True, slots=True)
class _Recent:
    """An archive with samples: when it opened, and by what."""

    opened: float
    judged: Judged | None
    place: Path


class Archivist:
    """Takes findings that opened and closed; `start`, then `stop`.

    Attributes:
        failures: Tries to write an archive, or into it, that failed, and what was refused since too
            many wait.
        unfetched: Collectors that gave no operations.
    """

    def __init__(
        self, settings: Settings, jobs: Jobs | None = None, keep: Keep | None = None,
        report: Report = lambda *_: None,
    ) -> None:  # fmt: skip
        self.failures = 0
        self.unfetched = 0
        self._settings = settings
        self._jobs = Jobs() if jobs is None else jobs
        self._keep = keep
        self._report = report
        self._written: set[str] = set()
        self._closed: set[str] = set()
        self._recent: dict[tuple[str, str | None], _Recent] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threads.loop("archivist", self._run, self._ending)

    def start(self) -> None:
        """Write from now on."""
        if self._settings.out is not None:
            folder.clean(self._settings.out)
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more; what is under way is begun anew by the next process."""
        self._ending.set()
        self._jobs.end()

    def wait(self, seconds: float) -> bool:
        """Until everything that was handed in is written or has failed; whether it was in time."""
        return self._jobs.wait(seconds)

    def opened(self, finding: WatchFinding, plan: Plan, *, again: bool = False) -> None:
        """A finding opened: write its archive.

        Args:
            finding: As it is known now.
            plan: What belongs into its archive.
            again: It was open for the record, and is a page: what is known of it by now replaces
                what was.
        """
        self._hand_in(Opening(finding, plan, again))

    def closed(self, finding: WatchFinding) -> None:
        """A finding closed: `finding.json`, verdict and report in its folder say so."""
        self._hand_in(Closing(finding))

    def renewed(self, finding: WatchFinding, *, anew: bool = False) -> None:
        """More is known of an open finding: the `finding.json` of its folder says so.

        Args:
            finding: As it is known now.
            anew: Whether its cause or tier changed: its report says so, too.
        """
        self._hand_in(Renewed(finding, anew))

    def dumped(self, finding: WatchFinding) -> None:
        """Dumps told of it: they go into its archive, and `finding.json` says what they tell."""
        self._hand_in(Dumped(finding))

    def done(self) -> tuple[frozenset[str], frozenset[str]]:
        """Folders that were written, and that say they closed, since this was last asked."""
        with self._lock:
            done = frozenset(self._written), frozenset(self._closed)
            self._written, self._closed = set(), set()
        return done

    def samples(self) -> Sequence[Sample]:
        """What the page says of archives."""
        return m.OPERATION_FETCH_FAILURES(self.unfetched), m.ARCHIVE_FAILURES(self.failures)

    def write(self, finding: WatchFinding, plan: Plan, *, again: bool = False) -> Path:
        """Write an archive now; of one minute's findings of a run, all but the first are links.

        Args:
            finding: What it is about.
            plan: What belongs into it.
            again: As `opened`.

        Raises:
            OSError: The disk is full or not writable.
        """
        out = self._settings.out
        assert out is not None
        with folder.unfinished(out, finding) as unfinished:
            recent = self._same(finding, plan)
            if recent is None:
                self._fill(unfinished, finding, plan)
            else:
                folder.link(recent.place, unfinished, finding, plan.judged)
            place = folder.publish(unfinished, out, finding, again=again)
        if recent is None and (place / SAMPLES_FILE).exists():
            self._remember(finding, _Recent(_moment(finding), plan.judged, place))
        self._report(place, Urgency.PAGE if finding.tier is Tier.PAGE else Urgency.RECORD)
        return place

    def _fill(self, unfinished: Path, finding: WatchFinding, plan: Plan) -> None:
        """Everything but the verdict and the report."""
        connection = Connection(self._settings.access, whole=True)
        with connection:
            given = self._fetch(connection, finding, plan)
            run, why = self._read(connection, finding, plan)
        missing = list(plan.lacks)
        missing += [f"no operations of {page}: {words}" for page, words in given.silent.items()]
        missing += [f"no samples: {why}"] if why else []
        if plan.pages.part:
            missing.append("only the pages of the culprit and of some of its peers were read")
        folder.fill(unfinished, finding, run, given, plan.start, plan.judged, missing)

    def _same(self, finding: WatchFinding, plan: Plan) -> _Recent | None:
        """The archive whose record is this one's too: of the same minute, about the same span."""
        with self._lock:
            recent = self._recent.get(_about(finding))
        if recent is None or abs(_moment(finding) - recent.opened) >= SAME_SECONDS:
            return None
        return recent if recent.judged is plan.judged and recent.place.is_dir() else None

    def _remember(self, finding: WatchFinding, recent: _Recent) -> None:
        with self._lock:
            since = _moment(finding) - SAME_SECONDS
            kept = {about: one for about, one in self._recent.items() if one.opened > since}
            self._recent = {**kept, _about(finding): recent}

    def _hand_in(self, job: Job) -> None:
        if self._settings.out is not None and not self._jobs.put(job):
            self._failed(job, "too many wait; the next start of watch tries again")

    def _run(self) -> None:
        while (job := self._jobs.take()) is not None:
            failed = False
            try:
                failed = not self._work(job)
            finally:
                self._jobs.over(failed=failed)

    def _work(self, job: Job) -> bool:
        """Do it; whether it is done, or can never be."""
        closed = isinstance(job, Closing)
        assert self._settings.out is not None
        try:
            if isinstance(job, Opening):
                self.write(job.finding, job.plan, again=job.again)
                closed = job.finding.closed is not None
                if closed:  # before its archive was written
                    self._say(job.finding)
            elif isinstance(job, Dumped):
                return self._dumped(job.finding)
            elif isinstance(job, Renewed):
                if self._say(job.finding) and job.anew:
                    self._report(self._settings.out / job.folder, Urgency.LATER)
                return True
            elif not self._close(job):
                return True
        except OSError as error:
            self._failed(job, f"{error.strerror or error}; it is tried again")
            return False
        except Exception as error:  # noqa: BLE001 - one archive must not end the others
            self.failures += 1
            bug(f"the archive {job.folder!r} cannot be written", error)
        with self._lock:
            if isinstance(job, Opening):
                self._written.add(job.folder)
            if closed:
                self._closed.add(job.folder)
        return True

    def _failed(self, job: Job, why: str) -> None:
        self.failures += 1
        LOG.error("the archive %r cannot be written: %s", job.folder, why)

    def _dumped(self, finding: WatchFinding) -> bool:
        """Put the dumps of a run into an archive; False = the archive is still to be written."""
        out = self._settings.out
        assert out is not None
        if not (out / finding.folder).is_dir():
            return False
        place = out / finding.folder / DUMPS_FOLDER
        if self._keep is not None and not self._keep(finding.who.run, place):
            finding = replace(finding, facts=(*finding.facts, NO_DUMPS))
        told = finding_json(finding)

        def say(tree: Mapping[str, object]) -> Mapping[str, object]:
            over = tree.get("closed") is not None  # then more is known than when it was handed in
            keys = ("hang", "evidence") if over else ("hang", "sentence", "evidence")
            return {**tree, **{key: told[key] for key in keys}}

        if finding_folders.update(out / finding.folder, say):
            self._report(out / finding.folder, Urgency.LATER)
        return True

    def _close(self, job: Closing) -> bool:
        """Say in an archive that its finding closed; False = the archive is still to be written."""
        out = self._settings.out
        assert out is not None
        if self._say(job.finding):
            self._report(out / job.folder, Urgency.LATER)
            return True
        return not self._jobs.closes_later(job)

    def _say(self, finding: WatchFinding) -> bool:
        """Put what is known of a finding into its finding.json; False = there is none."""
        out = self._settings.out
        assert out is not None
        told = finding_json(finding)

        def say(tree: Mapping[str, object]) -> Mapping[str, object] | None:
            if finding.closed is None and tree.get("closed") is not None:
                return None  # it was told late, after the end
            kept = {name: tree[name] for name in KEPT if name in tree}
            before = tree.get("evidence")
            gone = [
                one for one in (before if isinstance(before, list) else ())
                if isinstance(one, dict) and one.get("text") == NO_DUMPS.text
            ]  # fmt: skip
            return {**tree, **told, **kept, "evidence": [*told["evidence"], *gone]}

        return finding_folders.update(out / finding.folder, say)

    def _fetch(self, connection: Connection, finding: WatchFinding, plan: Plan) -> Operations:
        """The operations: first, since they are overwritten soon."""
        run = finding.who.run
        if not run:
            return Operations()
        given = operations.fetch(addresses(connection, plan), run, plan.from_step)
        self.unfetched += len(given.silent)
        return given

    def _read(
        self, connection: Connection, finding: WatchFinding, plan: Plan
    ) -> tuple[Run | None, str]:
        why = ""
        for _ in range(TRIES):
            try:
                run = read_targets(
                    connection, finding.who.run, plan.pages.targets, plan.start, plan.end,
                    MOST_SAMPLES, part=plan.pages.part,
                )  # fmt: skip
            except SourceError as error:
                why = str(error)
                if self._ending.wait(AGAIN_SECONDS):
                    break
            else:
                return replace(run, name=finding.who.run), ""
        return None, why


def _about(finding: WatchFinding) -> tuple[str, str | None]:
    """Findings that share a record: of a run, or of a node without one."""
    return finding.who.run, None if finding.who.run else finding.who.node


def _moment(finding: WatchFinding) -> float:
    """Unix seconds of the cycle that its archive is from."""
    return finding.opened if finding.paged is None else finding.paged


def addresses(connection: Connection, plan: Plan) -> list[str]:
    """Where the pages of targets are, the culprit's and its peers' first.

    Of a server that does not say, by their instance.
    """
    wanted = {(job, name) for job, names in plan.collectors.items() for name in names}
    first = [(job, name) for job, names in plan.pages.targets.items() for name in names]
    try:
        known = {
            (labels.get("job", ""), labels.get("instance", "")): labels[SCRAPE_URL]
            for labels in connection.targets()
        }
    except SourceError:  # Thanos and Mimir do not know the targets
        known = {}
    order = [*(one for one in first if one in wanted), *sorted(wanted.difference(first))]
    return [known.get(target, f"http://{target[1]}/metrics") for target in order]
