"""Which replica the others wait for, in the steps that count."""

import numpy as np

from analyzer.workers import Lateness

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
