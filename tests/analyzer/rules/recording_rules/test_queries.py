"""What the reader asks, by Prometheus' own tool: who stopped, who deviates, who is a peer."""

import pytest

from lockstep.analyzer.rules.recording_rules import queries
from lockstep.analyzer.rules.recording_rules.signals import OWN

pytestmark = pytest.mark.prometheus

STOPPED = f"count by (rank) ({queries.stopped('r', 300, 64)})"
THREE = [('{rank="3"}', 1)]


def _gauge(pages, rank, name, values, labels=""):
    page = f'job="lockstep",instance="node-{rank}:9410"'
    pages.series[f'{name}{{{page},run="r",rank="{rank}"{labels}}}'] = values


def test_nobody_stopped_in_a_run_that_goes_on(pages, says):
    for rank in range(5):
        _gauge(pages, rank, "lockstep_train_heartbeat_age_seconds", "0.4x40")
        _gauge(pages, rank, "lockstep_train_progress_age_seconds", "0.1x40")
    says(pages, "8m", STOPPED, [])


@pytest.mark.parametrize("up", ["1x20 0x20", "1x20 stale"])
def test_a_rank_that_is_gone_or_whose_page_is_gone_stopped(pages, says, up):
    pages.rank(3, up=up)
    says(pages, "8m", STOPPED, THREE)


def test_a_rank_whose_helper_thread_is_silent_stopped(pages, says):
    _gauge(pages, 3, "lockstep_train_heartbeat_age_seconds", "0.4x20 5+15x20")
    says(pages, "8m", STOPPED, THREE)


def test_a_rank_that_is_stuck_by_itself_stopped_and_those_that_wait_for_it_did_not(pages, says):
    for rank in range(5):
        _gauge(pages, rank, "lockstep_train_progress_age_seconds", "0.1x20 5+15x20")
        if rank != 3:
            inside = ',op="dp-all-reduce",group="dp"'
            age = "lockstep_train_open_operation_age_seconds"
            _gauge(pages, rank, age, "_x20 5+15x20", inside)
    says(pages, "8m", STOPPED, THREE)


def test_a_rank_is_a_suspect_while_it_is_slow_and_after_a_while_of_being_slow(pages, says):
    pages.rank(3, own="0+1x20 21.5+1.5x20")
    slow = f"count by (rank) ({queries.outliers(OWN, None, 300, 3.0, 64)})"
    says(pages, "4m45s", slow, [])
    says(pages, "6m", slow, THREE)


def test_a_moment_of_slowness_long_ago_makes_no_suspect(pages, says):
    pages.rank(3, own="0+1x8 9+2x1 11+1x40")
    slow = f"count by (rank) ({queries.outliers(OWN, 'r', 540, 3.0, 64)})"
    says(pages, "9m30s", slow, [])


def test_how_slow_a_suspect_is_is_told_of_its_slowest_time(pages, says):
    pages.rank(3, own="0+1x10 10+1.5x30")
    ratio = f"max by (rank) (round({queries.slowdowns('r', [3], 300)}, 0.01))"
    says(pages, "8m", ratio, [('{rank="3"}', 1.5)])


def test_peers_are_the_ranks_nearest_the_median_and_those_without_steps_come_last(pages, says):
    pages.rank(3, own="0+1.5x40")
    pages.rank(4, own="_x40", steps="_x40")
    query = queries.peers([("r", "0", "0")], 300, 3)
    nearest = [(f'{{rank="{rank}"}}', 1) for rank in range(3)]
    says(pages, "8m", f"sort(count by (rank) ({query}))", nearest)
