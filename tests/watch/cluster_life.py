"""Days of a simulated cluster, watched by a real Watch on a simulated clock.

Runs of four ranks start, slow down, recover, die, are killed by a scheduler, vanish with their
nodes or collectors, end as they should and start again; nodes are renamed or cannot be reached for
a while, Prometheus restarts, Alertmanager is away, cut off or loses its alerts, and watch is killed
(kill -9) before and after whatever it writes or tells. What is simulated: Prometheus' answers,
Alertmanager, the clock. What is real: cycles, diagnoses, findings, state on disk, archives,
reports, delivery.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lockstep.analyzer.findings.alertmanager.posting import Answer, Result
from lockstep.analyzer.findings.alertmanager.replica import Replica
from lockstep.analyzer.findings.finding import Kind, WatchFinding
from lockstep.analyzer.read.prometheus.access import SourceError, access
from lockstep.analyzer.shapes.run import Culprit, Span, Verdict
from lockstep.watch import loop
from lockstep.watch.archive import archivist, finding_folders
from lockstep.watch.archive.report_worker import written
from lockstep.watch.archive.reports import Done, Reports, Urgency
from lockstep.watch.deliver.delivery import Delivery
from lockstep.watch.judge.diagnoses import Diagnoses, Judged, Pages
from lockstep.watch.judge.run_end import HOLD_SECONDS
from lockstep.watch.look.collectors import Operations
from lockstep.watch.loop import Watch
from lockstep.watch.settings import Settings
from tests.watch.fake_prometheus import OWN, SCRAPE, START, STEP, FakePrometheus
from tests.watch.states import Direct

NODES = 4
GONE_SECONDS = 600.0
LONGEST_STEPS = 60_000
FOREVER = float("inf")
GROUP_WAIT = 30.0
"""Alertmanager's default."""
PATIENCE = 300.0
"""Settings.pace.close, at 15 s."""
TOLD_NO_MORE = "has sent no data since"
TRIED = re.compile(r"^max by \(job, instance\) \(max_over_time\(up\{.*\[(?P<ms>\d+)ms\]\)\)$")


class KilledError(BaseException):
    """kill -9 of watch."""


@dataclass
class Episode:
    """A rank that is slower for a while."""

    rank: int
    factor: float
    begin: float
    end: float


def _within(time: float, spans: Iterable[tuple[float, float]]) -> bool:
    return any(begin <= time < end for begin, end in spans)


class SimulatedRun(FakePrometheus):
    """A run on the four nodes of a row, with a beginning, slow episodes, and an end.

    Attributes:
        begun: Unix seconds.
        episodes: In time's order, apart from each other.
        states: What each rank says last.
        dies: When each rank is gone; of a run that ends as it should all at once.
        vanished: From when on its pages tell nothing of it, as after a restart of the node.
        dark: (from when, until when) none of its pages is reached, though it lives.
        stands: (from when, until when, the rank that stops it) no step is made.
    """

    def __init__(self, name: str, row: int, begun: float, attempt: int, seed: int) -> None:
        super().__init__()
        self.run, self.row, self.begun, self.attempt = name, row, begun, attempt
        self.episodes: list[Episode] = []
        self.states: dict[int, str] = {}
        self.dies: dict[int, float] = {}
        self.vanished = FOREVER
        self.gaps: list[tuple[float, float]] = []
        self.dark: list[tuple[float, float]] = []
        self.stands: list[tuple[float, float, int]] = []
        self.bare = True
        dice = np.random.default_rng(seed)
        self._noise = np.cumsum(0.01 * dice.standard_normal((NODES, LONGEST_STEPS)), axis=1)

    @property
    def over(self) -> float:
        """When none of its ranks lives any more."""
        return min(max(self.dies.values(), default=FOREVER), self.vanished)

    def here(self, time: float) -> bool:
        """Whether its collectors tell of it."""
        told = self.begun <= time < min(self.over + GONE_SECONDS, self.vanished)
        return told and not _within(time, self.dark)

    def was_told(self, time: float) -> bool:
        """Whether a scrape of that moment tells of it."""
        return self.here(time) and not _within(time, self.gaps)

    def scraped(self, time: float) -> float:
        last = super().scraped(time)
        for begin, end in self.gaps:
            if begin <= last < end:
                last = super().scraped(begin)
        return last

    def dead(self, time: float, rank: int | None = None) -> bool:
        if rank is None:
            return time >= self.over
        return time >= self.dies.get(rank, FOREVER)

    def said(self, rank: int) -> str:
        return self.states.get(rank, "running")

    def steps(self, time: float) -> float:
        stops = min(self.dies.values(), default=FOREVER)
        until, done = min(time, stops, self.vanished), 0.0
        at = self.begun
        until -= sum(max(0.0, min(until, end) - begin) for begin, end, _ in self.stands)
        for one in self.episodes:
            if one.begin >= until:
                break
            done += (one.begin - at) / STEP
            at = min(one.end, until)
            done += (at - one.begin) / max(STEP, OWN * one.factor + 0.1)
        return float(math.floor(max(0.0, done + (until - at) / STEP)))

    def _paused(self, time: float) -> list[float]:
        return [begin for begin, end, _ in self.stands if begin <= time < end]

    def own(self, time: float, rank: int) -> float:
        steps = self.steps(time)
        own = OWN * (steps + self._noise.item(rank, int(steps) % LONGEST_STEPS))
        for one in self.episodes:
            if one.rank == rank and time > one.begin:
                slow = self.steps(min(time, one.end)) - self.steps(one.begin)
                own += OWN * (one.factor - 1) * slow
        return own

    def _target(self, rank: int) -> dict[str, str]:
        return {"job": "lockstep", "instance": f"127.0.{self.row}.{rank + 1}:9"}

    def _info(self, rank: int) -> dict[str, str]:
        place = {"node": self.node.format(self.row * NODES + rank), "attempt": str(self.attempt)}
        return {**super()._info(rank), **place, "uuid": f"GPU-{self.row}-{rank}"}

    def answers(self, query: str, time: float) -> list[tuple[dict[str, str], float]]:
        """Of an instant query."""
        if not self.here(self.scraped(time)):
            return []
        self.ended = 0.0 if self.dies else None  # what the base asks before it tells of states
        told = self._instant(query, time)
        return [(labels, value) for labels, value in told if self.begun <= self.scraped(time)]


@dataclass
class Told:
    """What an Alertmanager told people: when, and the labels and words of what."""

    when: float
    firing: bool
    labels: Mapping[str, str]
    words: Mapping[str, str]
    starts: str


class SimulatedAlertmanager:
    """As Alertmanager 0.25: an alert fires until its end; the log of what was told outlives it.

    Each alert is a group of its own, and first told GROUP_WAIT after it came, if it fires then.
    """

    def __init__(self, now: Callable[[], float], fuse: Callable[[], None]) -> None:
        self.now, self.fuse = now, fuse
        self.away = self.cut_off = False
        self.told: list[Told] = []
        self._alerts: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
        self._came: dict[tuple[tuple[str, str], ...], float] = {}
        self._log: dict[tuple[tuple[str, str], ...], bool] = {}

    def send(self, _: object, __: object, alerts: list[dict[str, Any]]) -> Answer:
        """What Replica calls."""
        self.fuse()
        if self.away:
            return Answer(Result.UNREACHABLE, "it cannot be reached")
        for one in alerts:
            key = tuple(sorted(one["labels"].items()))
            self._alerts[key] = one
            self._came.setdefault(key, self.now())
        self.tick()
        self.fuse()
        return Answer(Result.TAKEN)

    def tick(self) -> None:
        """Tell what changed."""
        if self.away and not self.cut_off:
            return
        for key, one in list(self._alerts.items()):
            firing = _unix(one["endsAt"]) > self.now()
            if firing and self.now() < self._came[key] + GROUP_WAIT:
                continue
            if firing != self._log.get(key, False):
                self._log[key] = firing
                self.told.append(
                    Told(self.now(), firing, dict(key), one["annotations"], one["startsAt"])
                )
            if not firing:
                del self._alerts[key], self._came[key]

    def restart(self) -> None:
        """It forgets its alerts, and not what it told."""
        self._alerts.clear()
        self._came.clear()


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


class Still(Replica):
    """Works when it is told to, in no thread."""

    def start(self) -> None:
        pass


class ReportsAtOnce(Reports):
    """Writes each report when it is wanted, in no process of its own."""

    def want(self, folder: Path, urgency: Urgency, done: Done | None = None) -> None:
        written(folder)


class Cluster:
    """The world: rows of nodes, the runs on them, and everything that goes wrong."""

    def __init__(self, seed: int, rows: int) -> None:
        self.now = START + 1200.0
        self.dice = np.random.default_rng(seed)
        self.runs: list[SimulatedRun] = []
        self.history: list[tuple[str, SimulatedRun]] = []
        self.names = ["node-{}"] * rows
        self.down: list[tuple[float, float]] = []
        self.dark: list[tuple[int, float, float]] = []
        self._next = [self.now + 60.0 * row for row in range(rows)]
        self._count = 0

    def advance(self, seconds: float) -> None:
        """Let time go on; runs begin where a row is free."""
        self.now += seconds
        self.runs = [one for one in self.runs if self.now < one.over + GONE_SECONDS + 600.0]
        for row, due in enumerate(self._next):
            if self.now >= due:
                self._begin(row)
        for one in self.runs:
            one.now = self.now
            one.node = self.names[one.row]

    def _begin(self, row: int) -> None:
        dice = self.dice
        self._count += 1
        before = next((one for one in reversed(self.runs) if one.row == row), None)
        again = before is not None and dice.random() < 0.3
        name = before.run if again and before is not None else f"gpt-{self._count}"
        attempt = before.attempt + 1 if again and before is not None else 0
        run = SimulatedRun(name, row, self.now, attempt, int(dice.integers(1 << 30)))
        if again and before is not None:
            self.runs.remove(before)  # its rings are the new attempt's
        run.gaps = self.down
        length = float(dice.uniform(2400.0, 9000.0))
        end = self.now + length
        if dice.random() < 0.5:
            begin = self.now + float(dice.uniform(900.0, 1500.0))
            rank, factor = int(dice.integers(NODES)), float(dice.uniform(1.4, 2.0))
            last = min(end, begin + float(dice.uniform(900.0, 2400.0)))
            run.episodes.append(Episode(rank, factor, begin, last))
        if dice.random() < 0.1:  # a network that nobody gets through for a while
            begin = self.now + float(dice.uniform(600.0, 2000.0))
            run.dark.append((begin, begin + float(dice.uniform(60.0, 1500.0))))
            self.dark += [(row, *span) for span in run.dark]
        kinds = ["clean", "clean", "died", "killed", "vanished", "node", "silent"]
        kind = str(dice.choice(kinds))
        every = range(NODES)
        if kind == "clean":
            run.dies, run.states = dict.fromkeys(every, end), dict.fromkeys(every, "finished")
        elif kind == "died":
            first = int(dice.integers(NODES))
            later = end + float(dice.choice([0.0, 1.0, 40.0]))
            run.dies = {rank: end if rank == first else later for rank in every}
            run.states = {r: "running" if r == first else "failed" for r in every}
        elif kind == "killed":
            run.dies = dict.fromkeys(every, end)
        elif kind == "node":  # a node restarts: its page answers again without the run
            run.dies, run.states = dict.fromkeys(every, end), dict.fromkeys(every, "peer_lost")
            run.states[int(dice.integers(NODES))] = "running"
        else:
            run.vanished = end
        self.runs.append(run)
        self.history.append((kind, run))
        self._next[row] = end + float(dice.choice([60.0, 300.0, 1200.0]))
        if kind == "silent":  # its collectors end with it
            self.dark.append((row, end, self._next[row]))

    def is_dark(self, row: int, time: float) -> bool:
        """Whether the collectors of a row are not reached."""
        return _within(time, ((begin, end) for mine, begin, end in self.dark if mine == row))

    def is_down(self) -> bool:
        """Whether Prometheus is away."""
        return any(begin <= self.now < end for begin, end in self.down)


class SimulatedConnection(Direct):
    """Answers of every run as of one Prometheus."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __enter__(self) -> "SimulatedConnection":
        if self.cluster.is_down():
            raise SourceError("http://fake cannot be reached")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def replicas(self, time: float) -> Any:
        return type("Choice", (), {"words": ""})

    def now(self) -> float:
        return self.cluster.now

    def instant(
        self, query: str, time: float, *, every: bool = False, within: object = None
    ) -> list[tuple[Mapping[str, str], float]]:
        from lockstep.analyzer.read.prometheus import questions as ask

        if query == ask.PAGES:
            return self._pages(time)
        if query == ask.SCRAPING or TRIED.match(query):
            return self._up(query, time)
        found: list[tuple[Mapping[str, str], float]] = []
        for run in self.cluster.runs:
            found += run.answers(query, time)
        return found

    def _pages(self, time: float) -> list[tuple[Mapping[str, str], float]]:
        world, last = self.cluster, START + SCRAPE * math.floor((time - START) / SCRAPE)
        for begin, end in world.down:
            if begin <= last < end:
                last = begin
        return [
            ({"job": "lockstep", "instance": f"127.0.{row}.{rank + 1}:9",
              "node": name.format(row * NODES + rank)}, float(last))
            for row, name in enumerate(world.names) if not world.is_dark(row, last)
            for rank in range(NODES)
        ] if time - last < 300.0 else []  # fmt: skip

    def _up(self, query: str, time: float) -> list[tuple[Mapping[str, str], float]]:
        """Prometheus' own account of the scrapes in a span."""
        world, tried = self.cluster, TRIED.match(query)
        seconds = 300.0 if tried is None else int(tried["ms"]) / 1000.0
        last = START + SCRAPE * math.floor((time - START) / SCRAPE)
        scrapes = [one for one in np.arange(last, time - seconds, -SCRAPE)
                   if not _within(one, world.down)]  # fmt: skip
        rows = {row: max(float(not world.is_dark(row, one)) for one in scrapes)
                for row in range(len(world.names)) if scrapes}  # fmt: skip
        if tried is None:
            return [({}, sum(rows.values()))] if any(rows.values()) else []
        return [
            ({"job": "lockstep", "instance": f"127.0.{row}.{rank + 1}:9"}, up)
            for row, up in rows.items() for rank in range(NODES)
        ]  # fmt: skip

    def body(self, path: str, words: Mapping[str, str]) -> bytes:
        series: list[Any] = []
        for run in self.cluster.runs:
            for each in json.loads(run.answer(f"/{path}", dict(words))[1])["data"]["result"]:
                each["values"] = [pair for pair in each["values"] if run.was_told(pair[0])]
                series += [each] if each["values"] else []
        tree = {"status": "success", "data": {"resultType": "matrix", "result": series}}
        return json.dumps(tree).encode()


@dataclass
class Findings:
    """All that was ever said of one finding, by its folder."""

    opened: int = 0
    closed: int = 0
    costs: list[float] = field(default_factory=list)
    last: WatchFinding | None = None


def _as(told: Told) -> tuple[str, str]:
    return told.labels["cause"], told.labels["tier"]


class Days:
    """A cluster, watch, and Alertmanager; `live` lets time go on.

    Attributes:
        wrong: What should never be, in words.
        kills: How often watch was killed.
    """

    def __init__(
        self, folder: Path, seed: int, rows: int = 3, chaos: bool = True, *, oracle: bool = False
    ) -> None:
        self.oracle = oracle
        self.cluster = self._world(seed, rows)
        self.folder, self.chaos = folder, chaos
        self.dice = np.random.default_rng(seed + 1)
        self.wrong: list[str] = []
        self.kills = 0
        self.findings: dict[str, Findings] = defaultdict(Findings)
        self.alertmanager = SimulatedAlertmanager(lambda: self.cluster.now, self._burn)
        self._fuse: int | None = None
        self._back = 0.0
        with self.patched():
            self._watch, self._delivery = self._process()

    def _world(self, seed: int, rows: int) -> Cluster:
        return Cluster(seed, rows)

    def _connection(self) -> SimulatedConnection:
        return SimulatedConnection(self.cluster)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """What watch asks is this world; what it writes may be the last that it does."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "Connection", lambda *_, **__: self._connection())
            patch.setattr(archivist, "Connection", lambda *_, **__: self._connection())
            patch.setattr(archivist.operations, "fetch", lambda *_: Operations())
            patch.setattr(loop, "Reports", ReportsAtOnce)
            patch.setattr(archivist, "AGAIN_SECONDS", 0.0)
            if self.oracle:
                patch.setattr(Diagnoses, "_one", lambda *words: self._verdict(*words))
            store = loop.store

            def stored(*words: Any) -> None:
                self._burn()
                store(*words)
                self._burn()

            patch.setattr(loop, "store", stored)
            yield

    def live(self, hours: float) -> None:
        """Let so many hours pass, cycle after cycle of 15 s."""
        with self.patched():
            for _ in range(round(hours * 3600.0 / SCRAPE)):
                self.cluster.advance(SCRAPE)
                self._accidents()
                try:
                    self._cycle()
                except KilledError:
                    self.kills += 1
                    self._fuse = None
                    self._watch, self._delivery = self._process()
                    self._delivery.start()
                self.alertmanager.tick()
            self._settle()

    def _verdict(self, diagnoses: Diagnoses, _: Any, seen: Any, wish: Any, *__: Any) -> None:
        """In place of a diagnosis: by what is so, now and then by nothing."""
        name, now = wish.run, seen.now
        run = next((one for one in self.cluster.runs if one.run == name), None)
        if run is None:
            return
        slow = next((one for one in run.episodes if one.begin + 30.0 <= now < one.end), None)
        if now >= run.over:
            diagnoses._concluded.add(name)
            slow = None
        known = slow is not None and now > slow.begin + 300.0
        verdict = Verdict(name, "healthy", "Healthy.", None, None, None, 1.0)
        if self.dice.random() < 0.05:
            verdict = replace(verdict, status="unknown")
        elif slow is not None:
            culprit = Culprit(
                "rank", slow.rank, run.node.format(run.row * NODES + slow.rank), 0, None, None,
                None, None, None, 100, None, datetime.fromtimestamp(slow.begin, UTC).isoformat(),
                slow.factor, None, "thermal" if known else "unknown", 0.9, "page", (), 0.95,
            )  # fmt: skip
            lost = max(STEP, OWN * slow.factor + 0.1) / STEP
            verdict = Verdict(name, "degraded", f"Rank {slow.rank} is slow.", lost, None, None, 1.0,
                              (culprit,))  # fmt: skip
        if name in diagnoses.last:
            diagnoses.before[name] = diagnoses.last[name]
        span = Span(now - 600.0, now)
        diagnoses.last[name] = Judged(verdict, Pages({}, part=False), span)

    def _cycle(self) -> None:
        self._watch.cycle()
        self._deliver()
        jobs = self._watch._archivist._jobs
        while jobs._ready:
            job = jobs.take()
            assert job is not None
            self._burn()
            done = self._watch._archivist._work(job)
            self._burn()
            jobs.over(failed=not done)

    def _settle(self) -> None:
        """What is under way at the end is finished, so that it can be judged."""
        self.chaos, self._fuse, self.alertmanager.away = False, None, False
        for _ in range(8):
            self.cluster.now += SCRAPE
            for one in self.cluster.runs:
                one.now = self.cluster.now
            self._cycle()
            self.alertmanager.tick()
        for _ in range(6):  # ends wait for groups, and groups for others
            self.cluster.now += SCRAPE
            self._deliver()
            self.alertmanager.tick()

    def _deliver(self) -> None:
        for replica in self._delivery._alertmanagers._services:
            replica.work()

    def _process(self) -> tuple[Watch, Delivery]:
        """watch as it begins, with what the one before it left on disk."""
        settings = Settings(
            access("http://fake", {}), self.folder / "out", self.folder / "state", SCRAPE
        )
        watch = Watch(settings)
        delivery = Delivery(watch, (), None, None)
        clock = lambda: self.cluster.now  # noqa: E731
        delivery._alertmanagers._services = [
            Still(access("http://alertmanager", {}, "alertmanager"), clock, clock,
                  self.alertmanager.send)  # type: ignore[arg-type]
        ]  # fmt: skip
        delivery._unix = clock
        delivery._alertmanagers.remember(watch.taken_before())
        watch.on_change.append(self._seen)
        return watch, delivery

    def _burn(self) -> None:
        """One more moment at which watch may be killed."""
        if self._fuse is not None:
            self._fuse -= 1
            if self._fuse < 0:
                raise KilledError

    def _accidents(self) -> None:
        if not self.chaos:
            return
        dice, world = self.dice, self.cluster
        if self._fuse is None and dice.random() < 1 / 40:
            self._fuse = int(dice.integers(0, 12))
        if dice.random() < 1 / 480:
            world.down.append((world.now, world.now + float(dice.uniform(30.0, 400.0))))
        if self.alertmanager.away:
            self.alertmanager.away = world.now < self._back
        elif dice.random() < 1 / 240:
            self.alertmanager.away = True
            self.alertmanager.cut_off = bool(dice.random() < 0.5)  # and it goes on without watch
            if not self.alertmanager.cut_off:  # it is started anew
                self.alertmanager.restart()
            self._back = world.now + float(dice.uniform(30.0, 1800.0))
        if dice.random() < 1 / 960:
            row = int(dice.integers(len(world.names)))
            world.names[row] = f"host{int(dice.integers(1000))}-{{}}"

    def _seen(self, opened: Any, closed: Any, still: Any) -> None:
        now = self.cluster.now
        for one in opened:
            known = self.findings[one.folder]
            known.opened += 1
            self._note(known, one)
            self._ended(one, now)
        for one in still:
            known = self.findings[one.folder]
            known.opened = max(known.opened, 1)  # it opened in a process that was killed
            self._note(known, one)
        for one in closed:
            known = self.findings[one.folder]
            known.closed += 1
            self._note(known, one)
            if not one.ending:
                self.wrong.append(f"{one.folder} closed, and nothing says how")
        for one in (*still, *opened):
            self._of_silent(one, now)
            over = self._over(one.who.run)
            most = HOLD_SECONDS if one.kind is Kind.STOP else 0.0
            if over is not None and one.kind is not Kind.EVENT:
                late = now - over - most
                if late > 2 * SCRAPE + self._blind(over, now):
                    self.wrong.append(
                        f"{one.folder} ({one.kind}) is open {late:.0f} s after its run ended"
                    )

    def _of_silent(self, one: WatchFinding, now: float) -> None:
        """Of a run of which nobody tells any more nothing stays open."""
        mine = [each for each in self.cluster.history if each[1].run == one.who.run]
        if not mine or mine[-1][1].vanished > now or one.kind is Kind.EVENT:
            return
        kind, run = mine[-1]
        lost = kind == "silent" or bool(run.dark)  # it may live for all that is known
        begin, held = run.vanished, HOLD_SECONDS if lost or one.kind is Kind.STOP else 0.0
        # After a pause it is looked anew, and for as long, whether it is silence.
        pauses = [until for since, until in self.cluster.down if until > begin and since < now]
        late = now - max([begin, *pauses]) - PATIENCE - held - 6 * SCRAPE
        if late > 0:
            self.wrong.append(f"{one.folder} is open {late:.0f} s after it was told of last")

    def _note(self, known: Findings, one: WatchFinding) -> None:
        if one.lost_seconds is not None:
            if known.costs and one.lost_seconds < known.costs[-1]:
                self.wrong.append(f"{one.folder} cost less than before")
            known.costs.append(one.lost_seconds)
        known.last = one

    def _ended(self, one: WatchFinding, now: float) -> None:
        over = self._over(one.who.run)
        late = 0.0 if over is None else now - over - SCRAPE - self._blind(over, now)
        if over is not None and one.kind is not Kind.STOP and late > 0:
            self.wrong.append(f"{one.folder} ({one.kind}) opened after its run had ended")

    def _over(self, name: str) -> float | None:
        """When a run ended; None = one of that name lives."""
        mine = [run for _, run in self.cluster.history if run.run == name]
        if not mine or mine[-1].vanished < FOREVER:
            return None  # nobody tells that it ended: it is gone after a while
        told = next(self._tellings(mine[-1]), None)
        return told if told is not None and told <= self.cluster.now else None

    def _tellings(self, run: SimulatedRun) -> Iterator[float]:
        """Scrapes that told that a run is over, while its collectors did and none took its name."""
        begins = [one.begun for _, one in self.cluster.history
                  if one.run == run.run and one.begun > run.begun]  # fmt: skip
        last = min([run.over + GONE_SECONDS, self.cluster.now, *begins])
        if run.over < FOREVER:
            first = START + SCRAPE * np.ceil((run.over - START) / SCRAPE)
            yield from (float(t) for t in np.arange(first, last, SCRAPE) if run.was_told(t))

    def _blind(self, begin: float, end: float) -> float:
        """Seconds in which Prometheus did not answer, with what it takes to be fresh again."""
        return sum(
            max(0.0, min(end, until + 4 * SCRAPE) - max(begin, since))
            for since, until in self.cluster.down
        )

    def judged(self) -> dict[str, int]:
        """Check every finding, and count; what is wrong is in `wrong`."""
        counts: Counter[str] = Counter(kills=self.kills, runs=len(self.cluster.history))
        told: dict[tuple[str, str], list[Told]] = defaultdict(list)
        passed: set[str] = set()
        begun: dict[tuple[tuple[str, str], ...], str] = {}
        for one in self.alertmanager.told:
            folder, key = one.words["archive"], tuple(sorted(one.labels.items()))
            if one.firing:
                begun[key] = folder
            elif (first := begun.pop(key, folder)) != folder:
                # Alertmanager missed the end of the first, and knows alerts by their labels alone.
                passed.add(folder)
                folder = first
            told[folder, one.starts].append(one)
        open_now = {one.folder for one in self._watch.findings()}
        archives = {folder.relative_to(self.folder / "out").as_posix(): tree
                    for folder, tree in self._archives()}  # fmt: skip
        for folder, known in self.findings.items():
            assert known.last is not None
            counts["findings"] += 1
            counts[f"findings {known.last.kind}"] += 1
            over = folder not in open_now
            if known.opened > 1:
                self.wrong.append(f"{folder} opened {known.opened} times")
            if known.closed > 1 or (over and not self._closed(folder, known, archives)):
                self.wrong.append(f"{folder} closed {known.closed} times")
            self._of_archive(folder, known, archives.get(folder), over=over)
        self._of_alerts(told, passed, open_now, counts)
        self._of_runs(counts)
        return dict(counts)

    def _closed(self, folder: str, known: Findings, archives: Mapping[str, Any]) -> bool:
        """Whether a finding closed where everybody sees it, maybe in a process that was killed."""
        return known.closed == 1 or (archives.get(folder) or {}).get("closed") is not None

    def _archives(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        for place in (self.folder / "out").glob("*/*/"):
            tree = finding_folders.read(place)
            if tree is not None and not place.name.startswith("."):
                yield place, tree

    def _of_archive(
        self, folder: str, known: Findings, tree: Mapping[str, Any] | None, *, over: bool
    ) -> None:
        if tree is None:
            last = known.last
            # Of what closed before its archive was begun anew nobody knows what belongs into it.
            if last is not None and not over:
                self.wrong.append(f"{folder} has no archive")
            return
        if over and tree["closed"] is None:
            self.wrong.append(f"{folder} is over, and its finding.json does not say so")
        if over and not (self.folder / "out" / folder / "report.html").exists():
            self.wrong.append(f"{folder} is over, and its report was not written")

    def _of_alerts(
        self, told: Mapping[tuple[str, str], list[Told]], passed: set[str], open_now: set[str],
        counts: Counter[str],
    ) -> None:  # fmt: skip
        """`passed` are told by the alert of a finding before them, which has their labels."""
        by_folder: dict[str, list[Told]] = defaultdict(list)
        for (folder, _), each in told.items():
            by_folder[folder] += each
        for folder, each in by_folder.items():
            causes = {one.labels["cause"] for one in each}
            firing = Counter(_as(one) for one in each if one.firing)
            ends = Counter(_as(one) for one in each if not one.firing)
            counts["told"] += len(each)
            counts["causes told later"] += len(causes) - 1
            if len(causes) > 2:
                self.wrong.append(f"{folder} was told with the causes {sorted(causes)}")
            if max(firing.values(), default=0) > 1 or max(ends.values(), default=0) > 1:
                self.wrong.append(f"{folder} was told twice: {dict(firing)} {dict(ends)}")
            still = any(self._told_by(one) == folder for one in open_now)
            if folder not in open_now and not still and firing != ends:
                self.wrong.append(f"{folder} is over, and people were not told: {firing} {ends}")
        for folder, known in self.findings.items():
            one = known.last
            if one is None or folder in by_folder or one.alerted.folder in by_folder:
                continue
            if not one.quiet and folder not in passed:
                self.wrong.append(f"{folder} was told to nobody")

    def _told_by(self, folder: str) -> str:
        one = self.findings[folder].last
        return folder if one is None else one.alerted.folder

    def _of_runs(self, counts: Counter[str]) -> None:
        """Each bad end has its finding, of a good one there is none."""
        stops: dict[tuple[str, int], list[WatchFinding]] = defaultdict(list)
        for known in self.findings.values():
            if known.last is not None and known.last.kind is Kind.STOP:
                one = known.last
                stops[one.who.run, one.attempt or 0].append(one)
        for kind, run in self.cluster.history:
            if run.over + 300.0 > self.cluster.now:
                continue
            found = stops.get((run.run, run.attempt), [])
            counts[f"ends {kind}"] += 1
            counts[f"ends {kind}, told"] += bool(found)
            lost = [one for one in found if TOLD_NO_MORE in one.sentence]
            found = [one for one in found if one not in lost]
            long = sum(end - begin > PATIENCE for begin, end in run.dark if begin < run.over)
            gone = run.vanished < FOREVER or not self._is_told(run)
            if len(lost) > long + gone:
                self.wrong.append(f"{run.run} was lost {long} times, and told so {len(lost)} times")
            if kind == "clean" and found:
                self.wrong.append(f"{run.run} ended as it should, and {found[0].sentence}")
            if kind in ("died", "killed", "node") and not found and self._is_told(run):
                self.wrong.append(f"{run.run} ended ({kind}), and nobody was told")
            if len(found) > 1:
                self.wrong.append(f"the end of {run.run} was told {len(found)} times")
            counts["ends in the dark"] += _within(run.over, run.dark)
            counts["ends in the dark, told"] += _within(run.over, run.dark) and bool(found)
            first = next((r for r, state in run.states.items() if state == "running"), None)
            named = found[0].who.rank if found else None
            if named is not None and kind in ("died", "node"):
                counts["first to go named"] += named == first
                counts["another named"] += named != first

    def _is_told(self, run: SimulatedRun) -> bool:
        """Whether it could be known how it ended: for a few scrapes somebody told it."""
        return len(list(self._tellings(run))) > 4
