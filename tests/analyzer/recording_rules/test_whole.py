"""A verdict about some ranks as one about the run: its coverage, its cost, and its doubt."""

import math

import pytest

from lockstep.analyzer.rules.recording_rules.diagnosis import of_whole_run
from lockstep.analyzer.rules.recording_rules.suspects import Answered
from lockstep.analyzer.verdict.pipeline import diagnose


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


@pytest.mark.parametrize(("told", "silent"), [(400.0, 0), (399.0, 1), (190.0, 210)])
@pytest.mark.parametrize(("uniform", "expected"), [(None, "healthy"), ((100, 1.4), "degraded")])
def test_a_run_with_a_rank_that_is_not_known_clears_nobody(
    synthetic, told, silent, uniform, expected
):
    diagnosis = diagnose(synthetic(uniform=uniform).run())

    assert expected == diagnosis.verdict.status
    verdict = of_whole_run(diagnosis, Answered(told, 400))
    assert (expected if not silent else "unknown") == verdict.status
    assert (f"of {silent} of 400 ranks" in verdict.sentence) == bool(silent)
    assert ("to blame" in verdict.sentence) == (uniform is not None and not silent)
    assert bool(verdict.structure) == (uniform is not None and not silent)
