"""Looks before it is time for one: while something is new about a run, or it just ended."""

import math
import threading
import time
from typing import Any

import pytest

from lockstep.analyzer.findings.finding import Tier
from lockstep.analyzer.read.prometheus.access import access
from lockstep.watch import loop
from lockstep.watch.judge.diagnoses import NEW_CYCLES, Diagnoses
from lockstep.watch.loop import END_SECONDS, SUSPECT_SECONDS, Watch
from lockstep.watch.settings import Settings
from tests.watch.cluster_life import FOREVER, Episode
from tests.watch.few_runs import EVERY, crashes


def a_watch(interval: float = 15.0, **of_cycles: Any) -> Watch:
    watch = Watch(Settings(access("http://127.0.0.1:9", {}), None, None, interval))
    for name, value in of_cycles.items():
        setattr(watch._cycles, name, value)
    return watch


@pytest.mark.parametrize(
    ("suspects", "awaits_end", "took", "failures", "soon"),
    [
        (False, False, 0.1, 0, math.inf),
        (True, False, 0.1, 0, SUSPECT_SECONDS),
        # A cycle of a large fleet takes long: half of the time is left to Prometheus.
        (True, False, 4.0, 0, 8.0),
        (False, True, 4.0, 0, END_SECONDS),
        (True, True, 0.1, 0, END_SECONDS),
        # Who does not answer is not asked more often.
        (True, True, 0.1, 1, math.inf),
        # Before the first cycle nothing is known of how long one takes.
        (True, False, math.nan, 0, SUSPECT_SECONDS),
    ],
)
def test_when_a_cycle_is_wanted(suspects, awaits_end, took, failures, soon):
    watch = a_watch(suspects=suspects, awaits_end=awaits_end)
    watch._seconds, watch._failures = took, failures

    assert soon == watch._soon()


def begun(watch: Watch, suspects: list[bool], count: int, seconds: float, monkeypatch: Any):
    """Moments at which the loop began cycles, whose `suspects` are given: `count` of them, and
    those of the seconds after."""
    ended, enough, moments = threading.Event(), threading.Event(), []

    def cycle() -> bool:
        moments.append(time.monotonic())
        watch._cycles.suspects = suspects[min(len(moments), len(suspects)) - 1]
        watch._seconds = 0.0
        if len(moments) == count:
            enough.set()
        return True

    monkeypatch.setattr(watch, "cycle", cycle)
    thread = threading.Thread(target=watch.run, args=(ended,))
    thread.start()
    assert enough.wait(30.0)
    time.sleep(seconds)
    ended.set()
    thread.join(30.0)
    assert not thread.is_alive()
    return moments


def test_the_loop_looks_again_soon_while_somebody_is_suspected_and_not_longer(monkeypatch):
    monkeypatch.setattr(loop, "SUSPECT_SECONDS", 0.1)

    moments = begun(a_watch(60.0), [True, True, False], 3, 0.5, monkeypatch)

    assert 3 == len(moments)
    assert moments[2] - moments[0] > 0.15


def test_cycles_that_are_closer_than_an_early_look_are_not_put_off(monkeypatch):
    begin = time.monotonic()

    begun(a_watch(0.01), [True], 100, 0.0, monkeypatch)

    assert time.monotonic() - begin < 99 * SUSPECT_SECONDS


def test_a_run_that_stands_is_suspected_until_it_is_paged(watching, cycles, prometheus):
    watch = watching(None)
    cycles(watch, 6)
    assert not watch._cycles.suspects
    prometheus.pauses = [(prometheus.now + 3.0, prometheus.now + 1e5)]

    seen = []
    while (False, True) not in seen and len(seen) < 16:
        cycles(watch, 1)
        paged = any(one.tier is Tier.PAGE for one in watch.findings())
        seen.append((watch._cycles.suspects, paged))

    assert (True, False) in seen
    assert (True, True) not in seen
    assert (False, True) == seen[-1]


def test_who_is_suspected_and_never_named_is_looked_at_early_for_ten_cycles_only(
    few_runs, monkeypatch
):
    monkeypatch.setattr(Diagnoses, "_one", lambda *_: None)
    world = few_runs(1)
    run = world.begin("gpt")
    world.go(900.0)
    run.episodes.append(Episode(2, 2.5, world.now, FOREVER))

    suspected = []
    for _ in range(NEW_CYCLES + 20):
        world.go(15.0)
        suspected.append(world.cycles.suspects)

    assert 1 <= sum(suspected) <= NEW_CYCLES + 1, suspected
    assert not suspected[-1]


@pytest.mark.parametrize("how", ["crashed", "clean", "vanished"])
def test_a_run_that_is_gone_is_looked_at_early_until_its_end_is_known_or_two_intervals(
    few_runs, how
):
    world = few_runs()
    world.begin("other", 1)
    run = world.begin("gpt")
    world.go(60.0)
    assert not world.cycles.awaits_end
    if how == "crashed":
        crashes(run, world.now + 1.0, later=0.5)
    elif how == "clean":
        run.dies, run.states = dict.fromkeys(EVERY, world.now), dict.fromkeys(EVERY, "finished")
    else:
        run.vanished = world.now

    early = []
    for _ in range(30):
        world.go(END_SECONDS, END_SECONDS)
        early.append(world.cycles.awaits_end)

    assert not early[-1]
    assert sum(early) <= 2 * 15.0 / END_SECONDS
    assert any(early) == (how == "vanished")
