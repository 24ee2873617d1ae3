"""Full diagnoses of runs: the most important first, for as long as a cycle may take."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.read.places import META_KEY, Places
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.load import read_targets
from lockstep.analyzer.rules.recording_rules.diagnosis import of_whole_run
from lockstep.analyzer.rules.recording_rules.suspects import Answered
from lockstep.analyzer.shapes.run import Span
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.analyzer.verdict.sentence import without_loss
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.watch.judge.choice import Wish, due_diagnoses, pages, reach
from lockstep.watch.judge.progress import STALL_STEPS, Progress
from lockstep.watch.loop.judged import Judged
from lockstep.watch.loop.look import Look
from lockstep.watch.loop.settings import Settings
from lockstep.watch.loop.trouble import bug

LOG = logging.getLogger(__name__)

MOST_SAMPLES = 400_000
"""Of one diagnosis in a cycle: a second and 100 MB; the last are read."""
SHARE_OF_CYCLE = 0.4
OPEN_SECONDS = 3.0
"""As slowness.stopped.STALL_SECONDS."""
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
        told: Mapping[str, frozenset[tuple[str, str]]],
    ) -> None:
        """Diagnose what is due.

        Args:
            connection: To the Prometheus.
            look: Of this cycle.
            ratio: (R,) own time over the peers' median.
            progress: How each run goes.
            alarmed: run -> rank -> unix seconds since which the sequential test reports it.
            watched: Runs of which a finding is open or nearly.
            told: run -> (job, instance) of the pages that told of it, also of those that are
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
            silent = told.get(wish.run, frozenset()) - look.pages_of(wish.run)
            self._one(connection, look, wish, suspects, ratio, silent)
            if monotonic() >= until:
                return

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
