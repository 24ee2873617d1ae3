"""Whether a run goes on, and how fast it is beside its best hour."""

from lockstep.watch.judge.runs import Progress, advanced, remembered


def after(*checks, healthy=True):
    """Checks of (now, steps, seconds of a step)."""
    known = None
    for now, steps, seconds in checks:
        known = advanced(known, steps, seconds, healthy, now)
    return known


def test_a_run_stalls_after_sixty_seconds_or_ten_steps():
    quick = after((0.0, 1.0, 0.5), (10.0, 20.0, 0.5), (69.9, 20.0, None))
    slow = after((0.0, 1.0, 20.0), (100.0, 6.0, 20.0))

    assert (False, True) == (quick.stalled(69.9), quick.stalled(70.0))
    assert (False, True) == (slow.stalled(299.0), slow.stalled(300.0))


def test_a_run_may_pause_half_as_long_again_as_it_did_before():
    checks = [(0.0, 1.0, 0.5), (15.0, 30.0, 0.5), (115.0, 30.0, None), (130.0, 60.0, 0.5)]

    known = after(*checks)

    assert 100.0 == known.longest
    assert (False, True) == (known.stalled(279.0), known.stalled(280.0))
    assert (False, True) == (known.stalled(429.0, 2.0), known.stalled(430.0, 2.0))


def test_time_that_nobody_saw_and_a_hang_of_hours_teach_no_pause():
    blind = after((0.0, 1.0, 0.5), (15.0, 30.0, 0.5), (3000.0, 4000.0, 0.5))
    hang = after((0.0, 1.0, 0.5), (15.0, 30.0, 0.5), (9000.0, 30.0, None), (9015.0, 31.0, 0.5))

    assert (0.0, 600.0) == (blind.longest, hang.longest)


def test_a_run_that_is_yet_to_begin_does_not_stall():
    assert not after((0.0, 0.0, None)).stalled(1e6)


def test_a_run_that_resumed_is_yet_to_begin():
    assert not after((0.0, 50.0, 0.5), (10.0, 40.0, None)).stalled(1000.0)


def test_a_clock_that_was_put_back_stalls_nothing():
    assert not after((1e6, 5.0, 0.5), (10.0, 5.0, 0.5)).stalled(60.0)


def test_throughput_is_beside_the_best_whole_hour_without_a_finding():
    hour = [(15.0 * index, 30.0 * index, 0.5) for index in range(242)]

    assert after(*hour[:200]).ratio(None) is None
    assert 1.0 == after(*hour).ratio(None)
    assert 0.5 == after(*hour, (3700.0, 1e4, 1.0)).ratio(None)
    assert after(*hour, healthy=False).ratio(None) is None
    assert 2.0 == after(*hour[:2]).ratio(1.0)


def test_runs_of_yesterday_are_forgotten():
    runs = {"old": Progress(1.0, 0.0, seen=0.0), "new": Progress(1.0, 0.0, seen=9e4)}

    assert ["new"] == list(remembered(runs, 1e5))
