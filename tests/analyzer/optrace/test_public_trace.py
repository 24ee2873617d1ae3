"""A foreign op trace: what loads, and what is refused in one sentence."""

from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.read.optrace.layout import parse_layout
from lockstep.analyzer.read.optrace.load import load_trace
from lockstep.analyzer.read.optrace.planes import to_trace
from lockstep.analyzer.shapes.operations import Layout
from lockstep.analyzer.shapes.run import LoadError

LAYOUT = Layout(dp=2, pp=2, tp=2)


def _refused(written, rows, layout=LAYOUT):
    with pytest.raises(LoadError) as told:
        load_trace(written(rows), layout)
    sentence = str(told.value)
    assert "\n" not in sentence
    assert "nan" not in sentence.lower().replace("nan;", "").replace("all are nan", "")
    return sentence


def _one(rows, optype="forward-compute", seq=1, dp=1, stage=0, step=15):
    return (
        (rows["optype"] == optype)
        & (rows["seq_id"] == seq)
        & (rows["dp_rank"] == dp)
        & (rows["stage"] == stage)
        & (rows["step"] == step)
    )


def test_rows_become_arrays_by_operation_replica_and_step(rows, written):
    trace = load_trace(written(rows), LAYOUT)
    place = np.flatnonzero(trace.of("forward-compute") & (trace.seq == 1) & (trace.stage == 0))[0]
    row = rows[_one(rows)].iloc[0]

    assert [10, 15, 20] == trace.steps.tolist()
    assert (row["start_ts"], row["duration"]) == (
        trace.start[place, 1, 1],
        trace.duration[place, 1, 1],
    )
    assert 1 == trace.micro_batch[place]
    assert [[0, 4], [2, 6]] == trace.ranks.tolist()


def test_the_order_of_rows_does_not_matter(rows, written):
    shuffled = rows.sample(frac=1, random_state=3)
    one, other = load_trace(written(rows), LAYOUT), load_trace(written(shuffled), LAYOUT)

    assert one.optype.tolist() == other.optype.tolist()
    assert np.array_equal(one.start, other.start)


def test_without_a_layout_it_is_what_the_rows_show(rows, written):
    assert LAYOUT == load_trace(written(rows)).layout


def test_a_step_that_lacks_an_operation_is_left_out_and_told(rows, written):
    trace = load_trace(written(rows[~_one(rows)]), LAYOUT)

    assert [10, 20] == trace.steps.tolist()
    assert pytest.approx(2 / 3) == trace.coverage
    assert ("1 of 3 steps lack operations and are left out",) == trace.missing


def test_steps_with_another_number_of_micro_batches_are_left_out(rows, written):
    other = (rows["step"] == 20) & rows["optype"].isin(["forward-compute"]) & (rows["seq_id"] == 1)
    trace = load_trace(written(rows[~other]), LAYOUT)

    assert [10, 15] == trace.steps.tolist()
    assert "1 of 3 steps have another shape" in trace.missing[0]


def test_an_operation_without_times_makes_a_step_incomplete(rows, written):
    rows.loc[_one(rows), "duration"] = np.nan
    trace = load_trace(written(rows), LAYOUT)

    assert [10, 20] == trace.steps.tolist()
    assert np.isfinite(trace.duration).all()
    assert "1 operations have no times" == trace.missing[0]


def test_one_step_and_one_rank_load(rows, written):
    alone = rows[(rows["step"] == 10) & (rows["dp_rank"] == 0) & (rows["stage"] == 0)]

    assert (1, 1) == load_trace(written(alone), Layout()).start.shape[1:]


def test_micro_batches_that_differ_are_not_used(rows, written):
    rows.loc[_one(rows), "mb_id"] = 0
    trace = load_trace(written(rows), LAYOUT)

    assert [-1] == np.unique(trace.micro_batch).tolist()
    assert "micro-batch ids differ" in trace.missing[0]


def test_unknown_operations_are_left_out_and_told(rows, written):
    rows.loc[_one(rows, "gc", 0, 0, 0, 10), "optype"] = "coffee-break"
    trace = load_trace(written(rows), LAYOUT)

    assert "operations of unknown type are left out: coffee-break" == trace.missing[0]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(LoadError, match=r"none\.parquet does not exist"):
        load_trace(tmp_path / "none.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"step,rank\n1,2\n", b"PAR1" * 100])
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "ops.parquet"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=r"ops\.parquet is no whole Parquet file"):
        load_trace(path)


@settings(max_examples=20, deadline=None)
@given(share=st.floats(0, 0.999))
def test_a_truncated_file_is_refused(tmp_path_factory, share):
    folder = tmp_path_factory.mktemp("cut")
    pq.write_table(pa.table({"step": list(range(1000))}), folder / "whole.parquet")
    whole = (folder / "whole.parquet").read_bytes()
    (folder / "ops.parquet").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(LoadError, match="is no whole Parquet file"):
        load_trace(folder / "ops.parquet")


def test_no_rows_are_refused(rows, written):
    assert "holds no operations" in _refused(written, rows.iloc[:0])


def test_missing_columns_are_named(rows, written):
    sentence = _refused(written, rows.drop(columns=["seq_id", "mc"]))

    assert "lacks the column seq_id, mc" in sentence


@pytest.mark.parametrize(("column", "kind"), [("duration", "numbers"), ("optype", "names")])
def test_a_column_of_another_type_is_named(rows, written, column, kind):
    rows[column] = rows["step"] if column == "optype" else "long"

    assert f"must hold {kind}" in _refused(written, rows)


def test_a_foreign_table_with_our_columns_is_refused(rows, written):
    rows["optype"] = "lunch"

    assert "no operation that Lockstep knows (its first is 'lunch')" in _refused(written, rows)


def test_all_times_missing_is_refused(rows, written):
    assert "all are NaN" in _refused(written, rows.assign(duration=np.nan))


def test_an_operation_twice_is_named(rows, written):
    sentence = _refused(written, pd.concat([rows, rows[_one(rows)]]))

    assert "forward-compute 1 of dp rank 1, stage 0 in step 15 more than once" in sentence


def test_time_that_goes_backwards_is_named(rows, written):
    rows.loc[_one(rows), "start_ts"] = 0.001

    assert "time goes backwards: forward-compute 1 of dp rank 1, stage 0 in step 15" in _refused(
        written, rows
    )


def test_an_operation_that_ends_before_it_begins_is_named(rows, written):
    rows.loc[_one(rows), "duration"] = -0.5

    assert "forward-compute 1 of dp rank 1, stage 0 in step 15 ends before it begins" in _refused(
        written, rows
    )


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("dp=1,pp=2,tp=2", "dp=1, but"),
        ("dp=2,pp=1,tp=4", "pp=1, but"),
        ("dp=4,pp=2,tp=2", "no operations of dp_rank 2, 3"),
        ("dp=2,pp=3,tp=2", "no operations of stage 2"),
        ("dp=2,pp=2,tp=1", "the layout makes 4 ranks, but"),
    ],
)
def test_a_layout_that_contradicts_the_trace_is_refused(rows, written, layout, words):
    assert words in _refused(written, rows, parse_layout(layout))


def test_chunks_beyond_the_layout_are_refused(rows, written):
    rows.loc[_one(rows), "mc"] = 3

    assert "vpp=4 would fit" in _refused(written, rows)


def test_a_worker_that_told_nothing_is_refused(rows, written):
    silent = (rows["dp_rank"] == 1) & (rows["stage"] == 1)

    assert "operations of 3 workers; dp=2,pp=2 makes 4" in _refused(written, rows[~silent])


def test_no_whole_step_is_refused(rows, written):
    torn = rows["optype"].eq("gc") & rows["dp_rank"].eq(1)

    assert "no step in which every replica has the same operations" in _refused(
        written, rows[~torn]
    )


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("seq_id", -1, "seq_id must be whole numbers from 0"),
        ("stage", 0.5, "stage must be whole numbers from 0"),
        ("seq_id", 10**9, "seq_id up to 1000000000"),
        ("start_ts", 1.7e9, "start_ts counts seconds since the step began"),
    ],
)
def test_values_that_no_trace_has_are_refused(rows, written, column, value, words):
    rows[column] = rows[column].astype(float)
    rows.loc[_one(rows), column] = value

    assert words in _refused(written, rows)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_whatever_the_numbers_it_loads_or_says_why(healthy_rows, seed):
    dice = np.random.default_rng(seed)
    rows = healthy_rows.copy()
    for column in dice.choice(rows.columns, size=2):
        some = dice.random(len(rows)) < 0.05
        if column == "optype":
            rows.loc[some, column] = dice.choice(["gc", "optimizer", "", "x"])
        else:
            wild = dice.choice([-1, 0, 1, 3, 1e9, np.nan, np.inf, 2.5], size=len(rows))
            rows[column] = rows[column].astype(float).mask(some, wild)
    with suppress(LoadError):
        trace = to_trace(rows, None, "rows")
        assert np.isfinite(trace.start).all()
        assert (trace.duration >= 0).all()
