"""One cycle: look, test, diagnose, and say what opened and closed."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from analyzer.fleet.alarms import Alarm
from analyzer.fleet.state import State
from analyzer.fleet.watching import watch
from analyzer.load.prometheus.connection import Connection
from analyzer.watch import hardware, inventory, page
from analyzer.watch.choice import Pages, pages
from analyzer.watch.course import advance
from analyzer.watch.finding import Change, Finding, Kind, Sighting, Who, who_of
from analyzer.watch.memory import Memory
from analyzer.watch.panel import fleet
from analyzer.watch.progress import Progress, advanced, remembered
from analyzer.watch.ratios import over_peers, speed
from analyzer.watch.sightings import alarmed_ranks, of_alarms, of_verdict, stalled
from analyzer.watch.streams import kept, rewound
from lockstep.watching.archivist import Plan
from lockstep.watching.diagnoses import Diagnoses
from lockstep.watching.look import INVENTORY_EVERY, Look, look
from lockstep.watching.settings import Settings

LOG = logging.getLogger(__name__)

BACK_CHECKS = 60
"""Checks that a first look, or one after a pause, goes back: more than a stream needs to learn."""
FRESH_CHECKS = 3
LEAST_FRESH_SECONDS = 45.0
"""A run whose newest scrape is older than both is not judged."""
PATIENCE_CHECKS = 12
"""A GPU that deviates opens a finding after so many, if nothing says that it costs time."""
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
    """

    def __init__(self, settings: Settings, state: State, memory: Memory) -> None:
        self.state = state
        self.memory = memory
        self.diagnoses = Diagnoses(settings)
        self._settings = settings
        self._count = 0
        self._pages_of_run: dict[str, frozenset[tuple[str, str]]] = {}

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
        now, members = seen.now, seen.members
        alarms, state = self._tested(seen)
        own = over_peers(
            seen.own_rate / np.where(seen.step_rate > 0, seen.step_rate, np.nan), members
        )
        speeds = speed(seen.step_rate, members)
        busy = {who.run for who, _ in self.memory.course.open}
        steps = seen.panel.told["steps"][-1]
        runs = dict(self.memory.runs)
        for run, columns in members.columns_of_run.items():
            most = float(np.nanmax(steps[columns])) if np.isfinite(steps[columns]).any() else 0.0
            known = runs.get(run)
            if most or known is None:
                runs[run] = advanced(known, most, speeds[run].step_seconds, run not in busy, now)
            self._pages_of_run[run] = _targets(seen, columns)
        course = self.memory.course
        watched = frozenset(who.run for who, _ in (*course.open, *course.waiting))
        reported = alarmed_ranks(alarms, members)
        self.diagnoses.work(connection, seen, own, runs, _since(alarms, seen), watched)
        names = hardware.node_names(seen.pages, members)
        sightings = list(self._sightings(seen, runs, reported, alarms, names))
        course, change = advance(course, sightings, self._judged(seen), now, settings.pace)
        after = self.memory.unwritten | {one.folder for one in change.opened}
        self.state = state
        self.memory = Memory(
            course=course,
            runs=remembered(runs, now),
            inventory=inventory.updated(
                self.memory.inventory, seen.pages, seen.links, seen.ports, names, now
            ),
            unwritten=frozenset(after) if settings.out is not None else frozenset(),
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
            here = [key for key, node in hardware.node_names(seen.pages, members).items()
                    if node == finding.who.node]  # fmt: skip
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

    def _sightings(
        self,
        seen: Look,
        runs: Mapping[str, Progress],
        reported: Mapping[str, frozenset[int]],
        alarms: tuple[Alarm, ...],
        names: Mapping[tuple[str, str], str],
    ) -> Iterator[Sighting]:
        now, members = seen.now, seen.members
        named: list[Who] = []
        stopped: set[str] = set()
        for run in members.runs:
            judged = self.diagnoses.last.get(run)
            if judged is None or now - judged.at > self._settings.window:
                continue
            for one in of_verdict(judged.verdict, reported.get(run, frozenset()), members, now):
                if one.kind is Kind.STOP:
                    if runs[run].since > judged.at:
                        continue  # it goes on again
                    stopped.add(run)
                yield one
            named += [who_of(run, each) for each in judged.verdict.culprits]
        patience = PATIENCE_CHECKS * self._settings.interval
        yield from of_alarms(alarms, members, named, now, patience)
        for run, columns in members.columns_of_run.items():
            alive = bool(seen.living[columns].any())
            if alive and run not in stopped and runs[run].stalled(now):
                yield stalled(run, runs[run].since, now, members)
        yield from hardware.xids(seen.xids, members, names)
        yield from hardware.lost(seen.lost, names, now)

    def _judged(self, seen: Look) -> frozenset[str]:
        """Runs of which it is known what is wrong now, and runs that are gone."""
        old = max(LEAST_FRESH_SECONDS, FRESH_CHECKS * self._settings.interval)
        fresh = {run for run, when in seen.told.items() if seen.now - when <= old}
        answering = {
            (labels.get("job", ""), labels.get("instance", ""))
            for labels, when in seen.pages
            if seen.now - when <= old
        }
        course = self.memory.course
        for who, _ in (*course.open, *course.waiting):
            gone = who.run not in seen.told
            # A run is over when its nodes answer and do not tell of it, not when they are silent.
            if gone and answering & self._pages_of_run.get(who.run, frozenset(answering)):
                fresh.add(who.run)
        return frozenset(fresh | {""}) if answering else frozenset(fresh)

    def _baselines(self, seen: Look) -> dict[str, float]:
        found = {}
        for run, columns in seen.members.columns_of_run.items():
            world = int(seen.members.world[columns].max())
            for (workload, ranks), steps in self._settings.baselines.items():
                if ranks == world and workload in run:
                    found[run] = steps
        return found


def _since(alarms: tuple[Alarm, ...], seen: Look) -> dict[str, dict[int, float]]:
    """By run and rank, since when its own time is reported."""
    found: dict[str, dict[int, float]] = {}
    for alarm in alarms:
        for run, ranks in alarmed_ranks((alarm,), seen.members).items():
            for rank in ranks:
                found.setdefault(run, {})[rank] = alarm.since
    return found


def _targets(seen: Look, columns: np.ndarray) -> frozenset[tuple[str, str]]:
    members = seen.members
    jobs, instances = members.job[columns].tolist(), members.instance[columns].tolist()
    return frozenset(zip(jobs, instances, strict=True))
