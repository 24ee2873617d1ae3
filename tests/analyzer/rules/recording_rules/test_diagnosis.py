"""Large runs are read by the rules where there are rules, and the verdict is about all ranks."""

import math

import pytest

from lockstep.analyzer.rules.recording_rules.diagnosis import LARGE, choose
from lockstep.analyzer.rules.recording_rules.suspects import Answered
from lockstep.analyzer.rules.recording_rules.whole_run import of_whole_run
from lockstep.analyzer.verdict.pipeline import diagnose


class Rules:
    """A connection to a Prometheus whose rules counted a run's ranks."""

    def __init__(self, *sizes, known=8.0):
        self.sizes = sizes
        self.known = known

    def now(self):
        return 1_760_000_000.0

    def instant(self, query, time):
        if "train_own_seconds:count" in query:
            return [({"run": "r"}, self.known)]
        assert query.startswith('last_over_time(lockstep:rank:count{run="r"}[3600000ms])')
        return [({"run": "r", "world_size": size}, 8.0) for size in self.sizes]


@pytest.mark.parametrize(
    ("sizes", "push_down", "why"),
    [
        ((), False, "the recording rules have nothing of this run"),
        ((str(LARGE),), False, f"{LARGE} ranks: all are read"),
        (("8", str(LARGE + 1)), True, f"{LARGE + 1} ranks: those that the recording rules"),
        (("",), False, "have nothing of this run"),
    ],
)
def test_the_rules_are_asked_where_they_know_a_large_run(sizes, push_down, why):
    chosen = choose(Rules(*sizes), "r", "1h", None)

    assert push_down == chosen.push_down
    assert why in chosen.why


def test_a_large_run_of_which_the_rules_know_no_own_time_is_read_whole():
    chosen = choose(Rules(str(LARGE + 1), known=0.0), "r", "1h", None)

    assert not chosen.push_down
    assert "the rules know no own time" in chosen.why


# A verdict about some ranks as one about the run: its coverage, its cost, and its doubt.


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
