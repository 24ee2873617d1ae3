"""Every finding of a simulated cluster opens once, closes once, and is told once each.

`python -m tests.benchmarks watch_life` lives 72 hours.
"""

import logging

import pytest

from tests.watch import cluster_life
from tests.watch.cluster_life import FOREVER, START, Cluster, Days

pytestmark = pytest.mark.slow
SHORT = 2
"""The seed that is lived by day, for less time than others: in some of them nothing is found so
early."""
HOURS = 3.0, 1.5
DARK_HOURS = 3.5, 1.0
"""Likewise, of days on which sight of most runs is lost."""


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize("seed", range(8))
def test_each_finding_is_told_once_whatever_is_killed(tmp_path, seed):
    logging.disable(logging.CRITICAL)
    try:
        days = Days(tmp_path, seed, rows=2, oracle=True)
        days.live(HOURS[seed == SHORT])
        counts = days.judged()
    finally:
        logging.disable(logging.NOTSET)

    assert [] == days.wrong
    assert counts["findings"] > 0


class Renamed(Cluster):
    """The nodes have other names once a run took the place of one that ended."""

    def advance(self, seconds: float) -> None:
        if self.now >= START + 6700.0:
            self.names[0] = "host7-{}"
        super().advance(seconds)


def test_what_ended_is_not_told_again_where_the_nodes_of_the_run_in_its_place_are_renamed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(cluster_life, "Cluster", Renamed)
    logging.disable(logging.CRITICAL)
    try:
        days = Days(tmp_path, seed=0, rows=1, oracle=True)
        days.live(1.8)
        counts = days.judged()
    finally:
        logging.disable(logging.NOTSET)

    assert (2, 1) == (counts["runs"], counts["findings stop"])
    assert [] == days.wrong


class Dark(Cluster):
    """Sight of most runs is lost near their end, which comes within half an hour."""

    def _begin(self, row: int) -> None:
        super()._begin(row)
        run, dice = self.runs[-1], self.dice
        if run.dark or run.over == FOREVER or run.vanished < FOREVER:
            return
        cut = max(0.0, run.over - self.now - 1500.0)
        run.dies = {rank: when - cut for rank, when in run.dies.items()}
        self._next[row] -= cut
        begin = run.over - float(dice.uniform(30.0, 900.0))
        run.dark.append((begin, begin + float(dice.uniform(60.0, 1500.0))))
        self.dark += [(row, *span) for span in run.dark]


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize("seed", range(5))
def test_how_runs_ended_while_sight_of_them_was_lost_is_told_once(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(cluster_life, "Cluster", Dark)
    logging.disable(logging.CRITICAL)
    try:
        days = Days(tmp_path, seed, rows=3, oracle=True)
        days.live(DARK_HOURS[seed == SHORT])
        counts = days.judged()
    finally:
        logging.disable(logging.NOTSET)

    assert [] == days.wrong
    assert counts["ends in the dark"] > 0
