"""Horovod's protocol on step times with a known answer."""

import math

import numpy as np
import pytest
from scipy import stats

from lockstep.workloads.loop.evaluation import (
    ITERATIONS,
    STEPS,
    STUDENT_T,
    ThroughputError,
    measured,
)

WARM = [9.0] * 10


def iterations(seconds: list[float]) -> list[float]:
    """Steps after warm-up of so many seconds each, ten of a kind."""
    return [value for value in seconds for _ in range(10)]


def test_even_steps_have_no_spread() -> None:
    found = measured([*WARM, *iterations([0.5] * 10)], samples=32, ranks=4, gpu=True)

    assert pytest.approx(64.0) == found.mean
    assert pytest.approx(0.0, abs=1e-9) == found.horovod_spread
    assert (pytest.approx(64.0), pytest.approx(64.0)) == found.confidence_interval


def test_warm_up_and_what_follows_the_protocol_do_not_count() -> None:
    wanted = measured([*WARM, *iterations([0.5] * 10)], samples=32, ranks=4, gpu=True)
    longer = [*[0.001] * 10, *iterations([0.5] * 10), *[77.0] * 30]

    assert wanted == measured(longer, samples=32, ranks=4, gpu=True)


def test_mean_and_spread_are_horovods_and_the_interval_is_students() -> None:
    seconds = [0.5, 0.4, 0.6, 0.5, 0.45, 0.55, 0.5, 0.52, 0.48, 0.5]
    rates = np.array([32 * 10 / (10 * value) for value in seconds])
    found = measured([*WARM, *iterations(seconds)], samples=32, ranks=4, gpu=True)
    low, high = found.confidence_interval
    half = stats.t.ppf(0.975, ITERATIONS - 1) * rates.std(ddof=1) / math.sqrt(ITERATIONS)

    assert found.mean == pytest.approx(np.mean(rates))
    assert found.horovod_spread == pytest.approx(1.96 * np.std(rates))
    assert high - low == pytest.approx(2 * half, rel=1e-5)
    assert (low + high) / 2 == pytest.approx(np.mean(rates))
    assert stats.t.ppf(0.975, ITERATIONS - 1) == pytest.approx(STUDENT_T, abs=1e-6)


def test_an_iteration_is_ten_steps_whatever_each_took() -> None:
    uneven = [0.1, 0.9] * 50

    assert (
        pytest.approx((64.0,) * 10)
        == measured([*WARM, *uneven], samples=32, ranks=1, gpu=False).rates
    )


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    dice = np.random.default_rng(7)
    hits = 0
    for _ in range(1000):
        rates = dice.normal(100.0, 5.0, size=10)
        found = measured([*WARM, *iterations((1 / rates).tolist())], samples=1, ranks=1, gpu=True)
        low, high = found.confidence_interval
        hits += low <= 100.0 <= high

    assert 930 <= hits <= 970


@pytest.mark.parametrize(("gpu", "device"), [(True, "GPU"), (False, "rank")])
def test_the_lines_are_horovods(gpu: bool, device: str) -> None:
    seconds = iterations([0.5, 0.4] * 5)
    lines = measured([*WARM, *seconds], samples=32, ranks=4, gpu=gpu).lines()

    assert f"Iter #0: 64.0 img/sec per {device}" == lines[0]
    assert f"Iter #9: 80.0 img/sec per {device}" == lines[9]
    assert f"Img/sec per {device}: 72.0 +-15.7" == lines[10]
    assert f"Total img/sec on 4 {device}(s): 288.0 +-62.7" == lines[11]
    assert f"95 % confidence interval of the mean per {device}: 66.0 to 78.0" == lines[12]


def test_the_same_as_json() -> None:
    tree = measured([*WARM, *iterations([0.5] * 10)], samples=32, ranks=4, gpu=False).to_json()

    assert pytest.approx(256.0) == tree["total_samples_per_second"]
    assert 10 == len(tree["iterations"])


def test_too_few_steps_are_refused_with_how_many_are_needed() -> None:
    with pytest.raises(ThroughputError, match=r"109 steps are too few .*; 110 are needed"):
        measured([0.5] * (STEPS - 1), samples=1, ranks=1, gpu=False)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_a_step_without_time_is_refused(wrong: float) -> None:
    with pytest.raises(ThroughputError, match=r"a step took .* it must take more than 0"):
        measured([*WARM, *[0.5] * 50, wrong, *[0.5] * 49], samples=1, ranks=1, gpu=False)
