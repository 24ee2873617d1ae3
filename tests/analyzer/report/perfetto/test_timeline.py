"""Timelines open in ui.perfetto.dev, and their times are those of the run and of the simulation."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.operations.whatif.analysis import analyze
from lockstep.analyzer.read.optrace.load import run_of_trace
from lockstep.analyzer.report.perfetto import events
from lockstep.analyzer.report.perfetto.events import lanes
from lockstep.analyzer.report.perfetto.timeline import TimelineError, of_run, of_trace, steps_around
from lockstep.evaluation.synth import traces as synth

ALL = range(10)


def _events(timeline):
    return json.loads("".join(timeline.parts()))["traceEvents"]


def _complete(timeline):
    return [event for event in _events(timeline) if event["ph"] == "X"]


def test_a_small_timeline_is_its_golden_file(golden):
    small = synth.trace(synth.Scene(dp=2, pp=2, micro_batches=1, steps=1, noise=0.0))

    golden("perfetto.json", "".join(of_trace(small, ALL).parts()))


@pytest.mark.parametrize("kind", ["trace", "archive"])
def test_events_are_those_of_the_trace_event_format(trace, archived, kind):
    found = _events(of_trace(trace, ALL) if kind == "trace" else of_run(archived, ALL))
    slices = [event for event in found if event["ph"] == "X"]
    named = {(one["pid"], one["tid"]) for one in found if one["name"] == "thread_name"}

    assert {"X", "M"} == {event["ph"] for event in found}
    assert {(one["pid"], one["tid"]) for one in slices} == named
    assert {one["pid"] for one in slices} == {
        one["pid"] for one in found if one["name"] == "process_name"
    }
    assert all(one["ts"] >= 0 and one["dur"] >= 0 for one in slices)
    assert 0 == min(one["ts"] for one in slices)
    assert {"step", "compute", "wait", "transfer"} == {one["cat"] for one in slices}


def test_slices_of_a_thread_never_overlap(trace):
    by_thread = {}
    for one in _complete(of_trace(trace, ALL)):
        by_thread.setdefault(one["tid"], []).append((one["ts"], one["ts"] + one["dur"]))

    for spans in by_thread.values():
        spans.sort()
        assert all(a[1] <= b[0] + 2e-3 for a, b in pairwise(spans))


def test_actual_times_are_those_of_the_trace(trace):
    slices = of_trace(trace, ALL).slices
    actual = slices[~slices["ideal"]]
    seconds = actual.groupby("kind")["duration_ns"].sum() / 1e9

    assert pytest.approx(trace.duration.sum(), abs=1e-5) == seconds.drop("step").sum()
    work = analyze(trace).work
    assert pytest.approx(work.blocking.sum(), abs=1e-5) == seconds["wait"]
    begins = actual.loc[actual["kind"] == "step", "start_ns"].unique()
    assert len(trace.steps) == len(begins)


def test_ideal_steps_take_as_long_as_the_simulation_says(trace):
    slices = of_trace(trace, ALL).slices
    steps = slices[slices["ideal"] & (slices["kind"] == "step")]
    seconds = steps.groupby("step")["duration_ns"].max().to_numpy() / 1e9

    np.testing.assert_allclose(analyze(trace).strata_steps, seconds, atol=1e-8)
    actual = slices[~slices["ideal"] & (slices["kind"] == "step")]
    assert (seconds < actual.groupby("step")["duration_ns"].max().to_numpy() / 1e9).all()


def test_an_archive_shows_what_its_trace_shows(trace, archived):
    ours, foreign = of_run(archived, ALL), of_trace(trace, ALL)
    assert ours.without_ideal is None
    columns = ["rank", "ideal", "name", "kind", "step", "duration_ns"]
    tables = [
        one.slices[columns].sort_values(columns, ignore_index=True) for one in (ours, foreign)
    ]

    for ideal in (False, True):
        mine, its = (
            table[(table["ideal"] == ideal) & (table["duration_ns"] > 1000)] for table in tables
        )
        sums = [
            table.groupby(["rank", "name", "step"])["duration_ns"].sum() / 1e9
            for table in (mine, its)
        ]
        pd.testing.assert_series_equal(*sums, rtol=0, atol=0.005)


def test_ideal_steps_begin_when_the_actual_ones_do(archived):
    slices = of_run(archived, ALL).slices
    steps = slices[slices["kind"] == "step"]
    begins = steps.pivot_table("start_ns", "step", "ideal", aggfunc="min")

    assert (abs(begins[True] - begins[False]) < 1_000_000).all()


def test_the_slow_worker_is_not_the_one_that_waits(trace):
    slices = of_trace(trace, ALL).slices
    waits = slices[~slices["ideal"] & (slices["kind"] == "wait") & (slices["track"] == "dp")]
    by_rank = waits.groupby("rank")["duration_ns"].sum()

    slow, healthy = trace.worker(1, 0), trace.worker(0, 0)
    assert by_rank.get(slow, 0) < by_rank[healthy]


def test_only_the_chosen_steps_are_shown(trace):
    chosen = range(int(trace.steps[1]), int(trace.steps[1]) + 1)

    assert set(chosen) == set(of_trace(trace, chosen).slices["step"])


def test_steps_that_are_not_there_are_refused_with_those_that_are(trace, archived):
    with pytest.raises(TimelineError, match=r"no operations of steps 90:99; it has those of steps"):
        of_trace(trace, range(90, 99))
    with pytest.raises(TimelineError, match=r"no operations of steps 90:99; it has those of steps"):
        of_run(archived, range(90, 99))


def test_without_a_model_the_actual_operations_are_shown_and_why_alone(archived):
    ops = archived.ops
    lacking = replace(archived, ops=ops[~((ops["optype"] == "optimizer") & (ops["rank"] > 0))])
    timeline = of_run(lacking, ALL)

    assert timeline.without_ideal
    assert not timeline.slices["ideal"].any()
    assert (
        timeline.without_ideal
        == json.loads("".join(timeline.parts()))["otherData"]["without_ideal"]
    )


def test_a_run_without_operations_has_no_timeline(trace):
    with pytest.raises(TimelineError, match=r"no operations; a timeline needs ops\.parquet"):
        of_run(run_of_trace(trace), ALL)


def test_names_from_a_file_are_text_and_no_json():
    row = {"rank": 0, "ideal": False, "track": 'a"b', "name": "</script>\n", "kind": "compute",
           "start_ns": 5, "duration_ns": 7, "step": 1, "micro_batch": -1, "chunk": -1, "bytes": -1,
           "sequence": -1}  # fmt: skip
    tree = json.loads("".join(events.document(pd.DataFrame([row]), (), {})))

    assert {"name": "</script>\n", "ts": 0.0, "dur": 0.007}.items() <= tree["traceEvents"][
        -1
    ].items()
    assert 5 == tree["otherData"]["begin_unix_ns"]


def test_slices_that_overlap_get_lanes_of_their_own():
    slices = pd.DataFrame(
        {"rank": 0, "ideal": False, "track": "dp", "start_ns": [0, 5, 10, 20],
         "duration_ns": [10, 10, 10, 5]}
    )  # fmt: skip

    assert [0, 1, 0, 0] == lanes(slices).tolist()


@pytest.mark.parametrize(
    ("numbers", "onset", "expected"),
    [
        (range(100), None, range(90, 100)),
        (range(100), 40, range(35, 45)),
        (range(100), 98, range(90, 100)),
        (range(100), 2, range(10)),
        (range(4), None, range(4)),
        ([*range(0, 1000, 100), *range(0, 1000, 100)], 500, range(901)),
    ],
)
def test_steps_around_an_onset_or_the_last_ones_are_shown(numbers, onset, expected):
    assert expected == steps_around(np.array(numbers), onset)
