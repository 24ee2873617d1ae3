"""Operations of our own archives in the words of the model."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.operations.whatif.analysis import analyze
from lockstep.analyzer.read.optrace.fold import fold
from lockstep.analyzer.read.optrace.load import trace_of_run
from lockstep.analyzer.shapes.run import LoadError, Run
from lockstep.evaluation.synth import traces as synth

START = 1_700_000_000_000_000_000


def _op(optype, start, end, *, step=0, dp=0, stage=0, tp=0, seq=0, tag="", mb=-1, chunk=-1, gmc=-1):
    """A row of contract.archive.OPS; steps begin 10 s apart; dp 2, tp 2."""
    return {
        "dp_rank": dp, "stage": stage, "rank": (stage * 2 + dp) * 2 + tp, "step": step,
        "optype": optype, "start_ts": start, "duration": end - start, "seq_id": seq, "mc": chunk,
        "gmc": gmc, "mb_id": mb, "tp_rank": tp, "group": "", "sequence": 0, "bytes": 0,
        "start_ns": START + int(1e9 * (10 * step + start)),
        "end_ns": START + int(1e9 * (10 * step + end)), "flags": "", "tag": tag,
    }  # fmt: skip


def _folded(*ops):
    rows = fold(pd.DataFrame(ops))
    return {
        (one["optype"], one["stage"], one["dp_rank"], one["step"], one["seq_id"]): (
            round(one["start_ts"], 6),
            round(one["start_ts"] + one["duration"], 6),
        )
        for one in rows.to_dict("records")
    }


def _of(folded, optype):
    found = [times for (name, *_), times in sorted(folded.items()) if name == optype]
    assert found, optype
    return found[0] if len(found) == 1 else found


COMPUTE = _op("backward-compute", 0.5, 1.0, mb=0)
PIPELINE = _op("forward-compute", 0.0, 0.5, stage=1)
"""Anything on a second stage: then steps are not turned."""


def test_a_worker_begins_and_ends_with_the_last_of_its_tp_ranks():
    first = _op("forward-compute", 0.0, 1.0)
    second = _op("forward-compute", 0.1, 1.2, tp=1)

    assert (0.1, 1.2) == _of(_folded(first, second), "forward-compute")
    rows = fold(pd.DataFrame([first, second]))
    assert [0] == rows["rank"].tolist()


def test_an_operation_that_one_tp_rank_lacks_is_not_there():
    ops = [_op("forward-compute", 0.0, 1.0, tp=tp) for tp in (0, 1)]
    alone = _op("forward-compute", 1.0, 2.0, seq=1)

    assert 1 == len(_folded(*ops, alone))


def test_what_happens_inside_computation_is_not_told():
    assert [("backward-compute", 0, 0, 0, 0)] == list(
        _folded(COMPUTE, _op("tp-all-reduce", 0.6, 0.7), _op("world-broadcast", 0.0, 0.1))
    )


@pytest.mark.parametrize("optype", ["dp-all-reduce", "grads-reduce-scatter"])
def test_buckets_are_one_reduction_after_the_computation(optype):
    early = _op(optype, 0.8, 0.95, tag="grads.0.1")
    late = _op(optype, 0.9, 1.4, seq=1, tag="grads.0.0")

    assert (1.0, 1.4) == _of(_folded(COMPUTE, PIPELINE, early, late), "grads-reduce-scatter")


def test_the_optimizer_is_what_comes_after_the_collectives_inside_it():
    ops = [
        COMPUTE, PIPELINE, _op("optimizer", 1.0, 2.0),
        _op("optimizer-clip-main-grad", 1.1, 1.2), _op("optimizer-clip-main-grad", 1.2, 1.3, seq=1),
    ]  # fmt: skip
    folded = _folded(*ops)

    assert (1.1, 1.3) == _of(folded, "optimizer-clip-main-grad")
    assert (1.3, 2.0) == _of(folded, "optimizer")
    gathered = _folded(*ops, _op("params-all-gather", 1.4, 1.6))
    assert (1.6, 2.0) == _of(gathered, "optimizer")


def test_host_time_belongs_to_the_local_operation_beside_it():
    receive = _op("forward-recv", 0.1, 0.2, stage=1, tag="c0.m0", gmc=1)
    compute = _op("forward-compute", 0.3, 0.5, stage=1, gmc=1, mb=0)
    send = _op("backward-send", 0.6, 0.7, stage=1, tag="c0.m0", gmc=1)

    assert (0.2, 0.6) == _of(_folded(receive, compute, send), "forward-compute")


def test_a_send_that_nobody_waited_for_ends_with_its_receive():
    compute = _op("forward-compute", 0.0, 0.2, gmc=0, mb=3)
    send = _op("forward-send", 0.2, 0.9, gmc=0, tag="c0.m3")
    receive = _op("forward-recv", 0.1, 0.3, stage=1, gmc=1, tag="c0.m3")
    folded = _folded(compute, send, receive)

    assert (0.2, 0.3) == _of(folded, "forward-send")
    assert (0.1, 0.3) == _of(folded, "forward-recv")


def test_a_receive_that_was_there_before_anybody_looked_came_at_once():
    send = _op("forward-send", 0.2, 0.9, gmc=0, tag="c0.m3")
    receive = _op("forward-recv", 0.1, 0.8001, stage=1, gmc=1, tag="c0.m3")
    between = _op("forward-compute", 0.15, 0.8, stage=1, gmc=1, mb=2)

    assert (0.1, 0.2) == _of(_folded(send, receive, between), "forward-recv")


def test_transfers_tell_their_micro_batch_in_the_tag():
    rows = fold(pd.DataFrame([COMPUTE, _op("forward-send", 0.1, 0.2, gmc=0, tag="c0.m12")]))

    assert {0, 12} == set(rows["mb_id"])


def test_garbage_is_collected_in_no_time_in_the_other_steps():
    other = COMPUTE | {"step": 1, "start_ns": START + 10**10}
    folded = _folded(COMPUTE, PIPELINE, other, _op("gc", 1.0, 1.3))

    assert (1.0, 1.3) == folded["gc", 0, 0, 0, 0]
    assert (1.0, 1.0) == folded["gc", 0, 0, 1, 0]


def test_of_a_step_that_ran_twice_the_later_counts():
    again = COMPUTE | {"duration": 0.7, "start_ns": START + 10**12}

    assert (0.5, 1.2) == _of(_folded(again, COMPUTE), "backward-compute")


def test_without_a_pipeline_a_step_begins_with_the_optimizer_before():
    ops = [
        one
        for step in (0, 1)
        for dp in (0, 1)
        for one in (
            _op("forward-compute", 0.1, 0.5, step=step, dp=dp),
            _op("dp-all-reduce", 0.5, 0.8 + 0.01 * dp, step=step, dp=dp),
            _op("optimizer", 0.9, 1.0, step=step, dp=dp),
        )
    ]
    folded = _folded(*ops)

    assert {1} == {step for _, _, _, step, _ in folded}
    assert (0.1, 0.2) == folded["optimizer", 0, 0, 1, 0]
    assert (0.2, 9.7) == folded["forward-compute", 0, 0, 1, 0]
    assert (9.7, 10.01) == folded["grads-reduce-scatter", 0, 1, 1, 0]


def test_without_a_pipeline_clipping_is_part_of_the_optimizer():
    clip = _op("optimizer-clip-main-grad", 1.1, 1.2)
    folded = _folded(COMPUTE, _op("optimizer", 1.0, 2.0), clip)

    assert (1.0, 2.0) == _of(folded, "optimizer")
    assert not any(name == "optimizer-clip-main-grad" for name, *_ in folded)


def test_every_layout_without_a_pipeline_simulates_to_the_very_times_it_was_recorded_with():
    """Garbage that takes no time stands before the loading of data that begins with it."""
    ops = []
    for step, dp, tp in np.ndindex(8, 2, 2):
        late = 0.02 * dp + 0.01 * tp + 0.005 * ((step + dp) % 3)
        last = step in (2, 5)
        times = {
            "data-load": (0.0, 0.1 + late), "forward-compute": (0.1 + late, 0.3 + late),
            "backward-compute": (0.3 + late, 0.7 + late),
            "dp-all-reduce": (0.7 + late, 0.8), "optimizer": (0.8, 0.9),
            **({"gc": (0.9, 0.95)} if last else {}),
        }  # fmt: skip
        ops += [
            _op(name, *when, step=step, dp=dp, tp=tp, mb=0 if "compute" in name else -1)
            for name, when in times.items()
        ]
    trace = trace_of_run(_run(pd.DataFrame(ops), meta={"layout": {"dp": 2, "pp": 1, "tp": 2}}))
    found = analyze(trace)

    assert found.trust.launched == pytest.approx(found.trust.traced, rel=1e-9)


def _run(ops, tags=(), meta=None, wall=np.nan):
    steps = sorted(set(ops["step"])) if len(ops) else []
    windows = pd.DataFrame(
        {
            "from_step": steps,
            "tags": [tags[step] if step < len(tags) else "" for step in steps],
            "wall_seconds": [wall] * len(steps),
        }
    )
    return Run("made-up", meta or {}, (), windows, pd.DataFrame(), ops)


def _archive(trace, tp=2):
    """What such a run would have recorded: every worker as tp ranks, transfers with their tags."""
    transfer = np.char.endswith(trace.optype, "-send") | np.char.endswith(trace.optype, "-recv")
    rows = [
        _op(
            str(trace.optype[op]), trace.start[op, dp, step], trace.end[op, dp, step],
            step=step, dp=dp, stage=int(trace.stage[op]), tp=rank, seq=int(trace.seq[op]),
            tag=f"c{trace.chunk[op]}.m{trace.micro_batch[op]}" if transfer[op] else "",
            mb=-1 if transfer[op] else int(trace.micro_batch[op]), chunk=int(trace.chunk[op]),
            gmc=int(trace.global_chunk[op]),
        )
        for op, dp, step in np.ndindex(trace.start.shape)
        for rank in range(tp)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def scene():
    return synth.Scene(
        dp=2, pp=2, vpp=2, micro_batches=4, steps=6, slow=(synth.Slow(1, 0, 1.4),), seed=3
    )


@pytest.fixture(scope="module")
def archive(scene):
    ops = _archive(synth.trace(scene))
    return ops[ops["optype"] != "params-all-gather"]


def test_a_slow_worker_of_an_archive_is_the_first_to_fix(archive):
    trace = trace_of_run(_run(archive, meta={"layout": {"dp": 2, "pp": 2, "tp": 2}}))
    first = analyze(trace).candidates[0]

    assert 6 == len(trace.steps)
    assert (1, 0) == (first.dp, first.stage)
    assert 0.1 < first.gain


def test_steps_that_are_slow_by_design_are_left_out(archive):
    trace = trace_of_run(_run(archive, tags=("warmup", "warmup,gc", "gc", "checkpoint"), wall=5.0))

    assert [2, 4, 5] == trace.steps.tolist()
    assert "3 steps are slow by design and left out" in trace.missing
    assert [5.0] * 3 == trace.observed.tolist()


@pytest.mark.parametrize(
    ("ops", "tags", "words"),
    [
        (None, (), "has no operations"),
        (slice(0, 0), (), "has no operations"),
        (slice(None), ("warmup",) * 6, "only of steps that are slow by design"),
    ],
)
def test_an_archive_without_usable_operations_says_so(archive, ops, tags, words):
    run = _run(archive.iloc[ops] if ops is not None else archive.iloc[:0], tags)
    with pytest.raises(LoadError, match=words):
        trace_of_run(run)


def _small(stages):
    scene = synth.Scene(dp=2, pp=stages, micro_batches=2, steps=2, seed=1)
    ops = _archive(synth.trace(scene), tp=1)
    return ops.astype({"start_ns": float, "end_ns": float})


SMALL = {stages: _small(stages) for stages in (1, 2)}
TIMES = ("start_ts", "duration", "start_ns", "end_ns")


@settings(max_examples=24)
@given(
    stages=st.sampled_from(sorted(SMALL)),
    name=st.sampled_from(TIMES),
    value=st.sampled_from((np.nan, np.inf, -np.inf)),
    row=st.integers(0, 10_000),
)
def test_any_one_time_that_is_no_number_is_refused_or_left_out(stages, name, value, row):
    ops = SMALL[stages].copy()
    ops.loc[row % len(ops), name] = value
    try:
        trace = trace_of_run(_run(ops))
    except LoadError:
        return
    assert np.isfinite(trace.start).all()
    assert np.isfinite(trace.duration).all()
    assert name == "end_ns" or any("1 operations have no times" in one for one in trace.missing)


def test_an_archive_without_any_time_says_so(archive):
    with pytest.raises(LoadError, match="no operation with a start and a duration; all are NaN"):
        trace_of_run(_run(archive.assign(duration=np.nan)))


@pytest.mark.parametrize(
    "ops",
    [
        [_op("tp-all-reduce", 0.0, 0.1)],
        [COMPUTE, _op("grads-reduce-scatter", 1.0, 1.1), _op("optimizer", 1.1, 1.2)],
    ],
)
def test_operations_of_no_whole_step_are_refused(ops):
    with pytest.raises(LoadError, match="no whole step of operations that the model knows"):
        trace_of_run(_run(pd.DataFrame(ops)))


@pytest.mark.parametrize(
    ("clock", "error"),
    [
        ({"offset_error_seconds": 0.002}, 0.002),
        ({"offset_error_seconds": None}, 0.0),
        ({"offset_error_seconds": float("nan")}, 0.0),
        ({"offset_error_seconds": "-1"}, 0.0),
        ({"offset_error_seconds": 10**400}, 0.0),
        ("x", 0.0),
        (None, 0.0),
    ],
)
def test_how_well_the_clocks_agree_comes_with_the_archive(archive, clock, error):
    assert error == trace_of_run(_run(archive, meta={"clock": clock})).clock_error


def test_a_layout_that_is_no_mapping_is_as_none(archive):
    assert (
        trace_of_run(_run(archive)).layout
        == trace_of_run(_run(archive, meta={"layout": "dp"})).layout
    )
