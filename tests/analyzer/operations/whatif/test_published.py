"""The published results of a real trace (docs/method/what-if.md; artefact of OSDI'25)."""

import json

import numpy as np
import pytest

from lockstep.analyzer.operations.whatif.analysis import analyze
from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.simulate import simulate
from lockstep.analyzer.operations.whatif.work import split_durations
from lockstep.analyzer.read.optrace.load import parse_layout
from lockstep.analyzer.shapes.operations import Layout
from tests.analyzer.edited import healed, slowed

RELATIVE = 1e-6
ABSOLUTE = 1e-6


@pytest.fixture(scope="module")
def found(published_trace):
    return analyze(published_trace)


@pytest.fixture(scope="module")
def healthy(published_trace):
    return healed(published_trace)


def _published(folder, name):
    return json.loads((folder / f"{name}-AR.json").read_text())


def _near(values):
    return pytest.approx(values, rel=RELATIVE)


def _by_step(trace, told):
    """Published per-step values in the trace's order of steps."""
    return [told[str(step)] for step in trace.steps]


def test_the_trace_is_whole(published_trace):
    assert parse_layout("dp=4,pp=4,tp=4,dsp=1,vpp=1") == published_trace.layout
    assert 117_216 == published_trace.start.size
    assert (1.0, ()) == (published_trace.coverage, published_trace.missing)
    assert 16 * 3 + 4 * 2 == published_trace.worker(dp=2, stage=3)


def test_without_a_layout_the_trace_tells_it(published_folder):
    from lockstep.analyzer.read.optrace.load import load_trace

    assert Layout(4, 4, 4) == load_trace(published_folder / "trace-AR.parquet").layout


def test_s_and_its_parts_are_the_published_ones(found, published_folder):
    told = _published(published_folder, "result")
    slow = found.published

    assert _near(told["blocking_slowdown"]) == slow.s
    assert _near(told["launch_slowdown"]) == found.trust.launch_error
    assert told["blocking_decompose_by_optype"].keys() == slow.s_types.keys()
    assert _near(told["blocking_decompose_by_optype"]) == slow.s_types
    assert _near(told["blocking_decompose_by_dp_rank"]) == _numbered(slow.s_dp)
    assert _near(told["blocking_decompose_by_stage"]) == _numbered(slow.s_pp)


def test_every_step_has_the_published_values(found, published_folder, published_trace):
    told = _published(published_folder, "result")
    slow = found.published

    base = _by_step(published_trace, told["step_t_base"])
    assert _near(base) == found.trust.launched
    assert _near(_by_step(published_trace, told["step_t_nodelay"])) == slow.simulated
    steps = _by_step(published_trace, told["blocking_step_slowdown"])
    assert _near(steps) == slow.s_steps
    for kind, times in (("dp_rank", slow.by_dp), ("stage", slow.by_stage)):
        each = _by_step(published_trace, told[f"blocking_decompose_by_{kind}_per_step"])
        for step, values in enumerate(each):
            assert _near(values) == _numbered(times[:, step] / slow.ideal)
    each = _by_step(published_trace, told["blocking_decompose_by_optype_per_step"])
    for step, values in enumerate(each):
        assert _near(values) == {name: t[step] / slow.ideal for name, t in slow.by_type.items()}


@pytest.mark.parametrize(("name", "part"), [("mw", "worst"), ("ms", "last_stage")])
def test_attributions_are_the_published_ones(found, published_folder, name, part):
    told = _published(published_folder, name)
    attribution = getattr(found.published, part)

    assert pytest.approx(told["rem"], abs=ABSOLUTE) == attribution.rem
    assert pytest.approx(told["add"], abs=ABSOLUTE) == attribution.add
    assert _near(told["trem"]) == attribution.fixed.mean()
    assert _near(told["tadd"]) == attribution.only.mean()


def test_the_slowed_worker_is_the_first_to_fix(found):
    assert ((0, 0),) == found.published.worst.workers
    first, second = found.candidates[:2]

    assert (0, 0) == (first.dp, first.stage)
    assert first.gain == pytest.approx(0.506, abs=0.001)
    assert first.interval[0] > 0.5
    assert abs(second.gain) < 0.001


def test_with_every_delay_kept_the_simulator_returns_the_traced_steps(found):
    assert found.trust.self_check < 1e-12


def test_healed_it_is_structure_and_not_slowness(healthy):
    found = analyze(healthy)

    assert pytest.approx(22.90, abs=0.01) == found.trust.simulated.mean()
    assert pytest.approx(1.055, abs=0.001) == found.s
    assert 1.01 > found.s_strata
    assert all(one.gain < 0.003 for one in found.candidates)


@pytest.mark.parametrize(
    ("factor", "percent"),
    [(1.02, [0.02, 0.04, 0.07, 1.38]), (1.1, [3.3, 4.0, 4.0, 8.3])],
)
def test_slack_hides_a_slow_worker_as_measured(healthy, factor, percent):
    graph = build(healthy)
    base = simulate(graph, split_durations(healthy, graph).own).mean()
    times = [
        simulate(graph, split_durations(slowed(healthy, 1, stage, factor), graph).own).mean()
        for stage in range(4)
    ]

    assert pytest.approx(percent, abs=0.06) == [100 * (time / base - 1) for time in times]


def _numbered(values):
    return {str(number): value for number, value in enumerate(np.asarray(values))}
