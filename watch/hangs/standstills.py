"""Runs that stand still: noticed within seconds, and judged by the dumps of all their ranks.

A thread of its own asks Prometheus one cheap question every few seconds. What it learns is handed
to the next cycle, which it wakes.
"""

import json
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic

from lockstep.analyzer.findings.finding_lifecycle import folder_of_run
from lockstep.analyzer.hangs.document import document
from lockstep.analyzer.hangs.verdict import HangVerdict, Status, judge
from lockstep.analyzer.read.prometheus import questions
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.analyzer.read.prometheus.connection import SCRAPE_URL, Connection
from lockstep.collector.contract import threads
from lockstep.collector.contract.flight_recorder import DUMPS_AGAIN_SECONDS
from lockstep.collector.contract.metric_rows.ranges import AGE, THINGS
from lockstep.collector.contract.whole_file import write_whole
from lockstep.runs.hang_dumps import NoDumpsError, read_folder
from lockstep.terminal.output import bug
from lockstep.watch.archive.folder import UNDER_WAY
from lockstep.watch.hangs import stacks
from lockstep.watch.hangs.dumps import Collected, fetch
from lockstep.watch.hangs.standing import (
    MOST_TOLD_SECONDS,
    Standing,
    excused,
    limit,
    of_document,
    patience,
)
from lockstep.watch.judge.runs import LONGEST_PAUSE_SECONDS, Progress
from lockstep.watch.look.snapshot import by_run
from lockstep.watch.settings import Settings

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Between two questions, or the interval of the cycles where that is shorter."""
ANSWER_SECONDS = 5.0
JITTER_SECONDS = 5.0
"""As the collector's ttl: ages on a page may be so old, and a silence seem to begin later."""
AGAIN_SECONDS = DUMPS_AGAIN_SECONDS + 1.0
"""A verdict that is unknown is reached once more, with dumps that are new."""
RECHECK_SECONDS = 30.0
"""What an evaluation or a checkpoint explains, or is no hang by the dumps, is judged again then."""
AT_ONCE = 4
"""Runs that are judged at the same time."""
MOST_LACKS = 8
STOP_SECONDS = 0.3
"""For a look under way; the process ends in a second."""
LEFT_SECONDS = 600.0
"""Dumps of a run that is gone wait so long for the archives of its findings: of the tries of
lockstep.watch.archive.jobs the fifth is after 450 s."""
HANG_FILE = "hang.json"
NOBODY_YET: Mapping[str, float] = {}
"""Who is gone, before anybody looked."""
GONE_SECONDS = 4.0
"""A run that ends, page by page, begins a cycle so often at most."""

Targets = Callable[[str], Sequence[tuple[str, str]]]
"""(job, instance) of the collectors that tell of a run."""


@dataclass(slots=True)
class _Run:
    """What is known of one run.

    Attributes:
        longest: Seconds of its longest silence that it ended by itself.
        since: Unix seconds since which it is silent, as far as scrapes tell.
        seen: Seconds of that silence that a scrape saw.
        due: Monotonic seconds before which it is not judged again.
        unknown: Verdicts that were unknown, since it fell silent.
        excused: Whether an evaluation or a checkpoint explained it when it was last judged.
    """

    longest: float
    since: float = 0.0
    seen: float = 0.0
    due: float = 0.0
    unknown: int = 0
    excused: bool = False
    judging: bool = False
    standing: Standing | None = None
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class _Left:
    """Dumps of a run that hung and was ended or went on, and monotonic seconds until they go."""

    folder: Path
    until: float


class Standstills:
    """Notices and judges; `start`, then `stop`.

    Args:
        settings: How to work.
        targets: The collectors of a run; empty = it is not known to live.
        known: How runs go, as it is remembered.
        changed: Called when something is to be told.
    """

    def __init__(
        self,
        settings: Settings,
        targets: Targets,
        known: Callable[[], Mapping[str, Progress]],
        changed: Callable[[], None],
    ) -> None:
        self._settings, self._targets = settings, targets
        self._known, self._changed = known, changed
        self._runs: dict[str, _Run] = {}
        self._left: dict[str, _Left] = {}
        self._making: set[Path] = set()
        self._untold: dict[str, float] = {}
        self._gone = NOBODY_YET
        self._went, self._woken = False, float("-inf")
        self._lock = threading.Lock()
        self._places = threading.Semaphore(AT_ONCE)
        self._ended = threading.Event()
        self._thread = threads.loop("standstills", self._work, self._ended)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more, and leave no dumps behind that no archive has."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        with self._lock:
            gone = [_detached(one) for one in self._runs.values()]
            gone += [left.folder for left in self._left.values()]
            gone += self._making
            self._left.clear()
        _remove(gone)

    def standing(self) -> dict[str, Standing]:
        """Runs that stand and were judged."""
        with self._lock:
            return {
                run: one.standing for run, one in self._runs.items() if one.standing is not None
            }

    def excused(self) -> frozenset[str]:
        """Runs whose silence an evaluation or a checkpoint explains."""
        with self._lock:
            return frozenset(run for run, one in self._runs.items() if one.excused)

    def longest(self) -> dict[str, float]:
        """Seconds of the longest silence of each run."""
        with self._lock:
            return {run: one.longest for run, one in self._runs.items()}

    def keep(self, run: str, archive: Path) -> bool:
        """Copy the dumps of a run that hangs or hung, and what they tell, into a folder.

        Returns:
            False where there are none, or none any more.

        Raises:
            OSError: It cannot be written.
        """
        with self._lock:  # every cycle waits for it, and a disk may be slow
            folder = self._folder(run)
        if folder is None:
            return False
        new = archive.with_name(f".{archive.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(folder, new)
        with self._lock:
            whole = self._folder(run) == folder
        if not whole:
            shutil.rmtree(new, ignore_errors=True)
            raise OSError(f"the dumps of run {run!r} went while they were copied")
        shutil.rmtree(archive, ignore_errors=True)
        new.replace(archive)
        return True

    def look(self) -> None:
        """Ask once, and begin to judge what stands."""
        access = self._settings.access
        with Connection(access, ANSWER_SECONDS, until=monotonic() + ANSWER_SECONDS) as connection:
            now = connection.now()
            silences = by_run(connection.instant(questions.SILENCE, now, within=AGE))
            quiet, known = (
                by_run(connection.instant(questions.QUIET, now, within=AGE)),
                self._known(),
            )
            # Whose past was not told comes last: one slow answer takes the time of all.
            for run in sorted(silences, key=lambda run: self._untold.get(run, 0.0)):
                silence = silences[run]
                if run not in known:
                    continue
                since, seen = now - silence, quiet.get(run, 0.0)
                if not self._note(connection, run, known[run], since, seen):
                    continue
                if self._stands(run, known[run], silence):
                    judge = partial(self._judge, run, known[run], now)
                    threads.task("standstills", judge).start()
            if self._somebody_went(by_run(connection.instant(questions.GONE, now, within=THINGS))):
                self._changed()
        with self._lock:
            ended = self._runs.keys() - silences.keys()
            gone = [self._leave(run, self._runs.pop(run)) for run in ended]
            late = [run for run, left in self._left.items() if left.until <= monotonic()]
            gone += [self._left.pop(run).folder for run in late]
        _remove(gone)

    def _somebody_went(self, gone: Mapping[str, float]) -> bool:
        """Whether more ranks of a run are gone than before: who, is told now.

        Pages are scraped one after the other: a run that ends does not wake watch for each.
        """
        before, self._gone = self._gone, gone
        more = any(count > before.get(run, 0.0) for run, count in gone.items())
        self._went |= more and before is not NOBODY_YET
        if not self._went or monotonic() < self._woken + GONE_SECONDS:
            return False
        self._went, self._woken = False, monotonic()
        return True

    def _work(self) -> None:
        pause = min(LOOK_SECONDS, self._settings.interval)
        while not self._ended.wait(pause):
            try:
                self.look()
            except SourceError as error:
                LOG.info("stalled runs are not noticed now: %s", error)  # as cycles say
            except Exception as error:  # noqa: BLE001 - one look must not end the others
                bug("a look for runs that stand still failed", error)

    def _note(
        self, connection: Connection, run: str, progress: Progress, since: float, seen: float
    ) -> bool:
        """Since when it is silent, as far as scrapes saw it; False = its past is not known yet."""
        one = self._runs.get(run)
        if one is None:
            before = self._before(connection, run, progress, since)
            if before is None:
                return False
            one = _Run(max(progress.silence, before), since)
        gone = None
        with self._lock:
            self._runs[run] = one
            if since > one.since + JITTER_SECONDS:
                gone = self._went_on(run, one)
                one.since, one.seen = since, 0.0
            if _has_begun(progress):  # before its first steps it compiles and loads
                one.seen = max(one.seen, seen)
        _remove([gone])
        return True

    def _stands(self, run: str, progress: Progress, silence: float) -> bool:
        """Whether it is to be judged now."""
        with self._lock:
            one = self._runs[run]
            if not _has_begun(progress) or one.judging or monotonic() < one.due:
                return False
            if silence < limit(one.longest, progress.step_seconds):
                return False
            if one.standing is not None and one.standing.final:
                return False
            one.judging = True
            return True

    def _before(
        self, connection: Connection, run: str, progress: Progress, until: float
    ) -> float | None:
        """The longest silence that Prometheus remembers; a run that is remembered here needs none.

        What lies in the silence under way is not asked for: it may be the hang. None = no answer;
        it is asked again in the next look.
        """
        if progress.silence:
            return 0.0
        try:
            told = connection.instant(questions.longest_silence(run), until, within=AGE)
        except SourceError as error:
            if run not in self._untold:
                LOG.warning(
                    "run %r is not watched for silence until Prometheus answers: %s", run, error
                )
            self._untold[run] = monotonic()
            return None
        self._untold.pop(run, None)
        return min(max((value for _, value in told), default=0.0), MOST_TOLD_SECONDS)

    def _folder(self, run: str) -> Path | None:
        """Where the dumps of a run are."""
        one, left = self._runs.get(run), self._left.get(run)
        if one is not None and one.folder is not None:
            return one.folder
        return None if left is None else left.folder

    def _leave(self, run: str, run_state: _Run) -> Path | None:
        """It stands no more; archives that are still to be written may want its dumps.

        Several findings may tell of them, so they stay for a while, kept or not. What is returned
        nobody wants.
        """
        folder = _detached(run_state)
        if folder is None or run_state.standing is None or not run_state.standing.hangs:
            return folder
        before = self._left.get(run)
        self._left[run] = _Left(folder, monotonic() + LEFT_SECONDS)
        return None if before is None else before.folder

    def _went_on(self, run: str, run_state: _Run) -> Path | None:
        """It was silent for so long, and goes on: that is no hang of this run any more.

        As `_leave`, what is returned nobody wants.
        """
        hung = run_state.standing is not None and run_state.standing.hangs
        if not hung:  # from what somebody was called for nothing is learnt
            run_state.longest = max(run_state.longest, min(run_state.seen, LONGEST_PAUSE_SECONDS))
        elif run_state.standing is not None:
            LOG.warning("run %r goes on, after %.0f s", run, run_state.seen)
        gone = self._leave(run, run_state)
        run_state.standing, run_state.unknown, run_state.due, run_state.excused = (
            None,
            0,
            0.0,
            False,
        )
        return gone

    def _judge(self, run: str, progress: Progress, now: float) -> None:
        with self._places:
            with self._lock:
                one = self._runs.get(run)
                began = 0.0 if one is None else one.since
            if one is None or self._ended.is_set():
                return
            told = before = made = None
            kept = False
            try:
                made = _temporary(self._settings.out, run)
                with self._lock:
                    self._making.add(made)
                pages = self._addresses(run)
                collected = fetch(pages, run, made)
                told = self._said(run, one, progress, collected, made, now, pages)
                with self._lock:
                    if self._ended.is_set() or self._runs.get(run) is not one:
                        told = None
                    elif one.since != began:  # it went on while it was judged
                        told, one.unknown, one.due, one.excused = None, 0, 0.0, False
                    else:
                        one.standing = told
                    if told is not None:
                        before = _detached(one)
                        one.folder, kept = made, True
            except Exception as error:  # noqa: BLE001 - one run must not hide the others
                one.due = monotonic() + RECHECK_SECONDS
                if not self._ended.is_set():  # `stop` takes the folder away
                    bug(f"run {run!r} stands still and was not judged", error)
            finally:
                with self._lock:
                    if made is not None:
                        self._making.discard(made)
                    one.judging = False
                _remove([before, None if kept else made])
        if told is not None and told.hangs:
            LOG.warning("run %r stands still: %s", run, told.sentence)
            self._changed()

    def _said(
        self, run: str, run_state: _Run, progress: Progress, collected: Collected, folder: Path,
        now: float, pages: Sequence[str],
    ) -> Standing | None:  # fmt: skip
        """What the dumps tell; None = it does not stand, or not for too long."""
        most = limit(run_state.longest, progress.step_seconds)
        silence = now - run_state.since if collected.silence is None else collected.silence
        run_state.excused = False
        if collected.silence is not None and silence < most:
            run_state.due = 0.0  # it went on since it was scraped
            return None
        verdict, why = _judged(folder, collected.world, min(most, silence))
        phases = {rank: told.phase for rank, told in collected.ranks.items()}
        if excused(verdict, phases) and silence < patience(most):
            run_state.excused, run_state.due = True, monotonic() + RECHECK_SECONDS
            return None
        if verdict is not None and verdict.status is Status.HANG:
            there = [page for page in pages if page not in collected.silent]
            verdict = stacks.added(there, run, folder, verdict, collected.ranks)
        tree = None if verdict is None else document(verdict, run)
        if tree is not None:
            _write(folder, tree)
        status = None if verdict is None else verdict.status
        if status in (Status.WAITING, Status.HEALTHY):
            run_state.due = monotonic() + RECHECK_SECONDS
            return None
        again = status in (None, Status.UNKNOWN) and not run_state.unknown
        run_state.unknown += again
        run_state.due = monotonic() + AGAIN_SECONDS
        culprits, hang = ((), None) if tree is None else of_document(tree)
        lacks = _lacks(collected)
        return Standing(
            run=run,
            since=now - silence,
            limit=most,
            status=status,
            sentence=_sentence(run, silence, most, tree, why),
            culprits=culprits,
            hang=hang,
            lacks=lacks,
            dumps=collected.dumps,
            ranks=len(collected.world),
            final=not again,
        )

    def _addresses(self, run: str) -> list[str]:
        """Where the pages of the run's collectors are."""
        wanted = list(dict.fromkeys(self._targets(run)))
        known: dict[tuple[str, str], str] = {}
        with suppress(SourceError), Connection(self._settings.access, ANSWER_SECONDS) as asking:
            known = {
                (labels.get("job", ""), labels.get("instance", "")): labels[SCRAPE_URL]
                for labels in asking.targets()
            }
        return [known.get(one, f"http://{one[1]}/metrics") for one in wanted]


def _has_begun(progress: Progress) -> bool:
    """Whether it has made steps; one that stood already when watch came tells of none lately."""
    return progress.step_seconds is not None or (progress.begun == 0.0 and progress.steps > 1)


def _judged(folder: Path, world: tuple[int, ...], most: float) -> tuple[HangVerdict | None, str]:
    """The verdict on the dumps in a folder; None, and why there is none.

    Dumps alone tell of ranks without one only where they list members, as gloo does not.
    """
    try:
        dumps = read_folder(folder)[0][1]
        every = tuple(sorted({*world, *dumps.world}))
        return judge(replace(dumps, world=every), most), ""
    except (NoDumpsError, OSError) as error:
        why = "no rank gave a flight-recorder dump" if isinstance(error, NoDumpsError) else error
        return None, str(why)


def _sentence(run: str, silence: float, most: float, tree: Mapping[str, object] | None,
              why: str) -> str:  # fmt: skip
    head = f"Run {run} has begun and ended nothing for {silence:.0f} s, over {most:.0f} s"
    if tree is None:
        return (
            f"{head}; the dumps do not show who stopped it ({why}), but heartbeats and sequence"
            " numbers may show it."
        )
    stood = tree["stacks"]
    where = f" {stood['sentence']}" if isinstance(stood, Mapping) else ""
    return f"{head}. {tree['sentence']}{where}"


def _lacks(collected: Collected) -> tuple[str, ...]:
    """Who gave no dump, and why."""
    words = [f"of {page}: {why}" for page, why in collected.silent.items()]
    words += [
        f"of rank {rank} ({told.node}): {told.why}"
        for rank, told in collected.ranks.items()
        if told.written is None
    ]
    more = [f"and {len(words) - MOST_LACKS} more"] if len(words) > MOST_LACKS else []
    return (*words[:MOST_LACKS], *more)


def _temporary(out: Path | None, run: str) -> Path:
    """Beside the archives of the run, so that it is removed at the next start if not before."""
    if out is None:
        return Path(tempfile.mkdtemp(prefix="lockstep-watch-"))
    parent = out / folder_of_run(run)
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=UNDER_WAY, dir=parent))
    folder.chmod(0o755)
    return folder


def _write(folder: Path, tree: Mapping[str, object]) -> None:
    write_whole(folder / HANG_FILE, json.dumps(tree, indent=1) + "\n")


def _detached(run_state: _Run) -> Path | None:
    """Its dumps, which are its own no longer; archives have theirs."""
    folder, run_state.folder = run_state.folder, None
    return folder


def _remove(folders: Sequence[Path | None]) -> None:
    """Never under the lock: a disk may be slow."""
    for folder in folders:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
