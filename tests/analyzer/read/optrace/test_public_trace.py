"""A foreign op trace and its layout: what loads, as which windows, and what is refused and how."""

from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.read.optrace.load import load_trace, parse_layout, read_meta, run_of_trace
from lockstep.analyzer.read.optrace.planes import to_trace
from lockstep.analyzer.shapes.operations import Layout
from lockstep.analyzer.shapes.run import LoadError
from lockstep.analyzer.shapes.windows import COLUMNS, PHASE_COLUMNS
from lockstep.evaluation.synth import traces as synth

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


def _with(column, value):
    return lambda rows: rows.assign(**{column: rows[column].mask(_one(rows), value)})


REFUSED = {
    "holds no operations": lambda rows: rows.iloc[:0],
    "lacks the column seq_id, mc": lambda rows: rows.drop(columns=["seq_id", "mc"]),
    "must hold numbers": lambda rows: rows.assign(duration="long"),
    "must hold names": lambda rows: rows.assign(optype=rows["step"]),
    "no operation that Lockstep knows (its first is 'lunch')": (
        lambda rows: rows.assign(optype="lunch")
    ),
    "all are NaN": lambda rows: rows.assign(duration=np.nan),
    "forward-compute 1 of dp rank 1, stage 0 in step 15 more than once": (
        lambda rows: pd.concat([rows, rows[_one(rows)]])
    ),
    "time goes backwards: forward-compute 1 of dp rank 1, stage 0 in step 15": (
        _with("start_ts", 0.001)
    ),
    "forward-compute 1 of dp rank 1, stage 0 in step 15 ends before it begins": (
        _with("duration", -0.5)
    ),
    "vpp=4 would fit": _with("mc", 3),
    "operations of 3 workers; dp=2,pp=2 makes 4": (
        lambda rows: rows[~((rows["dp_rank"] == 1) & (rows["stage"] == 1))]
    ),
    "no step in which every replica has the same operations": (
        lambda rows: rows[~(rows["optype"].eq("gc") & rows["dp_rank"].eq(1))]
    ),
    "seq_id must be whole numbers from 0": _with("seq_id", -1),
    "stage must be whole numbers from 0": _with("stage", 0.5),
    "seq_id up to 1000000000": _with("seq_id", 10**9),
    "start_ts counts seconds since the step began": _with("start_ts", 1.7e9),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_no_trace_is_is_refused_in_a_sentence_that_names_it(rows, written, words):
    assert words in _refused(written, REFUSED[words](rows))


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


SCENE = synth.Scene(dp=2, pp=2, micro_batches=4, steps=6, slow=(synth.Slow(1, 0, 1.5),))


@pytest.fixture(scope="module")
def trace():
    return synth.trace(SCENE)


@pytest.fixture(scope="module")
def run(trace):
    return run_of_trace(trace)


def test_every_worker_has_a_window_a_step(run):
    assert list(COLUMNS) == list(run.windows)
    assert 2 * 2 * 6 == len(run.windows.drop_duplicates(["rank", "from_step"]))
    assert [(0, 0), (1, 0), (0, 1), (1, 1)] == [(info.dp, info.pp) for info in run.ranks]
    assert 4 == len({info.node for info in run.ranks})


def test_own_time_is_that_of_local_work(run, trace):
    rows = trace.of("forward-compute", "backward-compute", "optimizer", "gc")
    mine = run.windows.query("rank == 1 and from_step == 3").iloc[0]

    expected = trace.duration[rows & (trace.stage == 0), 1, 3].sum()
    assert pytest.approx(expected) == mine["own_seconds"]
    assert pytest.approx(trace.end[:, :, 3].max()) == mine["wall_seconds"]


def test_phases_are_all_of_a_step(run):
    phases = run.windows[list(PHASE_COLUMNS)].sum(axis=1)

    assert (phases >= run.windows["wall_seconds"] - 1e-9).all()


def test_it_aligns_like_any_run(run):
    grid = align(run)

    assert (6, 4) == grid.time["own"].shape
    assert 1.0 == grid.coverage
    own = grid.time["own"].mean(axis=0)
    assert pytest.approx(1.5, abs=0.05) == own[1] / own[0]
    assert np.isfinite(grid.time["wall"]).all()


# The layout in words and in a meta file.


def test_a_layout_in_words():
    assert Layout(4, 8, 2, 1, 3) == parse_layout("dp=4,pp=8,tp=2,dsp=1,vpp=3")
    assert Layout(dp=4) == parse_layout(" dp = 4 ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no part ''"),
        ("ep=2", "no part 'ep'"),
        ("dp=2,dp=3", "gives dp twice"),
        ("dp=0", "dp is '0'"),
        ("dp=-4", "dp is '-4'"),
        ("dp=two", "dp is 'two'"),
        ("dp", "dp is ''"),
        ("dp=99999999", "from 1 to 1000000"),
        ("dp=²", "dp is"),
        ("dp=" + "1" * 5000, "dp is '11111"),
    ],
)
def test_words_that_are_no_layout_are_refused(text, words):
    with pytest.raises(LoadError) as told:
        parse_layout(text)
    assert words in str(told.value)
    assert len(str(told.value)) < 200


def test_a_meta_file(tmp_path):
    path = tmp_path / "meta.yaml"
    path.write_text("trial_name: X\ndp_size: 4\npp_size: 2 # stages\ntp_size: 8\nworld_size: 64\n")

    assert Layout(dp=4, pp=2, tp=8) == read_meta(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tp_size: 2\n", "lacks dp_size and pp_size"),
        ("dp_size: 4\npp_size: many\n", "pp_size is 'many'"),
        ("dp_size: 4\npp_size: 2\nworld_size: 9\n", "world_size is 9, but dp · pp · tp · dsp is 8"),
    ],
)
def test_a_meta_file_that_contradicts_itself_is_refused(tmp_path, text, words):
    path = tmp_path / "meta.yaml"
    path.write_text(text)
    with pytest.raises(LoadError) as told:
        read_meta(path)
    assert words in str(told.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None])
def test_an_unreadable_meta_file_is_named(tmp_path, content):
    path = tmp_path / "meta.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LoadError, match=r"meta\.yaml is not a readable meta file"):
        read_meta(path)
