"""Some runs of the simulated cluster that do what a test says, and a watch over them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from lockstep.analyzer.findings.finding import Kind, Tier, WatchFinding
from lockstep.analyzer.hardware.sequential_test.state import State
from lockstep.analyzer.read.prometheus.access import access
from lockstep.analyzer.shapes.run import Culprit, Span, Verdict
from lockstep.watch.cycle import Cycles
from lockstep.watch.judge.diagnoses import Diagnoses, Judged, Pages
from lockstep.watch.judge.memory import Memory, from_json, to_json
from lockstep.watch.settings import Settings
from tests.watch.cluster_life import (
    FOREVER,
    NODES,
    Cluster,
    SimulatedConnection,
    SimulatedRun,
)

EVERY = range(NODES)


class FewRuns:
    """Rows of nodes on which exactly the given runs live, and a watch that may be away.

    Attributes:
        connection: Over which the watch asks.
        opened, closed: All findings that did, in order.
    """

    def __init__(self, rows: int = 2, interval: float = 15.0) -> None:
        self.cluster = Cluster(0, rows)
        self.cluster._next = [FOREVER] * rows
        self.settings = Settings(access("http://fake", {}), None, None, interval)
        self.cycles = Cycles(self.settings, State.new(), Memory())
        self.connection = SimulatedConnection(self.cluster)
        self.opened: list[WatchFinding] = []
        self.closed: list[WatchFinding] = []

    @property
    def now(self) -> float:
        return self.cluster.now

    def begin(self, name: str, row: int = 0, attempt: int = 0) -> SimulatedRun:
        """A run begins, in place of one of its name."""
        run = SimulatedRun(name, row, self.now, attempt, 1)
        run.gaps = self.cluster.down
        self.cluster.runs = [one for one in self.cluster.runs if one.run != name] + [run]
        run.now = self.now
        return run

    def dark(self, run: SimulatedRun, begin: float, end: float) -> None:
        """Its collectors are not reached for a while."""
        run.dark.append((begin, end))
        self.cluster.dark.append((run.row, begin, end))

    def look(self) -> None:
        change = self.cycles.next(self.connection).change  # type: ignore[arg-type]
        self.opened += change.opened
        self.closed += change.closed

    def go(self, seconds: float, step: float = 15.0) -> None:
        """Cycle after cycle."""
        for _ in range(round(seconds / step)):
            self.cluster.advance(step)
            self.look()

    def away(self, seconds: float) -> None:
        """Watch is killed, and started again after a while."""
        self.cluster.advance(seconds)
        self.cycles = Cycles(
            self.settings, self.cycles.state, from_json(to_json(self.cycles.memory))
        )

    @property
    def open(self) -> list[WatchFinding]:
        return list(self.cycles.memory.course.open.values())

    def stops(self) -> list[tuple[int | None, Tier]]:
        """Of all that opened."""
        return [(one.who.rank, one.tier) for one in self.opened if one.kind is Kind.STOP]


def verdict(diagnoses: Diagnoses, connection: Any, seen: Any, wish: Any, *_: Any) -> None:
    """In place of a diagnosis: it names the slow rank of an episode, and nobody else."""
    run = next(one for one in connection.cluster.runs if one.run == wish.run)
    slow = next((one for one in run.episodes if one.begin + 30.0 <= seen.now < one.end), None)
    if seen.now >= run.over:
        diagnoses._concluded.add(wish.run)
        slow = None
    named = () if slow is None else (culprit(slow.rank, slow.begin, slow.factor, "thermal"),)
    for begin, end, rank in run.stands:
        if begin + 20.0 <= seen.now < end:
            named = (culprit(rank, begin, None, "freeze"),)
    judged(diagnoses, wish.run, seen.now, named)


def culprit(rank: int, since: float, slowdown: float | None, cause: str) -> Culprit:
    """A rank that is sure to be it."""
    return Culprit(
        "rank", rank, f"node-{rank}", 0, None, None, None, None, None, 100, None,
        datetime.fromtimestamp(since, UTC).isoformat(), slowdown, None, cause, 0.9, "page", (),
        0.95,
    )  # fmt: skip


def judged(diagnoses: Diagnoses, run: str, now: float, named: Iterable[Culprit]) -> None:
    """The last verdict of a run is one that names these."""
    found = Verdict(run, "healthy", "Healthy.", None, None, None, 1.0)
    if named := tuple(named):
        found = Verdict(run, "degraded", "A rank is slow.", 1.4, None, None, 1.0, named)
    if run in diagnoses.last:
        diagnoses.before[run] = diagnoses.last[run]
    span = Span(now - 600.0, now)
    diagnoses.last[run] = Judged(found, Pages({}, part=False), span)


def crashes(run: SimulatedRun, when: float, rank: int = 3, later: float = 20.0) -> None:
    """A rank goes first, without a word; the others meet its loss."""
    run.dies = {r: when if r == rank else when + later for r in EVERY}
    run.states = {r: "running" if r == rank else "peer_lost" for r in EVERY}
