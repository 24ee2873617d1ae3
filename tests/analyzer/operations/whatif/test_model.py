"""What waits for what, and how long a step takes then."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import ModelError, Unit, sort
from lockstep.analyzer.operations.whatif.simulate import simulate, timeline
from lockstep.analyzer.operations.whatif.work import launch_delay, split_durations
from lockstep.analyzer.shapes.operations import program
from lockstep.evaluation.synth import traces as synth

FIELDS = ["optype", "seq", "stage", "chunk", "global_chunk", "micro_batch"]
LAYOUTS = [
    {"dp": 2, "pp": 1},
    {"dp": 1, "pp": 3},
    {"dp": 4, "pp": 4},
    {"dp": 3, "pp": 8, "micro_batches": 9},
    {"dp": 2, "pp": 8, "micro_batches": 3},
    {"dp": 2, "pp": 2, "vpp": 2},
    {"dp": 2, "pp": 4, "vpp": 3},
]


def _trace(steps=3, **layout):
    return synth.trace(synth.Scene(steps=steps, noise=0.2, lengths=2.0, seed=7, **layout))


def _names(trace, ops):
    return {f"{trace.optype[op]} {trace.seq[op]} @{trace.stage[op]}" for op in ops}


def _before(trace, name):
    graph = build(trace)
    op = next(op for op in range(len(trace.optype)) if _names(trace, [op]) == {name})
    return _names(trace, graph.before[op])


@pytest.fixture(scope="module")
def small():
    return _trace(dp=2, pp=2, micro_batches=2)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_trace_that_the_simulator_made_is_simulated_as_it_was(layout):
    trace = _trace(**layout)
    graph = build(trace)
    work = split_durations(trace, graph)
    traced = trace.end.max(axis=(0, 1))

    assert pytest.approx(traced, rel=1e-12) == simulate(graph, work.own)
    assert np.abs(launch_delay(trace, graph)).max() < 1e-9
    assert work.blocking.min() >= 0


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_one_operation_at_a_time_gives_the_same(layout):
    trace = _trace(**layout)
    graph = build(trace)
    own = split_durations(trace, graph).own

    assert pytest.approx(_naive(graph, own), rel=1e-12) == simulate(graph, own)


def test_transfers_that_tell_only_their_chunk_are_counted():
    trace = _trace(dp=2, pp=4, vpp=2)
    silent = replace(trace, micro_batch=np.where(
        trace.of("forward-compute", "backward-compute"), trace.micro_batch, -1
    ))  # fmt: skip

    assert build(trace) == build(silent)


def test_launch_delays_come_back(small):
    graph = build(small)
    late = small.start + 0.01 * np.arange(len(small.optype))[:, None, None]
    delayed = replace(small, start=late)
    delay = launch_delay(delayed, graph)
    work = split_durations(delayed, graph)

    times = timeline(graph, work.own, delay)
    assert delay.min() < 0.02 < delay.max()
    assert simulate(graph, work.own).mean() < times.end.max(axis=(0, 1)).mean()


def test_computation_is_one_stream_and_waits_for_its_transfer(small):
    assert {"forward-recv 1 @1", "backward-compute 0 @1"} == _before(small, "forward-compute 1 @1")
    assert {"forward-compute 1 @0", "backward-recv 0 @0"} == _before(small, "backward-compute 0 @0")
    assert {"forward-recv 0 @1", "forward-compute 0 @1"} == _before(small, "forward-recv 1 @1")
    assert {"forward-send 0 @0", "forward-compute 1 @0"} == _before(small, "forward-send 1 @0")


def test_the_first_backward_transfer_waits_for_the_computation_two_before(small):
    trace = _trace(dp=2, pp=3, micro_batches=4)

    assert {"forward-compute 1 @0"} == _before(trace, "backward-recv 0 @0")
    assert {"forward-compute 0 @0"} == _before(small, "backward-recv 0 @0")
    assert {"backward-compute 0 @1"} == _before(small, "backward-send 0 @1")


def test_parameters_come_before_the_first_forward_of_their_chunk():
    trace = _trace(dp=2, pp=2, vpp=2, micro_batches=2)

    assert "params-all-gather 0 @0" in _before(trace, "forward-compute 0 @0")
    assert "params-all-gather 1 @0" in _before(trace, "forward-compute 2 @0")


def test_the_end_of_a_step_is_in_order(small):
    order = [
        "gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce", "grads-reduce-scatter",
        "optimizer-clip-main-grad", "optimizer",
    ]  # fmt: skip
    before = "backward-compute 1 @0"
    for name in order:
        assert before in _before(small, f"{name} 0 @0")
        before = f"{name} 0 @0"
    assert _names(small, build(small).last) == {"optimizer 0 @0", "optimizer 0 @1"}


def test_overlapped_gradients_follow_the_last_backward_of_their_chunk():
    trace = _trace(dp=2, pp=2, vpp=2, micro_batches=2)
    names = [*FIELDS, "start", "duration"]
    late = trace.of("grads-reduce-scatter")
    separate = {name: getattr(trace, name)[late & (trace.chunk == 0)] for name in names}
    separate["optype"] = np.full(len(separate["seq"]), "separate-grads-all-reduce")
    separate["start"] = separate["start"] + 0.1
    graph = build(_with(trace, separate))
    extra = _with(trace, separate)
    for chunk in range(2):
        op = next(iter(np.flatnonzero(
            extra.of("grads-reduce-scatter") & (extra.stage == 0) & (extra.chunk == chunk)
        )))  # fmt: skip
        last = np.flatnonzero(
            extra.of("backward-compute") & (extra.stage == 0) & (extra.chunk == chunk)
        )[-1]
        assert last in graph.before[op]
    assert "separate-grads-all-reduce 0 @0" in _before(extra, "optimizer-clip-main-grad 0 @0")
    assert "grads-reduce-scatter 1 @0" in _before(extra, "layernorm-grads-all-reduce 0 @0")


def test_a_receive_that_was_never_launched_is_nobodys(small):
    """Recorded after the last computation of its direction: it must not pair with a send."""
    row = np.flatnonzero(small.of("forward-recv"))[-1:]
    late = {name: getattr(small, name)[row] for name in [*FIELDS, "start", "duration"]}
    late |= {"seq": late["seq"] + 1, "start": late["start"] + 50}
    graph = build(_with(small, late))
    alone = [unit for unit in graph.units if len(small.optype) in unit.members]

    assert [Unit((len(small.optype),), grouped=True, replicas=False)] == alone


def test_blocking_is_what_the_others_were_waited_for():
    scene = synth.Scene(dp=2, pp=1, micro_batches=2, steps=3, noise=0.0)
    trace = synth.trace(replace(scene, slow=(synth.Slow(1, 0, 2.0),)))
    scatter = trace.of("grads-reduce-scatter")
    blocking = split_durations(trace, build(trace)).blocking[scatter][0]

    assert pytest.approx(np.full(3, 2 * 0.6)) == blocking[0]
    assert pytest.approx(np.zeros(3)) == blocking[1]


def test_operations_in_a_circle_are_refused():
    units = [Unit((0,), False, False), Unit((1,), False, False)]

    with pytest.raises(ModelError, match="2 operations of a step wait for each other in a circle"):
        sort([(1,), (0,)], units)


def test_stages_without_transfers_between_them_are_refused(small):
    alone = ~small.of("forward-send", "forward-recv", "backward-send", "backward-recv",
                      "embedding-grads-all-reduce", "optimizer-clip-main-grad")  # fmt: skip
    with pytest.raises(ModelError, match="sends and receives between stages are missing"):
        build(_rows(small, alone))


def test_a_stage_without_computation_is_refused(small):
    idle = small.of("forward-compute", "backward-compute") & (small.stage == 1)
    with pytest.raises(ModelError, match="stage 1 has neither"):
        build(_rows(small, ~idle))


def test_an_operation_without_a_place_is_refused(small):
    with pytest.raises(ModelError, match="no place for the operation tp-all-reduce"):
        build(replace(small, optype=np.where(small.of("gc"), "tp-all-reduce", small.optype)))


def test_interleaving_needs_multiples_of_the_stages():
    with pytest.raises(ValueError, match="3 micro-batches do not divide by 2 stages"):
        program(0, 2, 2, 3, dp=1)


def _rows(trace, kept):
    names = [*FIELDS, "start", "duration"]
    return replace(trace, **{name: getattr(trace, name)[kept] for name in names})


def _with(trace, rows):
    """With more operations, numbered by stage and start again."""
    joined = {name: np.concatenate([getattr(trace, name), values]) for name, values in rows.items()}
    order = np.lexsort((joined["seq"], joined["start"][:, 0, 0], joined["stage"]))
    return replace(trace, **{name: values[order] for name, values in joined.items()})


def _naive(graph, own):
    """One operation of one replica in one step after the other."""
    _, replicas, steps = own.shape
    found = []
    for step in range(steps):
        end = {}
        for unit in graph.units:
            start = {
                (op, dp): max((end[other, dp] for other in graph.before[op]), default=0.0)
                for op in unit.members
                for dp in range(replicas)
            }
            for op, dp in start:
                peers = range(replicas) if unit.replicas else (dp,)
                latest = max(start[member, peer] for member in unit.members for peer in peers)
                end[op, dp] = latest + own[op, dp, step]
        found.append(max(end[op, dp] for op in graph.last for dp in range(replicas)))
    return found
