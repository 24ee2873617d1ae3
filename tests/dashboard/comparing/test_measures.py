import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.dashboard.comparison import measures, steady
from lockstep.dashboard.shapes import Lines

STEPS = np.arange(300.0)


def chart(values: np.ndarray, key: str = "step", **more: object) -> Lines:
    count = len(values)
    return Lines(key, "Step time", "s", 1e9 + np.arange(count), {"p50": values},
                 np.arange(float(count)), **more)  # type: ignore[arg-type]  # fmt: skip


def noisy(middle: float, seed: int, count: int = 300) -> np.ndarray:
    return middle * np.random.default_rng(seed).lognormal(0.0, 0.05, count)


def test_a_slower_run_is_slower_for_certain_with_an_interval_round_it() -> None:
    (told,) = measures([chart(noisy(1.0, 0))], [chart(noisy(1.12, 1))])
    assert told.certain
    assert told.ratio is not None
    assert told.interval is not None
    assert told.interval[0] < 1.12 < told.interval[1]
    assert 0.9 < told.effect <= 1.0


@settings(max_examples=15)
@given(st.integers(0, 2**20))
def test_the_same_run_twice_is_the_same(seed: int) -> None:
    (told,) = measures([chart(noisy(1.0, seed))], [chart(noisy(1.0, seed))])
    assert not told.certain
    assert (1.0, 0.0) == (told.ratio, told.effect)


def test_runs_that_differ_by_noise_are_told_apart_seldom() -> None:
    told = [measures([chart(noisy(1.0, at))], [chart(noisy(1.0, at + 99))])[0] for at in range(60)]
    assert sum(each.certain for each in told) <= 6


def test_a_wave_over_neighbouring_steps_is_no_certain_difference() -> None:
    wave = 1.0 + 0.2 * np.sin(STEPS / 40)
    (told,) = measures([chart(wave)], [chart(np.roll(wave, 50))])
    assert not told.certain


def test_warm_up_is_left_out() -> None:
    values = np.ones(300)
    values[:6] = 50.0
    assert 294 == len(steady(chart(values), "p50"))
    assert 1.0 == steady(chart(values), "p50").max()


def test_gaps_are_left_out() -> None:
    values = np.ones(300)
    values[100:200] = np.nan
    assert 194 == len(steady(chart(values), "p50"))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_too_few_steps_give_no_ratio(count: int) -> None:
    for told in measures([chart(np.ones(count))], [chart(np.ones(300))]):
        assert told.ratio is None
        assert not told.certain


def test_lines_of_only_one_run_and_edges_of_bands_are_left_out() -> None:
    one = chart(np.ones(300))
    assert () == measures([one], [chart(np.ones(300), key="loss")])
    assert () == measures([chart(np.ones(300), band=("p50", "p95"))], [one])


def test_zeros_and_nothing_are_no_exception() -> None:
    (told,) = measures([chart(np.zeros(300))], [chart(np.zeros(300))])
    assert told.ratio is None
