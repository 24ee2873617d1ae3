import dataclasses

import numpy as np

from lockstep.dashboard.shapes import Lines, RunRow, Span
from lockstep.dashboard.words.run_page import gain, numbers

ROW = RunRow("gpt-1", "ended", Span(0.0, 60.0), ranks=4)
FIX = {"remove": "node-3", "gain": 0.18, "interval": [0.16, 0.2], "by": "simulation", "over": "all"}
TIMES = np.arange(10.0)


def charts() -> tuple[Lines, ...]:
    return (
        Lines("throughput", "Throughput", "tokens/s", TIMES, {"all": np.full(10, 1234.0)}, TIMES),
        Lines("mfu", "Share of the measured peak", "ratio", TIMES, {"all": np.full(10, 0.4)}),
    )


def test_what_the_run_would_gain_has_interval_and_method() -> None:
    told, how = gain({"culprits": [{}], "what_if": {"method": "simulation", "fixes": [FIX]}})
    assert told == "Without node-3: +22 % steps an hour (95 % interval +19 % to +25 %)."
    assert how.startswith("Simulated from the operations")


def test_a_gain_that_is_not_known_says_so() -> None:
    told, how = gain({"culprits": [{"rank": 1}], "what_if": {"method": "none", "fixes": []}})
    assert told == ""
    assert how.startswith("What the run would take without its culprits is unknown")


def test_nobody_to_leave_out_is_no_sentence() -> None:
    nobody = {"culprits": [], "what_if": {"fixes": []}}
    assert [("", "")] * 2 == [gain(None), gain(nobody)]


def test_numbers_of_a_run_are_words_with_units() -> None:
    verdict = {"slowdown": 1.31, "slowdown_interval": [1.28, 1.34], "lost_gpu_hours": 0.6}
    told = {each.label: each.value for each in numbers(ROW, verdict, charts())}
    assert told == {
        "Step time over ideal": "1.31x", "Lost (GPU-h)": "0.6", "Steps": "10",
        "Rate (tokens/s)": "1,234", "Share of the peak": "40 %",
    }  # fmt: skip


def test_what_nobody_told_is_a_dash_and_never_nan() -> None:
    silent = Lines("throughput", "Throughput", "tokens/s", TIMES, {"all": np.full(10, np.nan)})
    for told in (numbers(ROW, None, ()), numbers(ROW, {"slowdown": "x"}, (silent,))):
        assert ["–"] * 5 == [each.value for each in told]


def test_only_a_run_that_has_a_baseline_is_held_against_it() -> None:
    slower = dataclasses.replace(ROW, baseline=0.8)
    without, told = ({each.label: each for each in numbers(row, None, ())} for row in (ROW, slower))

    assert told.keys() - without.keys() == {"Against its baseline"}
    number = told["Against its baseline"]
    assert ("0.80x", "-20% steps per second", True) == (number.value, number.delta, number.bad)
