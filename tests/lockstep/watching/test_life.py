"""Every finding of a simulated cluster opens once, closes once, and is told once each.

`python -m tests.benchmarks watch_life` lives 72 hours.
"""

import logging

import pytest

from tests.lockstep.watching.cluster_life import Days

HOURS = 1.5, 3.0
"""Of the first seed, which the quick tier lives, and of others: in some of them nothing is found so
early."""


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize("seed", range(8))
def test_each_finding_is_told_once_whatever_is_killed(tmp_path, seed):
    logging.disable(logging.CRITICAL)
    try:
        days = Days(tmp_path, seed, rows=2, oracle=True)
        days.live(HOURS[seed > 0])
        counts = days.judged()
    finally:
        logging.disable(logging.NOTSET)

    assert [] == days.wrong
    assert counts["findings"] > 0


def test_what_ended_is_not_told_again_where_the_nodes_of_the_run_in_its_place_are_renamed(tmp_path):
    """As in the second hour of this one."""
    logging.disable(logging.CRITICAL)
    try:
        days = Days(tmp_path, seed=0, rows=1, oracle=True)
        days.live(1.4)
        days.judged()
    finally:
        logging.disable(logging.NOTSET)

    assert ["node-{}"] != days.cluster.names
    assert [] == days.wrong
