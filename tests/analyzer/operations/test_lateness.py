"""Which replica the others wait for, in the steps that count."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.analyzer.operations.lateness import Lateness
from lockstep.analyzer.shapes.run import Verdict
from lockstep.evaluation.synth import traces as synth
from tests.analyzer.stages import verdict_of_trace

SLOW = np.arange(20) % 5 == 4
LATE = Lateness(np.stack([np.where(SLOW, 1.0, 0.0), np.zeros(20)]), step=5.0)


def test_over_all_steps_nobody_waits_for_a_replica_that_is_late_in_every_fifth():
    assert LATE.last() is None


def test_in_its_slow_steps_the_others_wait_for_it():
    assert 0 == LATE.last(during=SLOW)


def test_only_steps_between_the_first_and_the_last_count():
    assert 0 == LATE.last(4, 5)
    assert 0 == LATE.last(5, 15, SLOW)


def test_where_no_step_counts_nobody_is_last():
    assert LATE.last(during=np.zeros(20, dtype=bool)) is None


def test_who_is_late_by_less_than_the_clocks_may_be_wrong_is_not_told():
    assert 0 == replace(LATE, clock_error=0.49).last(during=SLOW)
    assert None is replace(LATE, clock_error=0.51).last(during=SLOW)
    assert ((), 1) == (LATE.missing, len(replace(LATE, clock_error=0.51).missing))


def examined(clock_error: float) -> Verdict:
    scene = synth.Scene(pp=2, micro_batches=4, steps=12, slow=(synth.Slow(1, 1, 1.3),))
    return verdict_of_trace(replace(synth.trace(scene), clock_error=clock_error))


def test_good_clocks_change_nothing():
    assert examined(0.0) == examined(1e-6)


def test_a_culprit_is_still_named_by_durations_where_clocks_hide_who_is_late():
    verdict = examined(0.1)

    assert [(1, 1)] == [(one.dp, one.pp) for one in verdict.culprits]
    assert any("clocks agree within 100 ms" in words for words in verdict.missing)


@pytest.mark.parametrize("clock_error", [1.0, 100.0])
def test_what_if_is_bounded_where_clocks_are_worse_than_its_error(clock_error):
    verdict = examined(clock_error)

    assert [(1, 1)] == [(one.dp, one.pp) for one in verdict.culprits]
    assert "bounds" == verdict.what_if["method"]
    assert "clocks of the ranks agree only within" in verdict.what_if["why"]
