"""When an exported finding is open, over, or only not told for a moment."""

import numpy as np
import pytest

from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.prometheus.asking import Course
from lockstep.dashboard.sources.prometheus.findings import findings

NOW = 1_795_000_005.0
LABELS = {"run": "r", "node": "n", "rank": "3", "cause": "thermal", "tier": "page"}


class Exported:
    """Tells of one finding in some stretches (seconds before now)."""

    def __init__(self, *stretches):
        self.stretches = stretches

    def over(self, query, grid):
        values = np.full(len(grid.times), np.nan)
        for begun, ended in self.stretches:
            values[(grid.times >= NOW - begun) & (grid.times <= NOW - ended)] = 1.0
        return [Course(LABELS, values)]


def found(*stretches):
    return findings(Exported(*stretches), None, Span(NOW - 7200, NOW), "", 15.0, NOW)


def test_what_is_told_now_is_open():
    (one,) = found((600, 0))
    assert (True, None) == (one.open, one.until)
    assert NOW - 630 <= one.since <= NOW - 600


def test_what_is_not_told_any_more_is_over():
    (one,) = found((3600, 1800))
    assert not one.open
    assert abs(one.until - (NOW - 1800)) <= 15


@pytest.mark.parametrize(("gap", "count"), [(120, 1), (900, 2)])
def test_a_short_silence_is_no_end(gap, count):
    assert count == len(found((3600, 2000), (2000 - gap, 0)))


def test_open_findings_come_first():
    assert [True, False] == [one.open for one in found((5000, 4000), (600, 0))]
