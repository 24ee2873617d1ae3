"""Up to eight runs beside each other."""

import numpy as np

from lockstep.dashboard import comparison
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
    assert "not known" == frame.loc[1, "certain"]
    assert frame[["step (s)", "against a", "last loss"]].iloc[1].isna().all()
    assert () == comparison.overlaid([charts(0.1), ()])


def test_what_was_not_measured_is_not_told_as_no_difference() -> None:
    assert "not known" in comparison.answer(comparison.table(ROWS[:3], [charts(0.1), (), ()]))
    assert "None of" not in comparison.answer(comparison.table(ROWS[:2], [(), charts(0.1)]))
    some = comparison.answer(comparison.table(ROWS[:3], [charts(0.1), charts(0.1, seed=1), ()]))
    assert (
        some == "None of 1 runs differs from a for certain in its step time; of 1 it is not known."
    )
