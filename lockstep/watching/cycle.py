"""One cycle: look, test, diagnose, and say what opened and closed."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from analyzer.fleet.alarms import Alarm
from analyzer.fleet.state import State
from analyzer.fleet.watching import watch
from analyzer.load.prometheus.connection import Connection
from analyzer.watch import hardware, inventory, page
from analyzer.watch.choice import Pages, pages
from analyzer.watch.course import Course, advance
from analyzer.watch.finding import Change, Finding
from analyzer.watch.memory import Memory
from analyzer.watch.panel import fleet
from analyzer.watch.progress import Progress, advanced
from analyzer.watch.progress import remembered as lately
from analyzer.watch.ratios import Speed, over_peers, speed
from analyzer.watch.sightings import alarmed_ranks
from analyzer.watch.streams import kept, rewound
from lockstep.watching import sighted
from lockstep.watching.baselines import kind_of
from lockstep.watching.diagnoses import Diagnoses
from lockstep.watching.jobs import Plan
from lockstep.watching.judging import fresh_runs, judged, remembered
from lockstep.watching.look import INVENTORY_EVERY, Look, look
from lockstep.watching.settings import Settings

LOG = logging.getLogger(__name__)

BACK_CHECKS = 60
"""Checks that a first look, or one after a pause, goes back: more than a stream needs to learn."""
OPERATION_PAGES = 32
"""Of a run on more nodes, only the collectors whose pages are read are asked for operations."""
STEPS_BEFORE = 100
"""Steps before the first slow one that an archive should have."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cycle found.

    Attributes:
        plans: Of what belongs into the archives, by their folders.
    """

    change: Change
    look: Look
    known: page.Known
    plans: Mapping[str, Plan]


class Cycles:
    """Cycle after cycle over one Prometheus.

    Attributes:
        state, memory: What is remembered, after the last cycle.
        unanswered: Questions so far that a cycle did without.
    """

    def __init__(self, settings: Settings, state: State, memory: Memory) -> None:
        self.state = state
        self.memory = memory
        self.diagnoses = Diagnoses(settings)
        self._settings = settings
        self.unanswered = 0
        self._count = 0
        self._told_unanswered: tuple[str, ...] = ()
        self._compared: frozenset[str] = frozenset()

    def one(self, connection: Connection, failures: int = 0) -> Outcome:
        """One cycle.

        Args:
            connection: To the Prometheus.
            failures: Cycles before this one that got no answer: each halves how far it looks back,
                since a long look may be what a busy Prometheus cannot answer.

        Raises:
            SourceError: Prometheus does not answer, or not whole; nothing has changed then.
        """
        settings = self._settings
        seen = look(
            connection, self.state.until, settings.interval, max(10, BACK_CHECKS >> failures),
            inventory=self._count % INVENTORY_EVERY == 0,
        )  # fmt: skip
        self._count += 1
        self._lacking(seen)
        now, members = seen.now, seen.members
        alarms, state = self._tested(seen)
        own = over_peers(
            seen.own_rate / np.where(seen.step_rate > 0, seen.step_rate, np.nan), members
        )
        speeds = speed(seen.step_rate, members)
        busy = {who.run for who, _ in self.memory.course.open}
        runs = self._runs(seen, speeds, busy)
        course = self.memory.course
        watched = frozenset(who.run for who, _ in (*course.open, *course.waiting))
        reported = alarmed_ranks(alarms, members)
        self.diagnoses.work(connection, seen, own, runs, reported, watched)
        names = hardware.node_names(seen.pages, members, self.memory.nodes)
        self.memory = replace(
            self.memory,
            runs=lately(runs, now),
            nodes=remembered(self.memory.nodes, names, seen, settings.interval),
            events=hardware.events(
                seen.xids, members, names, {run: one.begun for run, one in runs.items()},
                self.memory.events, now,
            ),
        )  # fmt: skip
        sightings = [
            *sighted.of_runs(seen, runs, self.diagnoses, reported, alarms, settings),
            *sighted.of_hardware(seen, self.memory.events, names),
        ]
        knows = judged(seen, self.memory, self.diagnoses.last, settings.interval, settings.window)
        course, change = advance(course, sightings, knows, settings.pace)
        unwritten = {**self.memory.unwritten, **{one.folder: 1 for one in change.opened}}
        closings = {one.folder: one.closed for one in change.closed if one.closed is not None}
        unclosed = {**self.memory.unclosed, **closings}
        self.state = state
        self.memory = replace(
            self.memory,
            course=course,
            pages=self._pages(seen, course),
            inventory=inventory.updated(
                self.memory.inventory, seen.pages, seen.links, seen.ports, names, now
            ),
            unwritten={} if settings.out is None else unwritten,
            unclosed={} if settings.out is None else unclosed,
        )
        known_now = page.Known(
            members=members,
            own=own,
            clock=over_peers(seen.clock, members),
            speeds=speeds,
            slowdown={
                run: one.verdict.slowdown
                for run, one in self.diagnoses.last.items()
                if one.verdict.slowdown is not None
            },
            living=frozenset(
                run for run, columns in members.columns_of_run.items() if seen.living[columns].any()
            ),
            baselines=self._baselines(seen),
        )
        plans = {one.folder: self.plan(one, seen, own) for one in change.opened}
        return Outcome(change, seen, known_now, plans)

    def plan(self, finding: Finding, seen: Look, own: np.ndarray) -> Plan:
        """What belongs into the archive of a finding."""
        run, members = finding.who.run, seen.members
        judged = self.diagnoses.last.get(run)
        begin = min(finding.onset, seen.now) - self._settings.window
        columns = members.columns_of_run.get(run)
        if columns is None:
            here = [key for key, (node, _) in self.memory.nodes.items() if node == finding.who.node]
            chosen = Pages({job: (instance,) for job, instance in here}, part=True)
            return Plan(chosen, {}, begin, seen.now, 0, None)
        suspects = [] if finding.who.rank is None else [finding.who.rank]
        chosen = pages(members, run, suspects, own)
        every = _targets(seen, columns)
        collectors: dict[str, tuple[str, ...]] = {}
        for job, instance in sorted(every):
            collectors[job] = (*collectors.get(job, ()), instance)
        first = 0 if finding.from_step is None else finding.from_step
        done = self.memory.runs[run].steps
        return Plan(
            pages=chosen,
            collectors=collectors if len(every) <= OPERATION_PAGES else chosen.targets,
            start=max(begin, seen.now - 6 * self._settings.window),
            end=seen.now,
            from_step=max(0, first - STEPS_BEFORE - int(max(0.0, done - first))),
            verdict=None if judged is None else judged.verdict,
        )

    def _lacking(self, seen: Look) -> None:
        """Count and say what was not answered; once for each change of it."""
        self.unanswered += len(seen.unanswered)
        sentences = tuple(dict.fromkeys(seen.unanswered))
        if sentences and sentences != self._told_unanswered:
            LOG.warning(
                "%d questions about hardware were not answered; what is open about it stays as it"
                " is: %s", len(seen.unanswered), "; ".join(sentences),
            )  # fmt: skip
        self._told_unanswered = sentences

    def _runs(self, seen: Look, speeds: Mapping[str, Speed], busy: set[str]) -> dict[str, Progress]:
        """How each run goes; of one whose pages are old nothing new is known."""
        steps, runs = seen.panel.told["steps"][-1], dict(self.memory.runs)
        fresh = fresh_runs(seen, self._settings.interval)
        for run, columns in seen.members.columns_of_run.items():
            most = float(np.nanmax(steps[columns])) if np.isfinite(steps[columns]).any() else 0.0
            known, seconds = runs.get(run), speeds[run].step_seconds
            if known is None or (most and run in fresh):
                runs[run] = advanced(known, most, seconds, run not in busy, seen.now)
            if not self.memory.nodes:
                runs[run] = replace(runs[run], begun=0.0)  # the first cycle of all
        return runs

    def _pages(self, seen: Look, course: Course) -> dict[str, frozenset[tuple[str, str]]]:
        """Who tells, or told last, of the runs that findings are about."""
        columns, found = seen.members.columns_of_run, {}
        for run in {who.run for who, _ in (*course.open, *course.waiting)}:
            if run in columns:
                found[run] = _targets(seen, columns[run])
            elif run in self.memory.pages:
                found[run] = self.memory.pages[run]
        return found

    def _tested(self, seen: Look) -> tuple[tuple[Alarm, ...], State]:
        state = kept(self.state, seen.now)
        if state.until > seen.now + 2 * self._settings.interval:
            LOG.warning(
                "Prometheus' clock was put back by %.0f s; what was judged then is judged again",
                state.until - seen.now,
            )
            state = rewound(state, seen.now)
        members = seen.members
        if not len(members):
            return (), state
        of_node = np.unique(members.node, return_counts=True)[1].max()
        arrays = fleet(seen.panel)
        passed = watch(arrays, state, self._settings.budget(int(of_node) * len(arrays.metrics)))
        return passed.alarms, passed.state

    def _baselines(self, seen: Look) -> dict[str, float]:
        found, given = {}, self._settings.baselines
        for run, columns in seen.members.columns_of_run.items():
            kind = kind_of(run, int(seen.members.world[columns].max()), given)
            if kind is None:
                continue
            found[run] = given[kind]
            if run not in self._compared:
                LOG.warning("run %r is compared with the baseline of %s on %d ranks", run, *kind)
        self._compared = frozenset(found)
        return found


def _targets(seen: Look, columns: np.ndarray) -> frozenset[tuple[str, str]]:
    members = seen.members
    jobs, instances = members.job[columns].tolist(), members.instance[columns].tolist()
    return frozenset(zip(jobs, instances, strict=True))
