"""A verdict about some ranks as one about the run: its coverage, its cost, and its doubt."""

import math

import pytest

from analyzer.attribute import diagnose
from analyzer.pushdown.suspects import Answered
from analyzer.pushdown.whole import of_whole_run


def test_all_ranks_lose_what_those_that_were_read_lose(synthetic, fault):
    diagnosis = diagnose(synthetic(faults=[fault("thermal", 2)]).run(), gpu_hour_price=2.0)
    few, whole = diagnosis.verdict, of_whole_run(diagnosis, Answered(360.0, 400))

    assert math.isclose(100 * few.lost_gpu_hours, whole.lost_gpu_hours)
    assert math.isclose(100 * few.lost_money, whole.lost_money)
    assert math.isclose(100 * few.lost_per_day["gpu_hours"], whole.lost_per_day["gpu_hours"])
    assert math.isclose(100 * few.lost_per_day["interval"][1], whole.lost_per_day["interval"][1])
    assert math.isclose(0.9 * few.coverage, whole.coverage)
    assert (few.slowdown, few.culprits) == (whole.slowdown, whole.culprits)
    assert few.sentence != whole.sentence


@pytest.mark.parametrize(("told", "expected"), [(400.0, "healthy"), (190.0, "unknown")])
def test_a_run_of_which_most_is_silent_is_not_healthy(synthetic, told, expected):
    diagnosis = diagnose(synthetic().run())

    assert "healthy" == diagnosis.verdict.status
    verdict = of_whole_run(diagnosis, Answered(told, 400))
    assert expected == verdict.status
    assert ("48% of the ranks told" in verdict.sentence) == (expected == "unknown")
