"""One cycle: look, test, diagnose, and say what opened and closed."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.findings.alertmanager.outbox import OWED_SECONDS
from lockstep.analyzer.findings.alerts import is_owed
from lockstep.analyzer.findings.assessment import UNKNOWN, Assessment, Facts, assessed
from lockstep.analyzer.findings.finding import Change, Kind, Tier, WatchFinding, is_named
from lockstep.analyzer.findings.finding_lifecycle import Course, advance
from lockstep.analyzer.hardware.sequential_test.alarms import Alarm
from lockstep.analyzer.hardware.sequential_test.monitor import watch
from lockstep.analyzer.hardware.sequential_test.state import State
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.watch.judge import (
    hardware,
    inventory,
    node_names,
    page,
    reporting,
    run_life,
    run_over,
)
from lockstep.watch.judge.bill import RunCost, with_costs
from lockstep.watch.judge.choice import MOST_PAGES, Pages, pages
from lockstep.watch.judge.detections import alarmed_ranks, of_namesakes
from lockstep.watch.judge.hardware import Target
from lockstep.watch.judge.incidents import with_incidents
from lockstep.watch.judge.members import Members
from lockstep.watch.judge.memory import Memory
from lockstep.watch.judge.panel import CLOCK, fleet
from lockstep.watch.judge.progress import Progress, advanced, with_silences
from lockstep.watch.judge.progress import remembered as lately
from lockstep.watch.judge.ratios import Speed, over_peers, speed
from lockstep.watch.judge.streams import kept, rewound
from lockstep.watch.judge.with_dumps import with_dumps
from lockstep.watch.loop import detections
from lockstep.watch.loop.baselines import kind_of
from lockstep.watch.loop.detections import Still
from lockstep.watch.loop.diagnoses import Diagnoses
from lockstep.watch.loop.endings import lives_now
from lockstep.watch.loop.jobs import Plan
from lockstep.watch.loop.judged import Judged
from lockstep.watch.loop.judging import (
    Gauges,
    closable,
    fresh_members,
    fresh_runs,
    remembered,
    stale_after,
)
from lockstep.watch.loop.look import INVENTORY_EVERY, Look, look
from lockstep.watch.loop.settings import Settings
from lockstep.watch.loop.taken_away import old_names, taken_away, without

LOG = logging.getLogger(__name__)
Bools = NDArray[np.bool_]

BACK_CHECKS = 60
"""Checks that a first look, or one after a pause, goes back: more than a stream needs to learn."""
OPERATION_PAGES = 32
"""Of a run on more nodes, only the collectors whose pages are read are asked for operations."""
ENDS_TOLD_SECONDS = 3600.0
"""So long it is remembered that a finding closed: whoever watches next tells its end again, which
an Alertmanager that heard of it takes for the same."""
ENDS_AWAITED_CYCLES = 3
"""So many looks a diagnosis of a run's end is waited for, where nobody else names anybody."""
AWAY_EVERY = 4
"""Looks: so often it is asked which nodes were taken away."""
STANDING_CHECKS = 2
"""A run without a step for more intervals stands, where somebody is said to have stopped it."""
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
        awaits_end: Whether a run is gone, lately, of which it cannot be told yet how it ended.
        suspects: Whether something is new about a run, and nobody is paged for it yet.
    """

    def __init__(self, settings: Settings, state: State, memory: Memory) -> None:
        self.state = state
        self.memory = memory
        self.diagnoses = Diagnoses(settings)
        self._settings = settings
        self.unanswered = 0
        self.awaits_end = self.suspects = False
        self._gauges = Gauges()
        self._count = 0
        self._told_unanswered: tuple[str, ...] = ()
        self._compared: frozenset[str] = frozenset()

    def one(self, connection: Connection, failures: int = 0, still: Still | None = None) -> Outcome:
        """One cycle.

        Args:
            connection: To the Prometheus.
            still: What dumps tell of runs that stand.
            failures: Cycles before this one that got no answer: each halves how far it looks back,
                since a long look may be what a busy Prometheus cannot answer.

        Raises:
            SourceError: Prometheus does not answer, or not whole; nothing has changed then.
        """
        settings, still = self._settings, still or Still()
        seen = look(
            connection, self.state.until, settings.interval, max(10, BACK_CHECKS >> failures),
            inventory=self._count % INVENTORY_EVERY == 0,
        )  # fmt: skip
        self._count += 1
        self._lacking(seen)
        gone: dict[Target, str] = {}
        if self._count % AWAY_EVERY == 0:
            gone = taken_away(connection, seen, self.memory, settings.interval)
        now, members = seen.now, seen.members
        alarms, state = self._tested(seen)
        fresh = fresh_members(seen, settings.interval)
        own = over_peers(np.where(fresh, seen.own, np.nan), members)
        speeds = speed(seen.step_rate, members)
        busy = {who.run for who, _ in self.memory.course.open}
        runs = with_silences(self._runs(seen, speeds, busy), still.longest)
        course = self.memory.course
        watched = frozenset(who.run for who, _ in (*course.open, *course.waiting))
        reported = alarmed_ranks(alarms, members)
        told_by = {run: one.pages for run, one in self.memory.lives.items()}
        self.diagnoses.work(connection, seen, own, runs, reported, watched, told_by)
        names = hardware.node_names(seen.pages, members, self.memory.nodes)
        gpus = node_names.gpus(members)
        another = node_names.other_machines(self.memory.gpus, gpus)
        self.memory = without(self.memory, gone, old_names(self.memory, names, another))
        renamed = node_names.renamed(self.memory.renamed, self.memory.nodes, names, course, another)
        lives = lives_now(
            connection, seen, self.memory.lives, runs, settings.interval, settings.pace.close,
            self._since(now),
        )  # fmt: skip
        told_of_ranks = self._gauges.told_now(seen, settings.interval)
        self.memory = replace(
            self.memory,
            told=reporting.with_ranks(
                reporting.remembered(self.memory.told, told_of_ranks, members, now),
                members, seen.up, now,
            ),
            since=self._since(now),
            runs=lately(runs, now),
            nodes=remembered(self.memory.nodes, names, seen, settings.interval),
            gpus={
                target: some for target, some in {**self.memory.gpus, **gpus}.items()
                if target in self.memory.nodes or target in names
            },
            events=hardware.events(
                seen.xids, members, names, {run: one.begun for run, one in runs.items()},
                self.memory.events, now,
            ),
        )  # fmt: skip
        living = frozenset(members.run[seen.living].tolist())
        lives = run_life.inherited(lives, living)
        went_on = {run: one.went_on for run, one in runs.items() if one.went_on}
        lives = run_life.with_told(lives, course.open.values(), went_on)
        self.awaits_end = any(
            run not in living and life.end is None and now - life.seen < 2 * settings.interval
            for run, life in lives.items()
        )  # fmt: skip
        over, held = run_over.over(lives, living, now)
        told = [
            *detections.of_runs(seen, runs, self.diagnoses, reported, alarms, settings, still),
            *detections.of_hardware(seen, self.memory.events, names),
        ]
        mixed = seen.namesakes
        told = [one for one in told if one.who.run not in mixed or one.kind is Kind.EVENT]
        told += of_namesakes(mixed, members, now)
        # Of a run that no page tells of any more no diagnosis will be made.
        judged = dict.fromkeys(held.keys() - members.columns_of_run.keys(), now)
        judged |= {run: one.at for run, one in self.diagnoses.last.items() if run not in judged}
        patience = ENDS_AWAITED_CYCLES * settings.interval
        told = list(run_over.with_ends(told, lives, over, held, judged, patience))
        sightings = list(node_names.by_old_names(told, renamed, course))
        missing = reporting.untold(self.memory.told, told_of_ranks, members)
        knows = closable(
            seen, self.memory, self.diagnoses.last, missing, settings.interval, settings.window
        )
        again = {run: one.again for run, one in lives.items() if one.again}
        lost = {run: one.lost for run, one in lives.items() if one.lost is not None}
        ended = {run: end.when for run in held if (end := lives[run].end) is not None}
        unseen = {run for run in held if (end := lives[run].end) is not None and end.open}
        old = {renamed[name] for name in knows.dark if name in renamed}
        knows = replace(
            knows, over=over, held=ended, again=again, lost=lost, dark=knows.dark | old,
            runs=knows.runs | ended.keys(), unclear=frozenset(mixed) | unseen, went_on=went_on,
            taken_away=frozenset(gone.values()),
            readings=_readings(over_peers(np.where(fresh, seen.own_lately, np.nan), members),
                               members),
        )  # fmt: skip
        course, change = advance(course, sightings, knows, settings.pace, self.memory.closed)
        told_of = frozenset(members.runs)
        course, change = with_dumps(course, change, still.standing, knows.moving, told_of)
        course, change = with_costs(course, change, self._run_costs(seen, runs, living), now)
        course, change = with_incidents(course, change, now)
        paged = {who.run for who, tier in course.open if tier is Tier.PAGE}
        self.suspects = not self.diagnoses.urgent <= paged
        unwritten = {**self.memory.unwritten, **{one.folder: 1 for one in change.opened}}
        closings = {one.folder: one.closed for one in change.closed if one.closed is not None}
        unclosed = {**self.memory.unclosed, **closings} if settings.out is not None else {}
        self.state = state
        self.memory = replace(
            self.memory,
            course=course,
            pages=self._pages(seen, course),
            inventory=inventory.updated(
                self.memory.inventory, seen.pages, seen.links, seen.ports, names, now
            ),
            lives=lives,
            renamed=renamed,
            closed=(
                *(
                    one
                    for one in self.memory.closed
                    if one.folder in unclosed or self._untold(one, now)
                ),
                *change.closed,
            ),
            unwritten={} if settings.out is None else unwritten,
            unclosed=unclosed,
        )
        assessments = {
            run: assessed(self._facts(run, seen, fresh, missing))
            for run, columns in members.columns_of_run.items()
            if seen.living[columns].any()
        }
        known_now = page.Known(
            members=members,
            own=own,
            clock=over_peers(np.where(fresh & told_of_ranks[CLOCK], seen.clock, np.nan), members),
            speeds=speeds,
            slowdown={
                run: one.verdict.slowdown
                for run, one in self._fresh_verdicts(now).items()
                if one.verdict.slowdown is not None and one.verdict.status != UNKNOWN
            },
            living=frozenset(assessments),
            baselines=self._baselines(seen),
            fresh=fresh_runs(seen, settings.interval),
            ranks={
                run: int((np.isfinite(seen.own) & fresh)[columns].sum())
                for run, columns in members.columns_of_run.items()
            },
            assessments=assessments,
            looked=self._looked(seen, missing, assessments),
        )
        plans = {one.folder: self.plan(one, seen, own) for one in change.open
                 if one in change.opened or one.folder in change.paged}  # fmt: skip
        return Outcome(change, seen, known_now, plans)

    def plan(self, finding: WatchFinding, seen: Look, own: np.ndarray) -> Plan:
        """What belongs into the archive of a finding."""
        run, members = finding.who.run, seen.members
        judged = self._fresh_verdicts(seen.now).get(run)
        if judged is not None and not is_named(judged.verdict, finding.who):
            judged = None
        begin = min(finding.onset, seen.now) - self._settings.window
        columns = members.columns_of_run.get(run)
        if columns is None:
            here = [key for key, (node, _) in self.memory.nodes.items() if node == finding.who.node]
            if (life := self.memory.lives.get(run)) is not None:  # what its pages told last
                here += sorted(life.pages.difference(here))
            few, targets = here[:MOST_PAGES], dict[str, tuple[str, ...]]()
            for job, instance in few:
                targets[job] = (*targets.get(job, ()), instance)
            chosen = Pages(targets, part=life is None or len(few) < len(here))
            return Plan(chosen, {}, begin, seen.now, 0, None)
        suspects = [] if finding.who.rank is None else [finding.who.rank]
        every, life = seen.pages_of(run), self.memory.lives.get(run)
        silent = frozenset() if life is None else life.pages - every  # as of a lost node
        # What the verdict was reached by is read again: it is then the archive's own.
        chosen = pages(members, run, suspects, own, silent) if judged is None else judged.pages
        collectors: dict[str, tuple[str, ...]] = {}
        for job, instance in sorted(every):
            collectors[job] = (*collectors.get(job, ()), instance)
        begin = max(begin, seen.now - 6 * self._settings.window)
        first = 0 if finding.from_step is None else finding.from_step
        done = self.memory.runs[run].steps
        return Plan(
            pages=chosen,
            collectors=collectors if len(every) <= OPERATION_PAGES else chosen.targets,
            start=begin if judged is None else min(begin, judged.span.start),
            end=seen.now,
            from_step=max(0, first - STEPS_BEFORE - int(max(0.0, done - first))),
            judged=judged,
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

    def _since(self, now: float) -> float:
        """Since when it was looked without a pause, and nothing of what was seen was lost."""
        since, pause = self.memory.since, now - self.state.until
        steady = 0 <= pause <= stale_after(self._settings.interval)
        return min(since, now) if since is not None and steady else now

    def closed_lately(self) -> Iterator[WatchFinding]:
        """Findings whose end may not have been told yet."""
        return (one for one in self.memory.closed if self._untold(one, self.state.until))

    def _untold(self, one: WatchFinding, now: float) -> bool:
        """Whether an Alertmanager may not have heard that a finding closed."""
        age = 0.0 if one.closed is None else now - one.closed
        owed = age < OWED_SECONDS and is_owed(one, self.memory.taken)
        return owed or age < ENDS_TOLD_SECONDS

    def _run_costs(
        self, seen: Look, runs: Mapping[str, Progress], living: frozenset[str]
    ) -> dict[str, RunCost]:
        """What each run loses now that findings are about, or may be."""
        found, fresh = {}, self._fresh_verdicts(seen.now)
        for run in living:
            columns = seen.members.columns_of_run[run]
            last = fresh.get(run)
            # A rate tells of the minute before; the last step, of now.
            still = seen.now - runs[run].since > STANDING_CHECKS * self._settings.interval
            found[run] = RunCost(
                max(len(columns), int(seen.members.world[columns].max())),
                "GPU" if (seen.members.gpu[columns] >= 0).any() else "rank",
                None if last is None else last.verdict,
                runs[run].since if still and runs[run].seen == seen.now else None,
            )
        return found

    def _fresh_verdicts(self, now: float) -> dict[str, Judged]:
        last, window = self.diagnoses.last, self._settings.window
        return {run: one for run, one in last.items() if now - one.at <= window}

    def _facts(self, run: str, seen: Look, fresh: Bools, missing: Bools) -> Facts:
        """What is known of a living run."""
        columns, course, now = seen.members.columns_of_run[run], self.memory.course, seen.now
        verdict = self._fresh_verdicts(now).get(run)
        nodes = set(seen.members.node[columns].tolist())
        since = now if self.memory.since is None else self.memory.since
        return Facts(
            heard=bool(fresh[columns].all()),
            world=max(len(columns), int(seen.members.world[columns].max())),
            up=int(seen.living[columns].sum()),
            stepping=int((seen.step_rate[columns] > 0).sum()),
            known=int((np.isfinite(seen.own) & fresh)[columns].sum()),
            untold=bool(missing[columns].any() or seen.blind),
            verdict=None if verdict is None else verdict.verdict.status,
            named=any(
                one.kind is not Kind.HARDWARE
                and (one.who.run == run or (not one.who.run and one.who.node in nodes))
                for one in course.open.values()
            ),
            unsure=any(who.run == run for who, _ in course.waiting),
            settled=now - since >= self._settings.pace.close,
            namesakes=run in seen.namesakes,
        )

    def _looked(
        self, seen: Look, missing: Bools, assessments: Mapping[str, Assessment]
    ) -> frozenset[str]:
        """Nodes that answer, where nothing is missing and no rank of which nothing is known."""
        members = seen.members
        known = [run for run, one in assessments.items() if one.status != UNKNOWN]
        judged = np.isin(members.run, known) & seen.living & ~missing
        lives = {node for node, words in self.memory.told.items() if reporting.RANKS in words}
        dark = lives - set(members.node[judged].tolist())
        dark |= set(members.node[missing | (seen.living & ~judged)].tolist())
        here = (node for node, when in self.memory.nodes.values() if when == seen.now)
        return frozenset(here) - dark

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
                found[run] = seen.pages_of(run)
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
            return (), replace(state, until=max(state.until, seen.now))
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


def _readings(own: NDArray[np.float64], members: Members) -> dict[tuple[str, int | str], float]:
    """As `Closable.readings`, of (R,) own time over the peers' median."""
    found: dict[tuple[str, int | str], float] = {}
    for column in np.flatnonzero(np.isfinite(own)).tolist():
        run, value = str(members.run[column]), float(own[column])
        found[run, int(members.rank[column])] = value
        node = run, str(members.node[column])
        found[node] = max(value, found.get(node, value))
    return found
