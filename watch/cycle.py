"""One cycle of `lockstep watch`: look, judge, findings, and what is then delivered.

`STAGES` is the whole way of a cycle, in the order in which one reads it. `lockstep.watch.loop`
delivers the outcome: it saves the memory, has archives written and calls who sends alerts.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.findings.alertmanager.outbox import OWED_SECONDS
from lockstep.analyzer.findings.alerts import is_owed
from lockstep.analyzer.findings.closable import Closable
from lockstep.analyzer.findings.finding import Change, Detection, Kind, Tier, WatchFinding
from lockstep.analyzer.findings.finding_lifecycle import Course, advance
from lockstep.analyzer.hardware.sequential_test.alarms import Alarm
from lockstep.analyzer.hardware.sequential_test.state import State
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.watch.archive.jobs import Plan, plan
from lockstep.watch.findings import run_costs, with_costs, with_dumps, with_incidents
from lockstep.watch.judge import detections as detections_of
from lockstep.watch.judge import hardware, presence, run_end
from lockstep.watch.judge import runs as run_states
from lockstep.watch.judge.detections import Still
from lockstep.watch.judge.diagnoses import Diagnoses, Judged
from lockstep.watch.judge.endings import lives_now
from lockstep.watch.judge.hardware import Target
from lockstep.watch.judge.memory import Memory
from lockstep.watch.judge.runs import Life, Progress, with_silences
from lockstep.watch.look.members import Members
from lockstep.watch.look.panel import CLOCK, Speed, over_peers, speed, tested
from lockstep.watch.look.snapshot import INVENTORY_EVERY, Look
from lockstep.watch.look.snapshot import look as ask
from lockstep.watch.serve import metrics
from lockstep.watch.settings import Settings, kind_of

LOG = logging.getLogger(__name__)
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

BACK_CHECKS = 60
"""Checks that a first look, or one after a pause, goes back: more than a stream needs to learn."""
LEAST_CHECKS = 10
ENDS_TOLD_SECONDS = 3600.0
"""A finding that closed is remembered for so long: the next process reports its end again, which
an Alertmanager that knows it takes for the same."""
ENDS_AWAITED_CYCLES = 3
"""Looks that wait for a diagnosis of a run's end, where nobody else names anybody."""
AWAY_EVERY = 4
"""Looks between two questions which nodes were taken away."""


@dataclass(slots=True)
class Cycle:
    """One cycle on its way through `STAGES`; each stage sets what later ones read.

    Attributes:
        count: Looks of this process before this one.
        failures: Cycles before this one that got no answer: each halves how far it looks back,
            since a long look may be what a busy Prometheus cannot answer.
        still: What dumps say of runs that stand still.
        memory, state: What is remembered; they are this cycle's own until it is over.
        look: What Prometheus answered.
        since: Unix seconds since which no look was missed and no reading was lost.
        away: Pages that nobody scrapes any more, and their presence.
        alarms: Of the sequential test.
        fresh: (R,) whether the page of a rank was scraped just now.
        own: (R,) own time over the median of the peers.
        speeds, runs: How fast each run is, and how it progresses.
        reported: run -> rank -> unix seconds since which the sequential test reports it.
        names: Page -> its node.
        renamed: New name of a node -> its name in open findings.
        lives: Every run as it was seen last; `living` = runs of which a rank lives.
        over, held: Runs that ended and how, and those whose end keeps its finding open.
        awaits_end: Whether a run is gone, lately, of which it is not known yet how it ended.
        readings: Reading -> (R,) whether it is there of the rank, its GPU or its page.
        missing: (R,) whether a reading is missing that the node, or that of a peer, had before.
        detections: Everything wrong, under the names of open findings.
        closable: What this cycle may close.
        course, change: The findings after this cycle, and what it changed.
        known: What the page reports.
        plans: What belongs into the archives that are to be written, by their folders.
    """

    settings: Settings
    connection: Connection
    count: int
    failures: int
    still: Still
    memory: Memory
    state: State
    diagnoses: Diagnoses
    gauges: presence.Gauges
    look: Look = field(init=False)
    since: float = field(init=False)
    away: Mapping[Target, str] = field(init=False)
    alarms: tuple[Alarm, ...] = field(init=False)
    fresh: Bools = field(init=False)
    own: Floats = field(init=False)
    speeds: Mapping[str, Speed] = field(init=False)
    runs: Mapping[str, Progress] = field(init=False)
    reported: Mapping[str, Mapping[int, float]] = field(init=False)
    names: Mapping[Target, str] = field(init=False)
    renamed: Mapping[str, str] = field(init=False)
    lives: Mapping[str, Life] = field(init=False)
    living: frozenset[str] = field(init=False)
    over: Mapping[str, str] = field(init=False)
    held: Mapping[str, float] = field(init=False)
    awaits_end: bool = field(init=False)
    readings: Mapping[str, Bools] = field(init=False)
    missing: Bools = field(init=False)
    detections: Sequence[Detection] = field(init=False)
    closable: Closable = field(init=False)
    course: Course = field(init=False)
    change: Change = field(init=False)
    known: metrics.Known = field(init=False)
    plans: Mapping[str, Plan] = field(init=False)

    @property
    def now(self) -> float:
        """Unix seconds on the clock of Prometheus."""
        return self.look.now

    @property
    def members(self) -> Members:
        """The ranks of all runs."""
        return self.look.members

    @property
    def verdicts(self) -> dict[str, Judged]:
        """The last diagnosis of each run, if it is not too old."""
        return self.diagnoses.fresh(self.now)


Stage = Callable[[Cycle], None]


# Look.


def look(cycle: Cycle) -> None:
    """Ask Prometheus about everything that lives.

    Raises:
        SourceError: It does not answer, or not whole.
    """
    interval, until = cycle.settings.interval, cycle.state.until
    cycle.look = ask(
        cycle.connection, until, interval, max(LEAST_CHECKS, BACK_CHECKS >> cycle.failures),
        inventory=cycle.count % INVENTORY_EVERY == 0,
    )  # fmt: skip
    since, pause = cycle.memory.since, cycle.now - until
    steady = since is not None and 0 <= pause <= presence.stale_after(interval)
    cycle.since = min(since, cycle.now) if since is not None and steady else cycle.now


def away(cycle: Cycle) -> None:
    """Which pages nobody scrapes any more, and their nodes: an autoscaler took them away."""
    cycle.away = {}
    if (cycle.count + 1) % AWAY_EVERY == 0:
        cycle.away = presence.taken_away(
            cycle.connection, cycle.look, cycle.memory, cycle.settings.interval
        )


# Judge.


def alarms(cycle: Cycle) -> None:
    """What the sequential test reports (docs/method/alerting.md)."""
    settings = cycle.settings
    cycle.alarms, cycle.state = tested(
        cycle.look.panel, cycle.state, cycle.now, settings.interval, settings.budget
    )
    cycle.reported = detections_of.alarmed_ranks(cycle.alarms, cycle.members)


def speeds(cycle: Cycle) -> None:
    """Own times beside those of peers, and how each run progresses."""
    seen, memory = cycle.look, cycle.memory
    cycle.fresh = presence.fresh_members(seen, cycle.settings.interval)
    cycle.own = over_peers(np.where(cycle.fresh, seen.own, np.nan), cycle.members)
    cycle.speeds = speed(seen.step_rate, cycle.members)
    runs = presence.runs_now(seen, cycle.speeds, memory, cycle.settings.interval)
    cycle.runs = with_silences(runs, cycle.still.longest)


def diagnoses(cycle: Cycle) -> None:
    """Verdicts about the runs that are due, as `lockstep analyze` reaches them."""
    course = cycle.memory.course
    watched = frozenset(who.run for who, _ in (*course.open, *course.waiting))
    pages = {run: life.pages for run, life in cycle.memory.lives.items()}
    cycle.diagnoses.work(
        cycle.connection, cycle.look, cycle.own, cycle.runs, cycle.reported, watched, pages
    )


def node_names(cycle: Cycle) -> None:
    """What nodes are called, now and in open findings; nothing is expected of those away."""
    memory, members = cycle.memory, cycle.members
    cycle.names = names = hardware.node_names(cycle.look.pages, members, memory.nodes)
    gpus = presence.gpus(members)
    another = presence.other_machines(memory.gpus, gpus)
    memory = presence.without(memory, cycle.away, presence.old_names(memory, names, another))
    cycle.renamed = presence.renamed(memory.renamed, memory.nodes, names, memory.course, another)
    cycle.memory = replace(
        memory,
        gpus={
            target: uuids for target, uuids in {**memory.gpus, **gpus}.items()
            if target in memory.nodes or target in names
        },
    )  # fmt: skip


def lives(cycle: Cycle) -> None:
    """Which runs live, and how those ended of which no rank does (docs/method/alerting.md)."""
    seen, memory, settings = cycle.look, cycle.memory, cycle.settings
    now_known = lives_now(
        cycle.connection, seen, memory.lives, cycle.runs, settings.interval, settings.pace.close,
        cycle.since,
    )  # fmt: skip
    cycle.living = living = frozenset(cycle.members.run[seen.living].tolist())
    inherited = run_states.inherited(now_known, living)
    cycle.lives = run_states.with_told(inherited, memory.course.open.values(), _went_on(cycle))
    cycle.awaits_end = any(
        run not in living and life.end is None and cycle.now - life.seen < 2 * settings.interval
        for run, life in cycle.lives.items()
    )
    cycle.over, cycle.held = run_end.over(cycle.lives, living, cycle.now)


def readings(cycle: Cycle) -> None:
    """Which readings are there of each rank and node, and which of them are missing."""
    seen, memory, members, now = cycle.look, cycle.memory, cycle.members, cycle.now
    interval = cycle.settings.interval
    cycle.readings = cycle.gauges.told_now(seen, interval)
    reports = presence.with_reports(memory.told, cycle.readings, members, now)
    cycle.memory = replace(
        memory,
        told=presence.with_ranks(reports, members, seen.up, now),
        since=cycle.since,
        runs=run_states.recent_runs(cycle.runs, now),
        nodes=presence.remembered(memory.nodes, cycle.names, seen, interval),
        events=hardware.events(
            seen.xids, members, cycle.names,
            {run: progress.begun for run, progress in cycle.runs.items()}, memory.events, now,
        ),
    )  # fmt: skip
    cycle.missing = presence.missing_reports(cycle.memory.told, cycle.readings, members)


def detections(cycle: Cycle) -> None:
    """Everything wrong that this cycle sees."""
    seen, members, now, lives = cycle.look, cycle.members, cycle.now, cycle.lives
    every = [
        *detections_of.of_runs(
            seen, cycle.runs, cycle.diagnoses, cycle.reported, cycle.alarms, cycle.settings,
            cycle.still,
        ),
        *detections_of.of_hardware(seen, cycle.memory.events, cycle.names),
    ]  # fmt: skip
    mixed = seen.namesakes
    every = [one for one in every if one.who.run not in mixed or one.kind is Kind.EVENT]
    every += detections_of.of_namesakes(mixed, members, now)
    # No diagnosis will be made of a run that no page reports any more.
    judged = dict.fromkeys(cycle.held.keys() - members.columns_of_run.keys(), now)
    judged |= {
        run: verdict.at for run, verdict in cycle.diagnoses.last.items() if run not in judged
    }
    patience = ENDS_AWAITED_CYCLES * cycle.settings.interval
    every = list(run_end.with_ends(every, lives, cycle.over, cycle.held, judged, patience))
    cycle.detections = list(presence.by_old_names(every, cycle.renamed, cycle.memory.course))


# Findings.


def closing(cycle: Cycle) -> None:
    """What this cycle knows enough about to close it."""
    seen, memory, lives, settings = cycle.look, cycle.memory, cycle.lives, cycle.settings
    knows = presence.closable(
        seen, memory, cycle.diagnoses.last, cycle.missing, settings.interval, settings.window
    )
    ends = {run: end for run in cycle.held if (end := lives[run].end) is not None}
    old = {cycle.renamed[name] for name in knows.dark if name in cycle.renamed}
    lately = over_peers(np.where(cycle.fresh, seen.own_lately, np.nan), cycle.members)
    cycle.closable = replace(
        knows,
        over=cycle.over,
        held={run: end.when for run, end in ends.items()},
        again={run: life.again for run, life in lives.items() if life.again},
        lost={run: life.lost for run, life in lives.items() if life.lost is not None},
        dark=knows.dark | old,
        runs=knows.runs | ends.keys(),
        unclear=frozenset(seen.namesakes) | {run for run, end in ends.items() if end.open},
        went_on=_went_on(cycle),
        taken_away=frozenset(cycle.away.values()),
        readings=_by_place(lately, cycle.members),
    )


def findings(cycle: Cycle) -> None:
    """Findings open, go on and close."""
    memory, knows = cycle.memory, cycle.closable
    cycle.course, cycle.change = advance(
        memory.course, cycle.detections, knows, cycle.settings.pace, memory.closed
    )


def dumps(cycle: Cycle) -> None:
    """What dumps say goes into the findings of runs that stand still."""
    cycle.course, cycle.change = with_dumps(
        cycle.course, cycle.change, cycle.still.standing, cycle.closable.moving,
        frozenset(cycle.members.runs),
    )  # fmt: skip


def costs(cycle: Cycle) -> None:
    """What each finding has cost so far (docs/method/cost.md)."""
    losses = run_costs(
        cycle.look, cycle.runs, cycle.living, cycle.verdicts, cycle.settings.interval
    )
    cycle.course, cycle.change = with_costs(cycle.course, cycle.change, losses, cycle.now)


def incidents(cycle: Cycle) -> None:
    """Findings of one run and signature in the same minutes share one alert."""
    cycle.course, cycle.change = with_incidents(cycle.course, cycle.change, cycle.now)


def remember(cycle: Cycle) -> None:
    """What the next cycle, or the next process, goes on with."""
    memory, change, seen, now = cycle.memory, cycle.change, cycle.look, cycle.now
    writes = cycle.settings.out is not None
    unwritten = {**memory.unwritten, **{one.folder: 1 for one in change.opened}}
    closings = {one.folder: one.closed for one in change.closed if one.closed is not None}
    unclosed = {**memory.unclosed, **closings} if writes else {}
    before = [
        one for one in memory.closed if one.folder in unclosed or is_unreported(one, memory, now)
    ]
    cycle.memory = replace(
        memory,
        course=cycle.course,
        pages=_pages(cycle),
        inventory=hardware.updated(
            memory.inventory, seen.pages, seen.links, seen.ports, cycle.names, now
        ),
        lives=cycle.lives,
        renamed=cycle.renamed,
        closed=(*before, *change.closed),
        unwritten=unwritten if writes else {},
        unclosed=unclosed,
    )


# Deliver.


def report(cycle: Cycle) -> None:
    """What the page reports of runs and presence."""
    cycle.known = metrics.known(
        cycle.look, cycle.memory, cycle.verdicts, cycle.settings, own=cycle.own,
        speeds=cycle.speeds, fresh=cycle.fresh, missing=cycle.missing,
        clocks=cycle.fresh & cycle.readings[CLOCK],
    )  # fmt: skip


def archives(cycle: Cycle) -> None:
    """What belongs into the archives of findings that opened, or that page from now on."""
    change = cycle.change
    cycle.plans = {
        one.folder: plan(
            one, cycle.look, cycle.own, cycle.memory, cycle.verdicts, cycle.settings.window
        )
        for one in change.open
        if one in change.opened or one.folder in change.paged
    }


STAGES: tuple[Stage, ...] = (
    # look
    look,
    away,
    # judge
    alarms,
    speeds,
    diagnoses,
    node_names,
    lives,
    readings,
    detections,
    # findings
    closing,
    findings,
    dumps,
    costs,
    incidents,
    remember,
    # deliver
    report,
    archives,
)
"""Every stage, in the order in which one reads them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cycle found.

    Attributes:
        plans: Of what belongs into the archives, by their folders.
    """

    change: Change
    look: Look
    known: metrics.Known
    plans: Mapping[str, Plan]


class Cycles:
    """Cycle after cycle over one Prometheus.

    Attributes:
        state, memory: What is remembered, after the last cycle.
        unanswered: Questions so far that a cycle did without.
        awaits_end: Whether a run is gone, lately, of which it is not known yet how it ended.
        suspects: Whether something is new about a run, and no finding of it pages yet.
    """

    def __init__(self, settings: Settings, state: State, memory: Memory) -> None:
        self.state = state
        self.memory = memory
        self.diagnoses = Diagnoses(settings)
        self.unanswered = 0
        self.awaits_end = self.suspects = False
        self._settings = settings
        self._gauges = presence.Gauges()
        self._count = 0
        self._sentences: tuple[str, ...] = ()
        self._compared: frozenset[str] = frozenset()

    def next(
        self, connection: Connection, failures: int = 0, still: Still | None = None
    ) -> Outcome:
        """One cycle.

        Args:
            connection: To the Prometheus.
            failures: Cycles before this one that got no answer.
            still: What dumps say of runs that stand still.

        Raises:
            SourceError: Prometheus does not answer, or not whole; nothing has changed then.
        """
        cycle = Cycle(
            self._settings, connection, self._count, failures, still or Still(), self.memory,
            self.state, self.diagnoses, self._gauges,
        )  # fmt: skip
        look(cycle)
        self._count += 1
        self._log_unanswered(cycle.look)
        for stage in STAGES[1:]:
            stage(cycle)
        self.memory, self.state, self.awaits_end = cycle.memory, cycle.state, cycle.awaits_end
        paged = {who.run for who, tier in cycle.course.open if tier is Tier.PAGE}
        self.suspects = not self.diagnoses.urgent <= paged
        self._log_baselines(cycle.known)
        return Outcome(cycle.change, cycle.look, cycle.known, cycle.plans)

    def plan(self, finding: WatchFinding, seen: Look, own: Floats) -> Plan:
        """What belongs into the archive of a finding."""
        return plan(
            finding, seen, own, self.memory, self.diagnoses.fresh(seen.now), self._settings.window
        )

    def closed_lately(self) -> Iterator[WatchFinding]:
        """Findings whose end may not have been reported yet."""
        memory, now = self.memory, self.state.until
        return (one for one in memory.closed if is_unreported(one, memory, now))

    def _log_unanswered(self, seen: Look) -> None:
        """Count and log what was not answered; once for each change of it."""
        self.unanswered += len(seen.unanswered)
        sentences = tuple(dict.fromkeys(seen.unanswered))
        if sentences and sentences != self._sentences:
            LOG.warning(
                "%d questions about hardware were not answered; what is open about it stays as it"
                " is: %s", len(seen.unanswered), "; ".join(sentences),
            )  # fmt: skip
        self._sentences = sentences

    def _log_baselines(self, known: metrics.Known) -> None:
        """Log which baseline a run is compared with; once for each."""
        for run in known.baselines.keys() - self._compared:
            world = int(known.members.world[known.members.columns_of_run[run]].max())
            kind = kind_of(run, world, self._settings.baselines)
            LOG.warning("run %r is compared with the baseline of %s on %d ranks", run, *kind or ())
        self._compared = frozenset(known.baselines)


def is_unreported(finding: WatchFinding, memory: Memory, now: float) -> bool:
    """Whether an Alertmanager may not know yet that a finding closed."""
    age = 0.0 if finding.closed is None else now - finding.closed
    owed = age < OWED_SECONDS and is_owed(finding, memory.taken)
    return owed or age < ENDS_TOLD_SECONDS


def _went_on(cycle: Cycle) -> dict[str, float]:
    return {run: one.went_on for run, one in cycle.runs.items() if one.went_on}


def _pages(cycle: Cycle) -> dict[str, frozenset[Target]]:
    """Which pages report, or reported last, the runs that findings are about."""
    known, pages = cycle.members.columns_of_run, {}
    for run in {who.run for who, _ in (*cycle.course.open, *cycle.course.waiting)}:
        if run in known:
            pages[run] = cycle.look.pages_of(run)
        elif run in cycle.memory.pages:
            pages[run] = cycle.memory.pages[run]
    return pages


def _by_place(own: Floats, members: Members) -> dict[tuple[str, int | str], float]:
    """As `Closable.readings`, of (R,) own time over the peers' median."""
    ratios: dict[tuple[str, int | str], float] = {}
    for column in np.flatnonzero(np.isfinite(own)).tolist():
        run, value = str(members.run[column]), float(own[column])
        ratios[run, int(members.rank[column])] = value
        node = run, str(members.node[column])
        ratios[node] = max(value, ratios.get(node, value))
    return ratios
