"""Full diagnoses of runs, the most important first, for as long as a cycle may take.

Also which pages of a run are read in full, which run is next, and how far back it is read.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.read.archive.files import ANSWERED_KEY, SPAN_KEY
from lockstep.analyzer.read.places import META_KEY, Places
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.load import read_targets
from lockstep.analyzer.rules.recording_rules.suspects import Answered
from lockstep.analyzer.rules.recording_rules.whole_run import of_whole_run
from lockstep.analyzer.shapes.run import Span, Verdict
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.analyzer.verdict.sentence import without_loss
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.terminal.output import bug
from lockstep.watch.judge.runs import STALL_STEPS, Progress
from lockstep.watch.look.members import Members
from lockstep.watch.look.snapshot import Look
from lockstep.watch.settings import Settings

MOST_PAGES = 8
"""A run on more nodes is read in part: those of suspects, and of some of their peers."""
SUSPECT_PAGES = 3
SHARE = 5.0
"""A diagnosis looks back so many times the age of what it is about: it is then a fifth of the time,
and a change point that lasts a seventh of it is named."""

Targets = Mapping[str, Sequence[str]]
"""job -> instances."""


@dataclass(frozen=True, slots=True)
class Pages:
    """What is read of a run, the suspects' pages first; `part` = not all of its pages."""

    targets: Targets
    part: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict about a run and all that it is a function of: reading it again gives the same.

    Attributes:
        verdict: About the windows of `span`.
        pages: Whose samples were read.
        span: Of these samples, unix seconds; its end is the moment that the verdict is about.
        answered: Of a run that was read in part, how many of its ranks are known; None = all of it
            was read.
        places: Where nodes stand.
        told: Its sentence without what was lost in these windows: a finding counts for longer.
    """

    verdict: Verdict
    pages: Pages
    span: Span
    answered: Answered | None = None
    places: Places = field(default_factory=dict)
    told: str = ""

    @property
    def at(self) -> float:
        """Unix seconds of the moment that it is about."""
        return self.span.end


def judged_json(judged: Judged) -> Mapping[str, Any]:
    """What run.json of an archive says of it, so that a diagnosis looks at the same."""
    told: dict[str, Any] = {SPAN_KEY: {"start": judged.span.start, "end": judged.span.end}}
    if judged.answered is not None:
        told[ANSWERED_KEY] = {
            "told": judged.answered.known, "expected": judged.answered.expected,
        }  # fmt: skip
    if judged.places:
        told[META_KEY] = {node: dict(kinds) for node, kinds in judged.places.items()}
    return told


def pages(
    members: Members,
    run: str,
    suspects: Iterable[int],
    ratio: NDArray[np.float64],
    silent: Collection[tuple[str, str]] = (),
) -> Pages:
    """The pages of a run, or of its suspects and of those of their peers that are most ordinary.

    Args:
        members: Of all runs.
        run: The run's id.
        suspects: Its ranks that are suspected, the gravest first; without any the slowest are.
        ratio: (R,) own time over the peers' median.
        silent: (job, instance) of pages that told of the run and do no more: what they told last
            says whether others went before.
    """
    columns = members.columns_of_run[run]
    gone = sorted(silent)
    every = [*_pages_of(members, columns), *gone]
    slowest = columns[np.argsort(-np.nan_to_num(ratio[columns], nan=0.0), kind="stable")]
    wanted = [members.column[run, rank] for rank in suspects if (run, rank) in members.column]
    suspected = _pages_of(members, np.array([*wanted, *slowest.tolist()]), SUSPECT_PAGES)
    first = [*gone[:SUSPECT_PAGES], *suspected]
    if len(every) <= MOST_PAGES:
        return Pages(_by_job(dict.fromkeys([*first, *every])), part=False)
    mine = set(members.stratum[wanted or slowest[:1]].tolist())
    peers = columns[np.isin(members.stratum[columns], sorted(mine))]
    far = np.abs(np.nan_to_num(ratio[peers], nan=np.inf) - 1.0)
    usual = _pages_of(members, peers[np.argsort(far, kind="stable")], MOST_PAGES)
    chosen = list(dict.fromkeys([*first, *usual]))[:MOST_PAGES]
    return Pages(_by_job(chosen), part=True)


@dataclass(frozen=True, slots=True)
class Wish:
    """A run that might be diagnosed.

    Attributes:
        urgent: Something about it is new: it goes before all others.
        watched: A finding about it is open, or nearly.
        age: Seconds since its last diagnosis; inf = never.
        onset: Unix seconds at which what is new began; None = nothing is.
    """

    run: str
    urgent: bool
    watched: bool
    age: float
    onset: float | None = None


def due_diagnoses(wishes: Iterable[Wish], interval: float, window: float) -> list[Wish]:
    """Those to diagnose now, the most important first.

    What is urgent is diagnosed in each cycle, what is watched in every fourth, others once in half
    the time that a diagnosis looks back.
    """
    ready = [
        one
        for one in wishes
        if one.urgent or one.age >= (4 * interval if one.watched else window / 2)
    ]
    return sorted(ready, key=lambda one: (not one.urgent, -one.age, one.run))


def reach(onset: float | None, now: float, interval: float, window: float) -> float:
    """Seconds that a diagnosis looks back."""
    if onset is None:
        return window
    return min(window, max(SHARE * (now - onset), 20 * interval))


def _pages_of(
    members: Members, columns: NDArray[np.int64], most: int | None = None
) -> list[tuple[str, str]]:
    """(job, instance) of columns, in their order, each once."""
    found: dict[tuple[str, str], None] = {}
    for column in columns.tolist():
        found.setdefault((str(members.job[column]), str(members.instance[column])))
        if len(found) == most:
            break
    return list(found)


def _by_job(chosen: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    targets: dict[str, list[str]] = {}
    for job, instance in chosen:
        targets.setdefault(job, []).append(instance)
    return {job: tuple(some) for job, some in targets.items()}


LOG = logging.getLogger(__name__)

MOST_SAMPLES = 400_000
"""Of one diagnosis in a cycle: a second and 100 MB; the last are read."""
SHARE_OF_CYCLE = 0.4
OPEN_SECONDS = 3.0
"""As lockstep.analyzer.hangs.last_seen.STALL_SECONDS."""
NEW_CYCLES = 10


class Diagnoses:
    """The last verdict of each run.

    Attributes:
        last: run -> that verdict.
        before: run -> the one before it.
        failed_queries: Diagnoses that Prometheus did not answer.
        urgent: Runs about which something is new, and that were wanted first.
    """

    def __init__(self, settings: Settings) -> None:
        self.last: dict[str, Judged] = {}
        self.before: dict[str, Judged] = {}
        self.failed_queries = 0
        self.urgent: frozenset[str] = frozenset()
        self._settings = settings
        self._tried: dict[str, float] = {}
        self._troubled: dict[str, float] = {}
        self._concluded: set[str] = set()
        self._places: Places = {}
        self._made = 0
        self._failed = 0

    def work(
        self,
        connection: Connection,
        look: Look,
        ratio: NDArray[np.float64],
        progress: Mapping[str, Progress],
        alarmed: Mapping[str, Mapping[int, float]],
        watched: frozenset[str],
        pages: Mapping[str, frozenset[tuple[str, str]]],
    ) -> None:
        """Diagnose what is due.

        Args:
            connection: To the Prometheus.
            look: Of this cycle.
            ratio: (R,) own time over the peers' median.
            progress: How each run goes.
            alarmed: run -> rank -> unix seconds since which the sequential test reports it.
            watched: Runs of which a finding is open or nearly.
            pages: run -> (job, instance) of the pages that told of it, also of those that are
                silent now.
        """
        self.last = {run: one for run, one in self.last.items() if run in progress}
        self._places = self._places if look.places is None else look.places
        self.before = {run: one for run, one in self.before.items() if run in progress}
        self._concluded &= progress.keys()
        self._tried = {run: when for run, when in self._tried.items() if run in progress}
        self._troubled = {run: when for run, when in self._troubled.items() if run in progress}
        wishes = list(self._wishes(look, progress, alarmed, watched))
        self.urgent = frozenset(wish.run for wish in wishes if wish.urgent)
        until = monotonic() + SHARE_OF_CYCLE * self._settings.interval
        for wish in due_diagnoses(wishes, self._settings.interval, self._settings.window):
            suspects = [*sorted(_down(look, wish.run)), *sorted(look.stopped.get(wish.run, ())),
                        *sorted(alarmed.get(wish.run, {}))]  # fmt: skip
            self._tried[wish.run] = look.now
            silent = pages.get(wish.run, frozenset()) - look.pages_of(wish.run)
            self._one(connection, look, wish, suspects, ratio, silent)
            if monotonic() >= until:
                return

    def fresh(self, now: float) -> dict[str, Judged]:
        """The last diagnosis of each run, if it is at most a window old."""
        window = self._settings.window
        return {run: judged for run, judged in self.last.items() if now - judged.at <= window}

    def samples(self) -> tuple[Sample, ...]:
        """What the page says of diagnoses."""
        return m.DIAGNOSES(self._made), m.DIAGNOSIS_FAILURES(self._failed)

    def _wishes(
        self,
        look: Look,
        progress: Mapping[str, Progress],
        alarmed: Mapping[str, Mapping[int, float]],
        watched: frozenset[str],
    ) -> Iterator[Wish]:
        interval = self._settings.interval
        for run, columns in look.members.columns_of_run.items():
            living = bool(look.living[columns].any())
            if not living and run not in watched and run in self._concluded:
                continue  # it ended, and it was looked at how
            onsets = list(alarmed.get(run, {}).values())
            if not living and run in self.last and run not in self._concluded:
                onsets.append(look.now)
            if _stands(look, run, progress[run]):
                onsets.append(max(progress[run].since, look.now - self._settings.window))
            if not onsets:
                self._troubled.pop(run, None)
            since = self._troubled.setdefault(run, look.now) if onsets else look.now
            yield Wish(
                run=run,
                urgent=bool(onsets) and look.now - since <= NEW_CYCLES * interval,
                watched=bool(onsets) or run in watched,
                age=look.now - self._tried.get(run, float("-inf")),
                onset=min(onsets, default=None),
            )

    def _one(
        self, connection: Connection, look: Look, wish: Wish, suspects: list[int],
        ratio: NDArray[np.float64], silent: frozenset[tuple[str, str]],
    ) -> None:  # fmt: skip
        run, members = wish.run, look.members
        chosen = pages(members, run, suspects, ratio, silent)
        back = reach(wish.onset, look.now, self._settings.interval, self._settings.window)
        span = Span(look.now - back, look.now)
        try:
            recorded = read_targets(
                connection, run, chosen.targets, span.start, span.end, MOST_SAMPLES,
                part=chosen.part,
            )  # fmt: skip
            if self._places:
                recorded = replace(recorded, meta={**recorded.meta, META_KEY: self._places})
            found = diagnose(recorded)
        except SourceError as error:
            self.failed_queries += 1
            LOG.warning("run %r was not diagnosed: %s", run, error)
            return
        except Exception as error:  # noqa: BLE001 - one run must not hide the others
            self._failed += 1
            bug(f"run {run!r} was not diagnosed", error)
            return
        self._made += 1
        living = bool(look.living[members.columns_of_run[run]].any())
        (self._concluded.discard if living else self._concluded.add)(run)
        verdict, answered = found.verdict, None
        if chosen.part:
            columns = members.columns_of_run[run]
            told = int(np.isfinite(look.step_rate[columns]).sum())
            world = max(len(columns), int(members.world[columns].max()))
            answered = Answered(told, world)
            verdict = of_whole_run(found, answered)
        if run in self.last:
            self.before[run] = self.last[run]
        words = without_loss(verdict, found.grid)
        self.last[run] = Judged(verdict, chosen, span, answered, self._places, words)


def _down(look: Look, run: str) -> list[int]:
    """Ranks that are gone while others of the run live."""
    columns = look.members.columns_of_run[run]
    living = look.living[columns]
    return look.members.rank[columns[~living]].tolist() if living.any() else []


def _stands(look: Look, run: str, progress: Progress) -> bool:
    """Whether it looks as if the run waits for somebody."""
    longest = max(OPEN_SECONDS, STALL_STEPS * (progress.step_seconds or 0.0))
    waits = look.open.get(run, 0.0) > longest or run in look.stopped or bool(_down(look, run))
    living = bool(look.living[look.members.columns_of_run[run]].any())
    return living and (waits or progress.stalled(look.now))
