"""Programs of others whose ranks have different work by design, and places that are slow there."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.shapes.run import Run
from lockstep.analyzer.stragglers.confidence import surely_slower
from lockstep.analyzer.stragglers.model.roles import with_roles
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import EXTERNAL_PROGRAM

LAST = None


@pytest.fixture
def program(synthetic):
    """`program(faults, {rank: times the usual work})`: a run of `--exec`, on CPUs or GPUs."""

    def make(faults=(), work=(), *, world=4, gpus=False, ends=LAST, external=True) -> Run:
        run = synthetic(world=world, gpus=gpus, faults=faults).run()
        run = with_work(run, dict(work), ends)
        meta = {**run.meta, "workload": EXTERNAL_PROGRAM if external else "gpt"}
        return dataclasses.replace(run, meta=meta)

    return make


def with_work(run: Run, times: dict[int, float], ends: int | None = None) -> Run:
    """With so many times the own time of some ranks up to a step; whoever is not last waits."""
    windows = run.windows.copy()
    for rank, factor in times.items():
        mine = windows["rank"] == rank
        if ends is not None:
            mine &= windows["from_step"] < ends
        windows.loc[mine, "own_seconds"] *= factor
        windows.loc[mine, "other_seconds"] += windows.loc[mine, "own_seconds"] * (1 - 1 / factor)
    longest = windows.groupby("from_step")["own_seconds"].transform("max")
    waited = longest - windows["own_seconds"]
    return dataclasses.replace(run, windows=windows.assign(
        wall_seconds=longest + 0.002, collective_seconds=waited + 0.002,
        grad_sync_seconds=waited + 0.002,
    ))  # fmt: skip


def with_gpu(run: Run, rank: int, *, clock: float = 1.0, busy: float | None = 1.0) -> Run:
    """With a rank's SM clock and utilisation times so much since the start; None: untold."""
    samples = run.samples
    mine = samples["node"] == f"node-{rank}"
    hertz = mine & (samples["metric"] == "lockstep_gpu_clock_hertz")
    share = mine & (samples["metric"] == "lockstep_gpu_utilization_ratio")
    value = samples["value"].where(~hertz, samples["value"] * clock)
    samples = samples.assign(value=value.where(~share, value * (busy or 0.0)))
    return dataclasses.replace(run, samples=samples if busy is not None else samples[~share])


def named(run: Run) -> list[int | None]:
    return [one.rank for one in diagnose(run).verdict.culprits]


@pytest.mark.parametrize("work", [{0: 2.6}, {0: 0.6, 2: 1.5, 3: 2.2}, {2: 1.4}])
def test_work_that_differs_since_the_start_names_nobody_and_is_structure(program, work):
    verdict = diagnose(program(work=work)).verdict

    assert ((), "unknown") == (verdict.culprits, verdict.status)
    assert ["role-imbalance"] == [one["kind"] for one in verdict.structure]
    assert f"rank {max(work)} (" in str(verdict.structure[0]["text"])
    assert "by design, or slow since the start" in str(verdict.structure[0]["text"])


def test_of_a_reference_run_all_replicas_do_the_same_and_who_always_is_slow_is_named(program):
    assert [2] == named(program(work={2: 1.6}, external=False))


def test_where_half_of_the_replicas_always_are_slow_nobody_is_named(program):
    verdict = diagnose(program(work=dict.fromkeys(range(4), 1.3), world=8, external=False)).verdict

    assert ((), "unknown") == (verdict.culprits, verdict.status)
    assert ["role-imbalance"] == [one["kind"] for one in verdict.structure]
    assert [0, 1] == sorted(named(program(work={0: 1.3, 1: 1.3}, world=8, external=False)))


def test_a_rank_is_of_a_foreign_program_where_its_page_says_so(program):
    run = program(work={2: 1.6}, external=False)
    ranks = tuple(dataclasses.replace(info, external=True) for info in run.ranks)

    assert [] == named(dataclasses.replace(run, ranks=ranks))


@pytest.mark.parametrize(
    ("work", "slow"), [({0: 2.6}, 2), ({0: 2.6}, 0), ({0: 0.6, 2: 1.5, 3: 2.2}, 0), ({3: 1.4}, 1)]
)
def test_who_becomes_slow_beside_such_work_is_named_and_nobody_else(program, fault, work, slow):
    assert [slow] == named(program([fault("compute", slow, 1.7, 120)], work))


def test_a_small_change_where_work_differs_by_role_may_be_the_work_and_names_nobody(program, fault):
    few = [fault("compute", 1, 1.12, 120)]

    assert [] == named(program(few, {0: 2.6}))
    assert [1] == named(program(few))


@pytest.mark.parametrize("kind", ["thermal", "power"])
def test_a_gpu_that_is_held_back_since_the_start_is_named_by_its_hardware(program, fault, kind):
    faults = [fault(kind, 1, 1.5, 1)]
    for work in ({}, {3: 1.8}, {1: 0.5, 3: 1.8}):
        verdict = diagnose(program(faults, work, gpus=True)).verdict

        assert [(1, kind)] == [(one.rank, one.cause) for one in verdict.culprits]


@pytest.mark.parametrize("external", [True, False])
def test_a_small_part_is_its_nature_unless_its_pcie_link_always_had_fewer_lanes(program, external):
    run = program(work={1: 1.12}, gpus=True, external=external)
    mine = run.samples["node"] == "node-1"
    lanes = mine & (run.samples["metric"] == "lockstep_gpu_pcie_link_width")
    value = run.samples["value"].where(~lanes, 4.0)
    narrow = dataclasses.replace(run, samples=run.samples.assign(value=value))

    assert lanes.any()
    assert [] == named(run)
    assert [1] == named(narrow)


@pytest.mark.parametrize("work", [{0: 1.67}, {}, {0: 0.3}, {0: 1.67, 3: 2.6}])
def test_a_busy_gpu_with_a_low_clock_since_the_start_is_named_though_nothing_throttles_it(
    program, work
):
    verdict = diagnose(with_gpu(program(work=work, gpus=True), 0, clock=0.6)).verdict
    (culprit,) = verdict.culprits

    assert ("degraded", 0) == (verdict.status, culprit.rank)
    assert 1.67 == pytest.approx(culprit.slowdown, rel=0.01)
    assert "rank 0" not in "".join(str(one["text"]) for one in verdict.structure)


@pytest.mark.parametrize(("clock", "busy"), [(0.6, None), (0.95, 1.0)])
def test_a_low_clock_that_does_not_tell_enough_names_nobody_and_is_not_called_well(
    program, clock, busy
):
    run = with_gpu(program(work={0: 1.67}, gpus=True), 0, clock=clock, busy=busy)
    verdict = diagnose(run).verdict

    assert ((), "unknown") == (verdict.culprits, verdict.status)
    assert "nothing says that hardware is slow" not in str(verdict.structure[0]["text"])


@pytest.mark.parametrize(("work", "longer"), [({}, False), ({0: 0.3}, False), ({3: 2.6}, True)])
def test_of_a_low_clock_nobody_says_that_its_rank_took_longer(program, work, longer):
    run = with_gpu(program(work=work, gpus=True), 0, clock=0.6, busy=0.2)
    (structure,) = diagnose(run).verdict.structure
    times, _, clocks = str(structure["text"]).rpartition("the GPU of ")

    assert clocks.startswith("rank 0 (1/1.67) had a lower clock than its peers in all steps seen")
    assert "rank 0" not in times
    assert "took longer" not in clocks
    assert longer == ("rank 3 (2.6" in times)


def test_where_all_hardware_is_well_it_is_by_design_and_the_run_healthy(program):
    verdict = diagnose(program(work={0: 2.6}, gpus=True)).verdict

    assert ((), "healthy") == (verdict.culprits, verdict.status)
    assert "nothing says that hardware is slow" in str(verdict.structure[0]["text"])


def test_what_comes_again_and_again_since_the_start_names_nobody(program):
    run = program()
    windows = run.windows.copy()
    mine = (windows["rank"] == 0) & (windows["from_step"] % 4 == 3)
    windows.loc[mine, ["own_seconds", "wall_seconds", "other_seconds"]] += 0.15
    again = dataclasses.replace(run, windows=windows)

    assert [] == named(again)
    assert [0] == named(dataclasses.replace(again, meta={**run.meta, "workload": "gpt"}))


def test_replicas_that_do_the_same_have_one_role(program, fault):
    run = program([fault("compute", 2, 1.7, 120)], world=8)

    assert {0} == {info.role for info in with_roles(align(run)).ranks}


def test_roles_are_those_of_the_beginning(program, fault):
    grid = align(program([fault("compute", 2, 3.0, 120)], {0: 2.6, 3: 2.6}))

    assert [1, 0, 0, 1] == [info.role for info in with_roles(grid).ranks]


def test_nobody_is_named_whose_own_interval_holds_1(program, fault):
    found = diagnose(program([fault("compute", 2, 1.7, 120)], external=False)).findings
    (slow,) = (one for one in found if one.kind == "slow")
    doubtful = dataclasses.replace(slow, slowdown=1.04, interval=(0.96, 1.13))
    (kept, let_go) = surely_slower([slow, dataclasses.replace(doubtful, rank=3)])

    assert (slow, "unplaced") == (kept, let_go.kind)
    assert "holds 1.00" in let_go.text
    assert np.isfinite(let_go.slowdown)


def test_what_begins_to_come_again_and_again_in_the_middle_is_named(program):
    run = program()
    windows = run.windows.copy()
    mine = (windows["rank"] == 1) & (windows["from_step"] % 4 == 3) & (windows["from_step"] > 100)
    mine |= (windows["rank"] == 1) & (windows["from_step"] == 20)
    windows.loc[mine, ["own_seconds", "wall_seconds", "other_seconds"]] += 0.15

    assert [1] == named(dataclasses.replace(run, windows=windows))


def test_a_stage_that_is_heavier_on_all_its_replicas_is_no_role_of_one_of_them(program):
    run = program(work=dict.fromkeys(range(4, 8), 1.6), world=8)
    ranks = (dataclasses.replace(info, pp=info.rank // 4, dp=info.rank % 4) for info in run.ranks)
    verdict = diagnose(dataclasses.replace(run, ranks=tuple(ranks))).verdict

    assert ((), ()) == (verdict.culprits, verdict.structure)
    assert "healthy" == verdict.status


def test_in_a_part_of_a_run_nothing_is_by_design_as_its_start_was_not_seen(program):
    run = program(work={0: 2.6}, gpus=True)
    part = dataclasses.replace(run, windows=run.windows[run.windows["from_step"] >= 40])

    assert "unknown" == diagnose(part).verdict.status
