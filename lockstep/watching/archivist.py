"""Writes the archives of findings, in a thread of its own: no cycle waits for a collector."""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

from analyzer.load.prometheus import SourceError, read
from analyzer.load.prometheus.connection import SCRAPE_URL, Connection
from analyzer.run import Run, Verdict
from analyzer.watch.choice import Pages, Targets
from analyzer.watch.concluded import concluded
from analyzer.watch.finding import Finding
from collector.contract import metrics as m
from collector.contract.metrics import Sample
from lockstep import diagnosis, finding_folders
from lockstep.output import CommandError
from lockstep.watching import folder, operations
from lockstep.watching.memory_of_process import ONE_DIAGNOSIS
from lockstep.watching.operations import Operations
from lockstep.watching.settings import Settings
from lockstep.watching.trouble import bug

LOG = logging.getLogger(__name__)

TRIES = 3
AGAIN_SECONDS = 5.0
"""Between two tries to read from Prometheus."""
MOST_SAMPLES = 400_000
"""Of an archive, about 100 MB while it is written and 4 MB on disk."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What belongs into the archive of a finding.

    Attributes:
        pages: Whose samples are read.
        collectors: Who is asked for operations.
        start, end: Unix seconds of the samples.
        from_step: First step of the operations.
        verdict: By which the finding opened; None = by no verdict.
    """

    pages: Pages
    collectors: Targets
    start: float
    end: float
    from_step: int
    verdict: Verdict | None


class Archivist:
    """Takes findings that opened and closed; `start`, then `stop`.

    Attributes:
        failures: Archives that could not be written.
        unfetched: Collectors that gave no operations.
    """

    def __init__(self, settings: Settings) -> None:
        self.failures = 0
        self.unfetched = 0
        self._settings = settings
        self._jobs: SimpleQueue[tuple[Finding, Plan | None]] = SimpleQueue()
        self._done: set[str] = set()
        self._lock = threading.Lock()
        self._busy = 0
        self._idle = threading.Condition()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="archivist", daemon=True)

    def start(self) -> None:
        """Write from now on."""
        if self._settings.out is not None:
            folder.clean(self._settings.out)
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more; what is under way is begun anew by the next process."""
        self._ending.set()

    def wait(self, seconds: float) -> bool:
        """Until everything that was handed in is written; whether it was in time."""
        with self._idle:
            return self._idle.wait_for(lambda: self._busy == 0, seconds)

    def opened(self, finding: Finding, plan: Plan) -> None:
        """A finding opened: write its archive."""
        self._hand_in(finding, plan)

    def closed(self, finding: Finding) -> None:
        """A finding closed: its `finding.json` says so."""
        self._hand_in(finding, None)

    def done(self) -> frozenset[str]:
        """Folders that were written since this was last asked."""
        with self._lock:
            done, self._done = frozenset(self._done), set()
        return done

    def samples(self) -> Sequence[Sample]:
        """What the page says of archives."""
        return m.OPERATION_FETCH_FAILURES(self.unfetched), m.ARCHIVE_FAILURES(self.failures)

    def write(self, finding: Finding, plan: Plan) -> Path:
        """Write an archive now.

        Raises:
            OSError: The disk is full or not writable.
        """
        out = self._settings.out
        assert out is not None
        connection = Connection(self._settings.access, whole=True)
        with connection:
            given = self._fetch(connection, finding, plan)
            run, why = self._read(connection, finding, plan)
        missing = [f"no operations of {page}: {words}" for page, words in given.silent.items()]
        missing += [f"no samples: {why}"] if why else []
        if plan.pages.part:
            missing.append("only the pages of the culprit and of some of its peers were read")
        unfinished = folder.write(out, finding, run, given, plan.start)
        del run  # the diagnosis reads its own from the archive
        with ONE_DIAGNOSIS:
            archived = _diagnosed(unfinished)
        verdict = concluded(finding, archived, plan.verdict, missing)
        diagnosis.write_verdict(verdict, unfinished)
        return folder.publish(unfinished, out, finding)

    def _hand_in(self, finding: Finding, plan: Plan | None) -> None:
        if self._settings.out is None:
            return
        with self._idle:
            self._busy += 1
        self._jobs.put((finding, plan))

    def _run(self) -> None:
        while True:
            finding, plan = self._jobs.get()
            try:
                if not self._ending.is_set():
                    self._work(finding, plan)
            finally:
                with self._idle:
                    self._busy -= 1
                    self._idle.notify_all()

    def _work(self, finding: Finding, plan: Plan | None) -> None:
        try:
            if plan is None:
                self._close(finding)
            else:
                self.write(finding, plan)
        except OSError as error:
            self.failures += 1
            LOG.error(
                "the archive %r cannot be written: %s", finding.folder, error.strerror or error
            )
            return
        except Exception as error:  # noqa: BLE001 - one archive must not end the others
            self.failures += 1
            bug(f"the archive {finding.folder!r} cannot be written", error)
        with self._lock:
            self._done.add(finding.folder)

    def _close(self, finding: Finding) -> None:
        out = self._settings.out
        assert out is not None

        def say(tree: Mapping[str, object]) -> Mapping[str, object]:
            return {**tree, "closed": finding.closed}

        finding_folders.update(out / finding.folder, say)

    def _fetch(self, connection: Connection, finding: Finding, plan: Plan) -> Operations:
        """The operations: first, since they are overwritten soon."""
        run = finding.who.run
        if not run:
            return Operations()
        given = operations.fetch(_addresses(connection, plan.collectors), run, plan.from_step)
        self.unfetched += len(given.silent)
        return given

    def _read(self, connection: Connection, finding: Finding, plan: Plan) -> tuple[Run | None, str]:
        why = ""
        for _ in range(TRIES):
            try:
                run = read(
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


def _addresses(connection: Connection, collectors: Targets) -> list[str]:
    """Where the pages of targets are; of a server that does not say, by their instance."""
    wanted = {(job, name) for job, instances in collectors.items() for name in instances}
    try:
        known = {
            (labels.get("job", ""), labels.get("instance", "")): labels[SCRAPE_URL]
            for labels in connection.targets()
        }
    except SourceError:  # Thanos and Mimir do not know the targets
        known = {}
    return [known.get(target, f"http://{target[1]}/metrics") for target in sorted(wanted)]


def _diagnosed(archive: Path) -> Verdict | None:
    try:
        return diagnosis.diagnose(archive).verdict
    except CommandError as error:
        LOG.warning("the archive %s cannot be diagnosed: %s", archive, error.sentence)
        return None
