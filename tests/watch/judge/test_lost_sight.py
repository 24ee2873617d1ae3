"""Runs that are lost sight of, and watches that were away: what is told of their ends."""

import re

import pytest

from lockstep.analyzer.findings.alertmanager.outbox import Outbox
from lockstep.analyzer.findings.alerts import alert
from lockstep.analyzer.findings.finding import Kind, Tier
from lockstep.watch.judge.detections import clock
from tests.watch.cluster_life import FOREVER, Episode
from tests.watch.few_runs import EVERY, FewRuns, crashes


def a_run_beside_another(few_runs, seconds: float = 330.0):
    """A run on the first row that was watched for a while, and one that lives all along."""
    world: FewRuns = few_runs()
    world.begin("other", 1)
    run = world.begin("gpt")
    world.go(seconds)
    return world, run


@pytest.mark.parametrize("others", [False, True])
def test_the_only_run_that_is_told_of_no_more_is_over_some_time(few_runs, others):
    world = few_runs(2 if others else 1)  # with others: idle nodes whose collectors answer
    run = world.begin("gpt")
    run.episodes.append(Episode(2, 1.6, world.now + 300.0, FOREVER))
    world.go(690.0)
    assert [2] == [one.who.rank for one in world.open]
    run.vanished = world.now  # the nodes are switched off
    world.cluster.dark.append((0, world.now, FOREVER))

    world.go(960.0)  # until it is over
    world.cluster.advance(570.0)  # and what that is told for
    world.go(60.0)

    assert 1 == len(world.stops())
    assert [] == world.open


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize("seconds", [500.0, 1500.0])
def test_a_crash_while_sight_was_lost_is_paged_when_it_is_told_of_again(few_runs, seconds):
    world, run = a_run_beside_another(few_runs)
    world.dark(run, world.now, world.now + seconds)
    crashes(run, world.now + seconds - 100.0)
    world.go(seconds + 60.0)

    assert [Tier.PAGE] == [tier for _, tier in world.stops() if tier is Tier.PAGE]


@pytest.mark.parametrize("rank", [3, 1])
def test_the_crash_of_a_slow_rank_whose_run_was_replaced_while_watch_was_away_is_paged(
    few_runs, rank
):
    world, run = a_run_beside_another(few_runs, 0.0)
    run.episodes.append(Episode(3, 1.6, world.now + 300.0, FOREVER))
    world.go(690.0)
    assert [3] == [one.who.rank for one in world.open]
    crashes(run, world.now + 20.0, rank=rank, later=1.0)
    world.cluster.advance(60.0)
    world.begin("new")
    world.away(30.0)
    world.go(120.0)

    assert [(rank, Tier.PAGE)] == world.stops()
    assert ["new" in one.ending for one in world.closed if one.kind is Kind.STOP] == [True]


@pytest.mark.parametrize("heir", [False, True])
def test_a_crash_in_the_dark_is_paged_once_though_another_run_is_there_when_sight_returns(
    few_runs, heir
):
    world, run = a_run_beside_another(few_runs)
    begin = world.now
    world.dark(run, begin, begin + 500.0)
    crashes(run, begin + 400.0)
    world.go(450.0)
    if heir:
        new = world.begin("new")
        world.dark(new, world.now, begin + 500.0)
    world.go(300.0)

    assert [(None, Tier.RECORD), (3, Tier.PAGE)] == world.stops()


@pytest.mark.parametrize(("seconds", "spans"), [(1500.0, True), (0.0, False)])
def test_of_a_crash_in_the_dark_is_said_between_which_sights_it_was(few_runs, seconds, spans):
    world, run = a_run_beside_another(few_runs)
    begin = world.now
    if seconds:
        world.dark(run, begin, begin + seconds)
    crashes(run, begin + max(20.0, seconds - 100.0))
    world.go(seconds + 120.0)

    [found] = [one for one in world.opened if one.kind is Kind.STOP and one.tier is Tier.PAGE]
    first, last = clock(begin), clock(begin + seconds + 10.0)
    within = rf"ended without a clean close between {first[:4]}.* and {last[:4]}.*: rank 3"
    assert (re.search(within, found.sentence) is not None) is spans, found.sentence
    assert ("close at" in found.sentence) is not spans


@pytest.mark.parametrize("ago", [60.0, 400.0])
def test_a_crash_while_watch_was_away_for_a_quarter_of_an_hour_is_told(few_runs, ago):
    world, run = a_run_beside_another(few_runs)
    crashes(run, world.now + 900.0 - ago)
    world.away(900.0)
    world.go(75.0)

    assert [Tier.PAGE] == [tier for _, tier in world.stops()]


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize("seconds", [120.0, 420.0])
def test_the_last_words_of_a_run_whose_collectors_ended_with_it_are_read_after_a_pause(
    few_runs, seconds
):
    world, run = a_run_beside_another(few_runs)
    dies = world.now + seconds - 90.0
    crashes(run, dies, later=0.0)
    ends = dies + 16.0
    run.gaps, run.stale = [(ends, FOREVER)], 16.0
    world.cluster.dark.append((0, ends, FOREVER))
    world.away(seconds)
    world.go(420.0)

    assert [Tier.PAGE] == [tier for _, tier in world.stops()]


def test_the_second_death_of_a_run_that_was_started_again_unseen_is_told(few_runs):
    world, run = a_run_beside_another(few_runs)
    crashes(run, world.now + 1.0)
    world.go(120.0)
    assert [3] == [rank for rank, _ in world.stops()]
    world.cluster.advance(30.0)
    again = world.begin("gpt", attempt=1)
    crashes(again, world.now + 200.0, rank=1)
    world.away(260.0)
    world.go(120.0)

    assert [3, 1] == [rank for rank, _ in world.stops()]


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize("seconds", [200.0, 500.0])
def test_a_slow_rank_is_paged_once_though_sight_of_the_run_is_lost_for_a_while(few_runs, seconds):
    world, run = a_run_beside_another(few_runs, 0.0)
    run.episodes.append(Episode(2, 1.6, world.now + 300.0, FOREVER))
    world.go(690.0)
    assert [2] == [one.who.rank for one in world.open]
    world.dark(run, world.now, world.now + seconds)
    world.go(seconds + 690.0)

    slow = [one.who.rank for one in world.opened if one.kind is Kind.SLOW]
    assert [2] == slow, [one.ending for one in world.closed]


@pytest.mark.parametrize("ago", [200.0, 480.0])
def test_the_end_of_a_run_that_was_before_anybody_looked_is_not_said_to_be_now(few_runs, ago):
    world = few_runs(1)
    run = world.begin("gpt")
    dies = world.now + 600.0
    crashes(run, dies)
    world.cluster.advance(600.0 + ago)
    world.go(60.0)

    [found] = [one for one in world.opened if one.kind is Kind.STOP]
    assert dies - 15.0 <= found.onset <= dies + 30.0, found.sentence


@pytest.mark.sweep(sample=2)
@pytest.mark.parametrize(
    ("seconds", "late"), [(500.0, (2,)), (500.0, (2, 3)), (500.0, (1,)), (200.0, (2,))]
)
def test_whose_page_comes_back_a_scrape_later_is_not_named(few_runs, seconds, late):
    world, run = a_run_beside_another(few_runs)
    begin = world.now
    world.dark(run, begin, begin + seconds)
    crashes(run, begin + 100.0, rank=1, later=1.0)
    world.go(seconds - seconds % 15.0)
    run.no_pages = set(late)  # targets are scraped one after the other
    world.go(15.0)
    run.no_pages = set()
    world.go(60.0)

    paged = [one for one in world.opened if one.kind is Kind.STOP and one.tier is Tier.PAGE]
    assert [1] == [one.who.rank for one in paged], [one.sentence for one in paged]


@pytest.mark.parametrize("late", [(), (2, 3)])
def test_a_run_that_finished_in_the_dark_is_no_finding_though_pages_come_one_by_one(few_runs, late):
    world, run = a_run_beside_another(few_runs)
    begin = world.now
    world.dark(run, begin, begin + 500.0)
    run.dies, run.states = dict.fromkeys(EVERY, begin + 100.0), dict.fromkeys(EVERY, "finished")
    world.go(495.0)
    lost = len(world.opened)
    run.no_pages = set(late)
    world.go(15.0)
    run.no_pages = set()
    world.go(60.0)

    assert [] == [one.sentence for one in world.opened[lost:]]


def test_an_end_that_is_known_now_is_told_though_its_labels_are_those_of_the_loss(few_runs):
    world, run = a_run_beside_another(few_runs)
    begin = world.now
    world.dark(run, begin, begin + 500.0)
    run.dies = dict.fromkeys(EVERY, begin + 400.0)  # a scheduler ended it
    outbox, sent = Outbox(), []
    for _ in range(40):
        before = len(world.closed)
        world.go(15.0)
        over = [alert(one) for one in world.closed[before:]]
        outbox.want([alert(one) for one in world.open], world.now, world.now, over)
        due = outbox.due(world.now)
        outbox.asking(due)
        outbox.taken(due, world.now)
        sent += [(one.alert.annotations["archive"], one.over is not None) for one in due]

    lost, known = (one.folder for one in world.opened if one.kind is Kind.STOP)
    assert [lost] == [one.folder for one in world.closed if one.folder in (lost, known)]
    assert (lost, True) in sent, "people never hear that the first is over"


def test_of_runs_that_ended_days_ago_nothing_is_kept(few_runs):
    world = few_runs(1)
    for index in range(3):
        run = world.begin(f"gpt-{index}")
        world.go(60.0)
        run.vanished = world.now
    world.cluster.now += 3 * 86_400.0
    world.go(30.0)

    diagnoses = world.cycles.diagnoses
    kept = [diagnoses.last, diagnoses.before, diagnoses._tried, diagnoses._troubled]
    assert [[], [], [], []] == [list(one) for one in kept]
