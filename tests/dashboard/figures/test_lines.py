import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.dashboard.figures.charts import Other
from lockstep.dashboard.figures.lines import stack
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.shapes import Event, Lines, Severity, Span

START = 1_795_000_000.0
TIMES = START + np.arange(50.0)
STEPS = np.arange(50.0) + 100
SPAN = Span(START, START + 50)
HOSTILE = '<a href="javascript:alert(1)">node</a>'


def lines(key: str = "step", unit: str = "s", steps: bool = True, **more: Any) -> Lines:
    values = more.pop("values", {"p50": np.linspace(1.0, 2.0, 50)})
    return Lines(key, key.capitalize(), unit, TIMES, values, STEPS if steps else None, **more)


def event(at: float = 5.0, severity: Severity = Severity.WARNING, text: str = "hot") -> Event:
    return Event(START + at, None, "throttle", severity, text)


def traces(shown: Picture) -> dict[str, Any]:
    return {each["name"]: each for each in shown.figure["data"] if "name" in each}


def words(shown: Picture) -> list[str]:
    return [note["text"] for note in shown.figure["layout"]["annotations"]]


@given(order=st.permutations(["data", "forward", "grad_sync", "optimizer", "checkpoint"]))
def test_phases_stand_in_the_order_of_a_step_and_keep_their_colours(order):
    def drawn(told):
        chart = lines("phases", "ratio", values=dict.fromkeys(told, np.full(50, 0.2)), stacked=True)
        return [
            (each["name"], each["line"]["color"], each["fillpattern"]["shape"])
            for each in stack([chart]).figure["data"]
            if each.get("stackgroup")
        ]

    every = drawn(order)
    assert ["data", "forward", "grad_sync", "optimizer", "checkpoint"] == [one[0] for one in every]
    assert every[1:] == drawn([one for one in order if one != "data"])


@given(place=st.integers(0, 49), height=st.floats(3.0, 1e6))
def test_a_spike_of_one_sample_is_in_the_figure_and_inside_its_axis(
    place: int, height: float
) -> None:
    values = np.ones(50)
    values[place] = height
    shown = stack([lines(values={"p50": values})])
    drawn = traces(shown)["p50"]["y"]
    assert np.float32(height) == drawn[place]
    low, high = shown.figure["layout"]["yaxis"]["range"]
    assert low <= 1.0 < height < high


@settings(max_examples=40)
@given(st.lists(st.one_of(st.floats(-1e12, 1e12), st.just(np.nan)), min_size=50, max_size=50))
def test_no_values_make_an_exception_or_a_sentence_with_nan(values: list[float]) -> None:
    shown = stack([lines(values={"p50": np.array(values)})])
    assert "nan" not in shown.text
    assert "nan" not in "".join(words(shown))


def test_a_gap_stays_a_gap() -> None:
    values = np.ones(50)
    values[10:20] = np.nan
    drawn = traces(stack([lines(values={"p50": values})]))["p50"]
    assert np.array_equal(np.isnan(values), np.isnan(drawn["y"]))
    assert not drawn["connectgaps"]


def test_a_value_between_two_gaps_has_a_marker() -> None:
    values = np.full(50, np.nan)
    values[7] = 1.0
    assert "markers" in traces(stack([lines(values={"p50": values})]))["p50"]["mode"]


def test_nobody_told_anything_is_a_picture_that_says_so() -> None:
    nothing = lines(values={"p50": np.full(50, np.nan)})
    for shown in (stack([nothing]), stack([])):
        assert "No values were reported" in shown.text


def test_a_chart_without_values_takes_no_room_and_is_named() -> None:
    shown = stack([lines(), lines("mfu", values={})])
    assert "Not reported: Mfu." in shown.note
    assert "yaxis2" not in shown.figure["layout"]


def test_charts_and_lines_of_zeros_are_one_line_of_words_and_stay_in_the_table() -> None:
    zero = np.zeros(50)
    errors = {"XIDs": zero, "replays": np.arange(50.0)}
    shown = stack([lines(), lines("network", values={"in": zero}), lines("errors", values=errors)])
    assert "All 0: Network; of Errors XIDs." in shown.note
    assert {"p50", "replays"} == set(traces(shown))
    assert {"Step", "Network", "Errors"} == set(shown.table["chart"])


@pytest.mark.parametrize("key", ["loss", "throughput", "utilization"])
def test_a_zero_that_is_news_is_drawn(key: str) -> None:
    shown = stack([lines(), lines(key, values={"all": np.zeros(50)})])
    assert "All 0" not in shown.note
    assert "all" in traces(shown)


def test_where_all_is_zero_the_charts_stand() -> None:
    assert "errors" in traces(stack([lines("errors", values={"errors": np.zeros(50)})]))


def test_all_charts_share_one_axis_and_one_cursor() -> None:
    shown = stack([lines(), lines("loss", "nats"), lines("gpu", "ratio")], [event()], SPAN)
    layout = shown.figure["layout"]
    assert {"y", "y2", "y3", "y4"} == {each["yaxis"] for each in shown.figure["data"]}
    assert not [key for key in layout if key.startswith("xaxis") and key != "xaxis"]
    assert ("x unified", "across") == (layout["hovermode"], layout["xaxis"]["spikemode"])
    domains = [layout[f"yaxis{number}"]["domain"] for number in ("", 2, 3, 4)]
    assert domains == sorted(domains, reverse=True)
    assert all(below[1] < above[0] for above, below in itertools.pairwise(domains))


def test_an_event_is_a_line_through_all_charts() -> None:
    shown = stack([lines(), lines("loss")], [event(5.0, Severity.CRITICAL)], SPAN)
    (line,) = shown.figure["layout"]["shapes"]
    assert ("paper", 0, 1, "solid") == (
        line["yref"], line["y0"], line["y1"], line["line"]["dash"],
    )  # fmt: skip
    assert (START + 5.0) * 1000 == line["x0"]


def test_of_many_events_the_worst_are_drawn_and_the_others_counted() -> None:
    many = [event(at / 10, Severity.NOTE) for at in range(400)]
    many.append(event(1.0, Severity.CRITICAL, "the worst"))
    shown = stack([lines()], many, SPAN)
    assert 200 == len(shown.figure["layout"]["shapes"])
    assert "201 of 401 events are not drawn" in shown.note
    assert any("the worst" in each for each in traces(shown)["critical"]["text"])


def test_names_from_outside_are_letters() -> None:
    hostile = lines(values={HOSTILE: np.ones(50)})
    shown = stack([hostile], [event(text=HOSTILE)], SPAN, other=Other([hostile], HOSTILE, START))
    told = json.dumps(shown.figure, default=np.ndarray.tolist, ensure_ascii=False)
    assert "<a" not in told
    assert "&lt;a" in told


def test_by_step_hardware_stands_at_the_steps_of_its_moments() -> None:
    late = Lines("gpu", "GPU", "ratio", TIMES + 0.5, {"all": np.ones(50)})
    shown = stack([lines(), late], [event(5.0)], SPAN, "step")
    assert list(STEPS) == list(traces(shown)["p50"]["x"])
    assert 100.5 == traces(shown)["all"]["x"][0]
    assert np.isnan(traces(shown)["all"]["x"][-1])
    assert 105.0 == shown.figure["layout"]["shapes"][0]["x0"]


def test_by_step_without_steps_it_is_by_time_and_says_so() -> None:
    shown = stack([lines(steps=False)], (), SPAN, "step")
    assert "date" == shown.figure["layout"]["xaxis"]["type"]
    assert "No steps were reported: shown by time." in shown.note


def test_relative_time_begins_with_the_run() -> None:
    shown = stack([lines()], (), Span(START - 10, START + 40), "relative")
    assert 10.0 == traces(shown)["p50"]["x"][0]
    assert "since start (s)" == shown.figure["layout"]["xaxis"]["title"]["text"]


def test_another_run_is_dashed_and_laid_on_the_start() -> None:
    other = Lines("step", "Step", "s", TIMES - 5000.0, {"p50": np.full(50, 3.0)}, STEPS)
    shown = stack([lines()], (), SPAN, other=Other([other], "baseline", START - 5000.0))
    far = traces(shown)["p50 (baseline)"]
    assert "dash" == far["line"]["dash"]
    assert START * 1000 == far["x"][0]
    assert "baseline is laid on the start of this run" in shown.note


def test_lines_differ_by_dash_as_well_as_colour_and_are_named_at_their_end() -> None:
    shown = stack([lines(values={name: np.ones(50) * at for at, name in enumerate("abcd")})])
    drawn = [each["line"] for each in shown.figure["data"]]
    assert 4 == len({each["dash"] for each in drawn}) == len({each["color"] for each in drawn})
    assert {"a", "b", "c", "d"} <= set(words(shown))


def test_of_too_many_lines_those_that_are_0_are_left_out() -> None:
    values = {f"GPU {at}": np.ones(50) * (at != 3) for at in range(9)}
    shown = stack([lines(values=values)])
    assert "1 line of Step is in the table only: GPU 3." in shown.note


def test_the_end_of_another_runs_line_has_the_name_of_the_line() -> None:
    other = Lines("step", "Step", "s", TIMES, {"p50": np.full(50, 3.0)}, STEPS)
    shown = stack([lines()], (), SPAN, other=Other([other], "b", START))
    assert "- - b: p50" in words(shown)
    named = {"mean over ranks": np.linspace(1.0, 2.0, 50)}
    ours = lines(values=named)
    far = Lines("step", "Step", "s", TIMES, named, STEPS)
    for called, expected in (("b", "- - b: mean ove…"), ("baseline", "- - baseline")):
        assert expected in words(stack([ours], (), SPAN, other=Other([far], called, START)))


def test_a_band_is_filled_between_its_edges_and_not_over_gaps() -> None:
    low = np.ones(50)
    low[20:30] = np.nan
    values = {"p50": np.ones(50) * 2, "p5": low, "p95": np.ones(50) * 3}
    area, *drawn = stack([lines(values=values, band=("p5", "p95"))]).figure["data"]
    assert ["p5", "p95", "p50"] == [each["name"] for each in drawn]
    assert "toself" == area["fill"]
    assert 2 == np.isnan(area["y"]).sum()
    inside = (area["x"] >= TIMES[20] * 1000) & (area["x"] < TIMES[30] * 1000)
    assert not inside.any()


def test_at_most_eight_lines_are_drawn_and_the_table_has_all() -> None:
    shown = stack([lines(values={f"GPU {at}": np.ones(50) for at in range(12)})])
    assert 8 == len(shown.figure["data"])
    expected = "4 lines of Step are in the table only: GPU 8, GPU 9, GPU 10 and 1 more."
    assert expected in shown.note
    assert 12 == shown.table["line"].nunique()


def test_the_table_of_a_stack_has_every_value() -> None:
    shown = stack([lines(), lines("loss", "nats", steps=False)])
    assert 100 == len(shown.table)
    assert ["Step", "Loss"] == list(shown.table["chart"].unique())
    assert "2026-11-18" == f"{shown.table['time (UTC)'][0]:%Y-%m-%d}"


@pytest.mark.parametrize("unit", ["s", "ratio", "nats", "bytes/s", "tokens/s", "", "<i>"])
def test_titles_have_units(unit: str) -> None:
    expected = {"ratio": "Step (%)", "": "Step", "<i>": "Step (&lt;i&gt;)"}.get(
        unit, f"Step ({unit})"
    )
    assert f"<b>{expected}</b>" in words(stack([lines(unit=unit)]))
