"""The learning rate follows MLBench's: up with the workers, halved where the loss stands still."""

import pytest

from lockstep.workloads.models.image_training import PlateauRate


def test_one_worker_has_one_rate() -> None:
    rate = PlateauRate(0.02, 1, epoch=10)
    for step in range(50):
        rate.observe(step, 1.0)

    assert 0.02 == rate(0) == rate(100)
    assert 0 == rate.cuts


@pytest.mark.parametrize(("workers", "epochs"), [(2, 1), (3, 1), (4, 2), (8, 3), (9, 3)])
def test_the_warm_up_takes_log2_of_the_workers_epochs(workers: int, epochs: int) -> None:
    rate = PlateauRate(0.02, workers, epoch=100)

    assert 0.02 == rate(0)
    assert 0.02 * (1 + (workers - 1) / 2) == pytest.approx(rate(50 * epochs))
    assert rate(100 * epochs - 1) < 0.02 * workers
    assert 0.02 * workers == rate(100 * epochs)


def test_two_evaluations_that_are_no_better_halve_the_rate_down_to_that_of_one_worker() -> None:
    rate = PlateauRate(0.02, 4, epoch=1)
    rates = []
    for step, loss in enumerate([9.0, 1.0, 0.995, 0.5, 0.5, 0.495, 0.6, 0.7, 0.8, 0.9], start=2):
        rate.observe(step, loss)
        rates.append(rate(step + 1))

    # 0.995 is one that is no better; 0.5 and 0.495 are two; then pairs until the least.
    assert [0.08] * 5 + [0.04] * 2 + [0.02] * 3 == pytest.approx(rates)
    assert 2 == rate.cuts


def test_losses_of_the_warm_up_say_nothing() -> None:
    rate = PlateauRate(0.02, 2, epoch=100)
    for step in range(9, 90, 10):
        rate.observe(step, 0.1)

    assert 0.04 == rate(100)


def test_a_short_run_cools_down_over_its_last_third() -> None:
    rate = PlateauRate(0.02, 1, epoch=1, cooled_by=90)

    assert [0.02, 0.02, 0.01, 0.02 / 30, 0.0] == pytest.approx(
        [rate(step) for step in (0, 60, 75, 89, 90)]
    )
