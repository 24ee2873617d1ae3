"""How runs ended, from what Prometheus scraped of their last minutes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lockstep.analyzer.findings.closable import AGAIN, TOLD_AGAIN, Closable
from lockstep.analyzer.findings.finding import Kind, Tier, Who
from lockstep.analyzer.findings.finding_lifecycle import Course, advance
from lockstep.analyzer.hardware.sequential_test.state import State
from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import SourceError, access
from lockstep.analyzer.read.prometheus.answers import Series
from lockstep.collector.contract import metrics as m
from lockstep.watch.cycle import Cycles
from lockstep.watch.judge import endings
from lockstep.watch.judge.endings import lives_now
from lockstep.watch.judge.memory import Memory
from lockstep.watch.judge.run_end import detection, over, with_ends
from lockstep.watch.judge.runs import End, Heard, How, Life, Lost, Place, Progress, lived, with_told
from lockstep.watch.look.members import members
from lockstep.watch.settings import Settings
from tests.watch import cluster_life, fake_prometheus
from tests.watch.cluster_life import FOREVER, SimulatedRun
from tests.watch.few_runs import crashes

NOW, SCRAPE = 10_000.0, 15.0
PAGES = {rank: ("lockstep", f"10.0.0.{rank}:9410") for rank in (0, 1)}
RANKS = {rank: Place(f"node-{rank}", -1) for rank in (0, 1)}


def series(rank: int, last: float, value: float = 1.0, first: float = NOW - 290.0, **labels: str):
    times = np.arange(first, last + 0.1, SCRAPE)
    return Series({"run": "gpt", "rank": str(rank), **labels}, (times * 1000).astype(np.int64),
                  np.full(len(times), value))  # fmt: skip


class Told:
    """A Prometheus that scraped rank 0 until it failed, and rank 1 until its page fell silent."""

    def __init__(self, silent: float, failed: float) -> None:
        up = series(0, failed)
        gone = series(0, NOW, 0.0, failed + SCRAPE)
        times = np.concatenate([up.times, gone.times])
        values = np.concatenate([up.values, gone.values])
        self.raw = {
            ask.lately_up("gpt"): [Series(up.labels, times, values), series(1, silent)],
            ask.lately_said("gpt"): [series(0, NOW, 1.0, failed + SCRAPE, state="failed"),
                                     series(1, silent - 60.0, state="failed")],
            ask.lately_stepped("gpt"): [series(0, failed, 7.0)],
        }  # fmt: skip

    def instant(self, query: str, _: float) -> list[Any]:
        assert query == ask.LAST_STATE
        return [({"run": "gpt", "rank": "0", "state": "failed"}, 1.0)]

    def samples(self, query: str, _: float) -> list[Series]:
        return self.raw[query]


def ended(told: Told, stepped: float, before: End | None = None) -> Life:
    info = {"__name__": m.RANK_INFO.name, "run": "gpt", "rank": "0", "attempt": "0",
            "world_size": "2", "node": "node-0", "job": PAGES[0][0],
            "instance": PAGES[0][1]}  # fmt: skip
    who = members([(info, 1.0)])
    seen = SimpleNamespace(now=NOW, members=who, up=np.array([0.0]), living=np.array([False]),
                           pages=[])  # fmt: skip
    life = Life(RANKS, frozenset(PAGES.values()), 0, NOW - SCRAPE, end=before, first=NOW - 4000.0)
    progress = {"gpt": Progress(7.0, stepped)}
    return lives_now(told, seen, {"gpt": life}, progress, SCRAPE, 300.0)["gpt"]  # type: ignore[arg-type]


@pytest.mark.parametrize("after", [20.0, 76.0, 400.0])
def test_a_crash_that_follows_a_stop_is_told_as_a_finding_of_its_own(few_runs, after):
    runs = few_runs(1)
    run = runs.begin("gpt")
    runs.go(600.0)
    begin, end = runs.now + 5.0, runs.now + 65.0
    run.stands.append((begin, end, 1))
    crashes(run, end + after, rank=2)
    runs.go(60.0 + after + 120.0)

    assert [(1, Tier.PAGE), (2, Tier.PAGE)] == runs.stops()
    [stood] = [one for one in runs.closed if one.kind is Kind.STOP]
    assert (1, "the run went on") == (stood.who.rank, stood.ending)
    assert 40.0 <= stood.lasted <= 100.0
    assert "crash" == runs.opened[-1].cause


def test_the_end_of_a_run_that_stood_until_then_is_told_once(few_runs):
    runs = few_runs(1)
    run = runs.begin("gpt")
    runs.go(600.0)
    run.stands.append((runs.now + 5.0, FOREVER, 1))
    crashes(run, runs.now + 300.0, rank=2)  # its watchdog ends it
    runs.go(500.0)

    assert [(1, Tier.PAGE)] == runs.stops()


@pytest.mark.parametrize(
    ("stepped", "first"),
    [
        # Steps are ten minutes apart: the last was before the page fell silent, or long after.
        (NOW - 600.0, (1,)),
        (NOW - 60.0, ()),
    ],
)
def test_who_fell_silent_while_steps_are_minutes_apart_is_named_if_no_step_came_afterwards(
    stepped, first
):
    life = ended(Told(silent=NOW - 240.0, failed=NOW - 45.0), stepped)

    assert life.end is not None
    assert (How.DIED, first) == (life.end.how, life.end.first)


def test_what_a_rank_said_before_it_was_seen_alive_again_is_not_its_last_word():
    life = ended(Told(silent=NOW - 60.0, failed=NOW - 75.0), NOW - 90.0)

    assert life.end is not None
    assert {"failed": 1, "": 1} == life.end.states


class Scraped:
    """Nobody tells of the run any more; `up` by rank, and how many other pages are reached."""

    def __init__(self, up: dict[int, float] | None, others: int) -> None:
        self.up, self.others = up, others

    def instant(self, query: str, _: float, *, every: bool = False) -> list[Any]:
        if query == ask.LAST_STATE:
            return []
        if self.up is None:
            raise SourceError("http://fake cannot be reached")
        if query == ask.SCRAPING:
            return [({}, float(self.others))] if self.others else []
        assert query == ask.reached(["lockstep"], 300.0)
        asked = {**PAGES, OTHER: ("lockstep", "10.0.0.9:9410")}
        return [({"job": asked[r][0], "instance": asked[r][1]}, up) for r, up in self.up.items()]


def silent_since(
    seconds: float, up: dict[int, float] | None, others: int = 0, looked: float = 4000.0,
    answers: tuple[int, ...] = (),
) -> Life:  # fmt: skip
    pages = [({"job": PAGES[r][0], "instance": PAGES[r][1]}, NOW) for r in answers]
    seen = SimpleNamespace(now=NOW, members=members([]), up=np.array([]), pages=pages,
                           living=np.array([], dtype=bool))  # fmt: skip
    life = Life(RANKS, frozenset(PAGES.values()), 0, NOW - seconds, first=NOW - 4000.0)
    told = Scraped(up, others)
    known = {"gpt": life}
    return lives_now(told, seen, known, {}, SCRAPE, 300.0, NOW - looked)["gpt"]  # type: ignore[arg-type]


OTHER = -1
"""A page of another run."""
NEITHER, BOTH = {0: 0.0, 1: 0.0, OTHER: 1.0}, {0: 1.0, 1: 1.0}
NOBODY = {0: 0.0, 1: 0.0, OTHER: 0.0}
LOST = End(NOW - 400.0, How.VANISHED, heard=Heard.UNREACHED, noticed=NOW - 60.0)
PACE = Settings(access("http://127.0.0.1:9", {}), None, None, SCRAPE).pace


@pytest.mark.parametrize(
    ("life", "heard"),
    [
        (silent_since(301.0, NEITHER), Heard.UNREACHED),
        (silent_since(299.0, NEITHER), None),
        # A collector answers, and knows nothing of the run; the other went with its node.
        (silent_since(301.0, {0: 1.0, 1: 0.0}, answers=(0,)), Heard.UNREACHED),
        (silent_since(301.0, {}, answers=(0, 1)), Heard.ANSWER),
        # No page at all is reached: it may be Prometheus that is cut off.
        (silent_since(600.0, NOBODY), None),
        (silent_since(901.0, NOBODY), Heard.UNREACHED),
        # One was reached not long ago.
        (silent_since(301.0, {0: 1.0, 1: 0.0}), None),
        (silent_since(5000.0, BOTH), None),
        # Watch, or Prometheus, was away until a minute ago.
        (silent_since(2000.0, NEITHER, looked=60.0), None),
        # Nobody says that they are scraped: a federation without `up`, or targets that went.
        (silent_since(600.0, {}, others=3), None),
        (silent_since(901.0, {}, others=3), Heard.UNTOLD),
        (silent_since(901.0, {0: 0.0}, others=3), Heard.UNTOLD),
        (silent_since(5000.0, {}, others=3, looked=600.0), None),
        # Nothing at all is scraped: whoever tells stands still.
        (silent_since(80_000.0, {}), None),
        (silent_since(5000.0, None), None),
    ],
)
def test_a_run_of_which_nobody_tells_is_over_where_it_is_known_that_nobody_can(life, heard):
    end = life.end
    assert heard == (None if end is None else end.heard)
    assert end is None or (How.VANISHED, life.seen) == (end.how, end.when)


def test_of_collectors_that_nobody_scrapes_is_not_said_that_prometheus_does_not_reach_them():
    life = silent_since(901.0, {}, answers=(0,))  # of page 1 there is no `up`
    assert life.end is not None

    assert Heard.UNREACHED is life.end.heard
    assert "some of its collectors do not answer" in detection("gpt", life, life.end).sentence


def test_what_was_open_before_a_run_was_lost_sight_of_is_not_over_when_it_is_told_of_again():
    life = silent_since(301.0, NEITHER)
    back = lived(life, RANKS, life.pages, life.attempt, NOW + 600.0)
    knows = Closable(NOW + 600.0, frozenset(["gpt"]), {}, lost={"gpt": back.lost})  # type: ignore[dict-item]
    who = Who("gpt", None, 1, None, None)

    assert (None, 0.0, Lost(NOW, NOW + 600.0)) == (back.end, back.again, back.lost)
    assert knows.ending(who, Kind.STOP, NOW - 400.0) is None  # it hung before
    assert AGAIN == knows.ending(who, Kind.STOP, NOW)  # that it vanished
    assert knows.ending(who, Kind.STOP, NOW + 600.0) is None


def test_a_new_attempt_of_a_run_that_was_lost_sight_of_is_another_life():
    life = silent_since(301.0, NEITHER)
    back = lived(life, RANKS, life.pages, life.attempt + 1, NOW + 600.0)

    assert (None, NOW + 600.0, None) == (back.end, back.again, back.lost)


def test_how_a_run_ended_while_nobody_reached_its_collectors_is_told_and_paged_afterwards():
    vanished = Life(RANKS, frozenset(PAGES.values()), 0, NOW - 400.0, end=LOST)
    words, held = over({"gpt": vanished}, (), NOW - 60.0)
    knows = Closable(NOW - 60.0, frozenset(["gpt"]), {}, over=words, held=dict.fromkeys(held, 0.0))
    course, change = advance(Course({}, {}), [detection("gpt", vanished, LOST)], knows, PACE)
    assert [Tier.RECORD] == [one.tier for one in change.opened]

    known = ended(Told(silent=NOW - 240.0, failed=NOW - 45.0), NOW - 600.0, before=LOST)
    opened, closed = [], []
    for now in (NOW, NOW + SCRAPE):
        lives = with_told({"gpt": known}, course.open.values())
        words, held = over(lives, (), now)
        told = list(with_ends([], lives, words, held, {}, 0.0))
        knows = Closable(now, frozenset(["gpt"]), {}, over=words, held=dict.fromkeys(held, 0.0),
                         lost={"gpt": known.lost})  # type: ignore[dict-item]  # fmt: skip
        course, change = advance(course, told, knows, PACE)
        opened += change.opened
        closed += change.closed

    assert known.end is not None
    assert (How.DIED, (1,), Lost(NOW - 60.0, NOW)) == (known.end.how, known.end.first, known.lost)
    assert [(1, Tier.PAGE)] == [(one.who.rank, one.tier) for one in opened]
    assert [None] == [one.who.rank for one in closed]
    assert TOLD_AGAIN == knows.ending(closed[0].who, Kind.STOP, closed[0].opened)


def test_that_a_run_vanished_is_told_for_ten_minutes_however_late_it_is_known():
    life = silent_since(901.0, {}, others=3)

    assert {"gpt": 901.0 + 599.0} == over({"gpt": life}, (), NOW + 599.0)[1]
    assert {} == over({"gpt": life}, (), NOW + 600.0)[1]


@pytest.mark.parametrize("heard", Heard)
def test_of_a_run_that_vanished_is_said_what_is_known_and_for_whom_no_one_is_called(heard):
    life = replace(silent_since(301.0, NEITHER), end=End(NOW - 301.0, How.VANISHED, heard=heard))
    told = detection("gpt", life, life.end)
    words, held = over({"gpt": life}, (), NOW)

    assert Tier.RECORD is told.tier
    assert "unknown" in told.sentence
    assert {"gpt": 301.0} == held
    assert "no data of the run since 02:41:39 UTC" == words["gpt"]
    assert "it did not come back" in over({"gpt": life}, (), NOW + 600.0)[0]["gpt"]


def test_of_more_ranks_than_are_read_one_by_one_what_they_said_last_decides():
    count = endings.MOST_SERIES + 1
    ranks = {rank: Place(f"node-{rank // 8}", rank % 8) for rank in range(count)}

    class Many(Scraped):
        def instant(self, query: str, _: float, *, every: bool = False) -> list[Any]:
            assert query == ask.LAST_STATE
            said = ["peer_lost" if rank else "running" for rank in ranks]
            return [({"run": "gpt", "rank": str(rank), "state": state}, 1.0)
                    for rank, state in enumerate(said)]  # fmt: skip

    seen = SimpleNamespace(now=NOW, members=members([]), up=np.array([]), pages=[],
                           living=np.array([], dtype=bool))  # fmt: skip
    life = Life(ranks, frozenset(PAGES.values()), 0, NOW - SCRAPE, first=NOW - 4000.0)
    found = lives_now(Many({}, 0), seen, {"gpt": life}, {}, SCRAPE, 300.0)["gpt"]  # type: ignore[arg-type]
    assert found.end is not None
    told = detection("gpt", found, found.end)

    assert (How.DIED, (0,), False) == (found.end.how, found.end.first, found.end.by_scrapes)
    assert {"running": 1, "peer_lost": count - 1} == found.end.states
    assert ("node-0", 0) == (told.who.node, told.who.rank)


def test_the_archive_of_a_lost_node_has_what_its_page_told_last():
    told_of = {"run": "gpt", "rank": "0", "attempt": "0", "world_size": "2", "dp": "0", "tp": "0",
               "pp": "0", "node": "node-0", "job": PAGES[0][0],
               "instance": PAGES[0][1]}  # fmt: skip
    seen = SimpleNamespace(now=NOW, members=members([(told_of, 1.0)]),
                           pages_of=lambda _: frozenset([PAGES[0]]))  # fmt: skip
    life = Life(RANKS, frozenset(PAGES.values()), 0, NOW - SCRAPE)
    memory = Memory(lives={"gpt": life}, runs={"gpt": Progress(7.0, NOW)})
    settings = Settings(access("http://127.0.0.1:9", {}), None, None, SCRAPE)
    told = detection("gpt", life, End(NOW, How.DIED, (1,), by_scrapes=True, states={}))
    [finding] = advance(Course({}, {}), [told], Closable(NOW, frozenset(["gpt"]), {}),
                        settings.pace)[1].opened  # fmt: skip
    plan = Cycles(settings, State.new(), memory).plan(finding, seen, np.ones(1))  # type: ignore[arg-type]

    assert ("node-1", 1) == (finding.who.node, finding.who.rank)
    assert {"lockstep": (PAGES[1][1], PAGES[0][1])} == plan.pages.targets
    assert {"lockstep": (PAGES[0][1],)} == plan.collectors


class Falling(SimulatedRun):
    """With ranks whose pages are not reached from some moment on."""

    falls: Mapping[int, float] = {}

    def _ranks(self) -> list[int]:
        return [r for r in super()._ranks() if self.scraped(self.now) < self.falls.get(r, FOREVER)]

    def _page(self, rank: int) -> Iterator[Any]:
        until = self.falls.get(rank, FOREVER)
        for name, labels, value in super()._page(rank):
            yield name, labels, lambda t, value=value: value(t) if t < until else None


@pytest.mark.sweep(sample=5)
@pytest.mark.parametrize("scrape", [1.0, 15.0, 60.0])
@pytest.mark.parametrize(
    ("kind", "stops"),
    [
        ("died", [(3, Tier.PAGE)]),
        ("apart", [(3, Tier.PAGE)]),
        ("killed", [(None, Tier.RECORD)]),
        ("clean", []),
        ("node", [(3, Tier.PAGE)]),
        ("silent", [(None, Tier.RECORD)]),
    ],
)
def test_ends_are_told_alike_however_far_scrapes_are_apart(
    few_runs, monkeypatch, scrape, kind, stops
):
    for module in (fake_prometheus, cluster_life):
        monkeypatch.setattr(module, "SCRAPE", scrape)
    world = few_runs(2, scrape)
    world.begin("other", 1)
    run = world.begin("gpt")
    run.__class__ = Falling
    world.go(20 * scrape, scrape)
    end, every = world.now + 0.4 * scrape, range(4)
    if kind == "clean":
        run.dies, run.states = dict.fromkeys(every, end), dict.fromkeys(every, "finished")
    elif kind in ("died", "apart"):
        crashes(run, end, later=(0.2 if kind == "died" else 3.0) * scrape)
    elif kind == "killed":
        run.dies = dict.fromkeys(every, end)
    elif kind == "node":  # the page of rank 3 falls silent, the others fail 2 s later
        run.dies = dict.fromkeys((0, 1, 2), end + 2.0)
        run.states = dict.fromkeys((0, 1, 2), "peer_lost")
        run.falls = {3: end}
    else:
        run.vanished = end
        world.cluster.dark.append((0, end, FOREVER))
    world.go(12 * scrape, scrape)
    if kind == "silent":
        assert [] == world.stops()
        world.go(world.settings.pace.close, scrape)

    assert stops == world.stops()
