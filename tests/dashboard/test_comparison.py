"""Up to eight runs beside each other."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.dashboard import comparison
from lockstep.dashboard.comparison import Nodes, measures, moved, nodes, phases, steady
from lockstep.dashboard.shapes import Lines, RunRow, Span


def charts(step: float, count: int = 200, first: int = 0, seed: int = 0) -> tuple[Lines, ...]:
    noise = np.random.default_rng(seed).normal(1.0, 0.01, count)
    times, steps = np.arange(count, dtype=float), first + np.arange(count, dtype=float)
    return (
        Lines("step", "Step time", "s", times, {"p5": step * noise, "median": step * noise}, steps),
        Lines("loss", "Loss", "nats", times, {"mean": np.linspace(4.0, 2.0, count)}, steps),
    )


def row(name: str, **more: object) -> RunRow:
    return RunRow(name, "ended", Span(0.0, 1.0), **more)  # type: ignore[arg-type]


RUNS = [charts(0.1), charts(0.1, seed=1), charts(0.12, seed=2), charts(0.09, 500, seed=3)]
ROWS = [row("one"), row("two"), row("three", tags=("fw-570",)), row("four")]


def test_each_is_held_against_the_first_with_its_interval() -> None:
    frame = comparison.table(ROWS, RUNS)
    assert ["a", "b", "c", "d"] == frame["which"].tolist()
    assert ["", "within noise", "yes", "yes"] == frame["certain"].tolist()
    third = frame.iloc[2]
    assert 0.17 < third["at least"] < third["against a"] < third["at most"] < 0.23
    assert "fw-570" == third["tags"]


def test_the_answer_names_the_slowest_and_the_quickest() -> None:
    said = comparison.answer(comparison.table(ROWS, RUNS))
    assert said.startswith("2 of 3 runs differ from a for certain: c by +2")
    assert ", d by -" in said


def test_lines_stand_on_one_grid_of_steps_since_each_began() -> None:
    step, loss = comparison.overlaid([charts(0.1), charts(0.1, first=5000)])
    assert ("step", "loss") == (step.key, loss.key)
    assert np.isfinite(step.values["b"]).all()
    longer, _ = comparison.overlaid(RUNS)
    assert "medians of 2 steps" == longer.sampling
    assert np.isnan(longer.values["a"][-1])
    assert np.isfinite(longer.values["d"][-1])


def test_a_run_that_told_nothing_is_not_known_and_no_zero() -> None:
    frame = comparison.table(ROWS[:2], [charts(0.1), ()])
    assert "unknown" == frame.loc[1, "certain"]
    assert frame[["step (s)", "against a", "last loss"]].iloc[1].isna().all()
    assert () == comparison.overlaid([charts(0.1), ()])


def test_what_was_not_measured_is_not_told_as_no_difference() -> None:
    assert "unknown" in comparison.answer(comparison.table(ROWS[:3], [charts(0.1), (), ()]))
    assert "None of" not in comparison.answer(comparison.table(ROWS[:2], [(), charts(0.1)]))
    some = comparison.answer(comparison.table(ROWS[:3], [charts(0.1), charts(0.1, seed=1), ()]))
    assert some == "None of 1 runs differs from a for certain in its step time; 1 is unknown."


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


def ranks(backward: float = 0.2, names: tuple[str, ...] = ("node-0", "node-1")) -> pd.DataFrame:
    return pd.DataFrame(
        {"node": list(names), "wall_seconds": 0.3 + backward, "forward_seconds": 0.1,
         "backward_seconds": backward, "checkpoint_seconds": np.nan}
    )  # fmt: skip


def test_nodes_that_only_one_run_had_are_named() -> None:
    told = nodes(ranks(), ranks(names=("node-1", "node-3")))
    assert Nodes(("node-0",), ("node-3",), 1) == told


def test_the_phase_that_grew_makes_up_the_change() -> None:
    one, other = ranks(), ranks(0.3)
    told = phases(one, other)
    assert ["forward", "backward"] == list(told["phase"])
    assert ("backward",) == moved(told, one, other)


def test_without_a_change_nothing_moved() -> None:
    assert () == moved(phases(ranks(), ranks()), ranks(), ranks())


def test_without_phases_there_are_none() -> None:
    bare = pd.DataFrame({"node": [], "wall_seconds": []})
    assert phases(bare, bare).empty
    assert () == moved(phases(bare, bare), bare, bare)
