"""Exchanges inside a tensor-parallel group that take longer, while nobody's own time does."""

import dataclasses

import pandas as pd
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stragglers.detectors.tensor_groups import tensor_groups
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.metric_rows.events import GPU_XID_LAST
from lockstep.collector.contract.metric_rows.gpu import GPU_TEMPERATURE
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import Difficulty, Fault, Resolution, SyntheticFleet
from lockstep.evaluation.synth.whole import labelled

BAD = Fault(Cause.NVLINK, "down", 14, 1.5, 100)


def run_of(*faults):
    return labelled(
        SyntheticFleet(
            dp=8, tp=4, steps=300, resolution=Resolution.STEP, faults=faults, seed=4,
            difficulties=(Difficulty.TENSOR_GROUP,),
        )
    ).run  # fmt: skip


def without_nvlink(run):
    silent = run.samples[~run.samples["metric"].str.contains("nvlink|xid")]
    return dataclasses.replace(run, samples=silent)


def test_the_member_whose_nvlinks_tell_is_named():
    (culprit,) = diagnose(run_of(BAD)).verdict.culprits

    assert (14, "nvlink") == (culprit.rank, culprit.cause)
    assert "tensor-parallel group of ranks 12 to 15" in culprit.evidence[0].text


def test_a_link_that_is_slow_from_the_first_step_on_is_named_where_it_is_down():
    bad = dataclasses.replace(BAD, factor=1.1, from_step=0)
    (culprit,) = diagnose(run_of(bad)).verdict.culprits

    assert (14, "nvlink") == (culprit.rank, culprit.cause)
    assert [] == tensor_groups(align(without_nvlink(run_of(bad))))


def test_of_two_nodes_a_group_that_takes_longer_is_no_link_between_them_and_costs_what_it_takes():
    """All wait for the group, its last member for nobody: everybody's collectives are longer."""
    bad = Fault(Cause.NVLINK, "down", 6, 1.5, 100)
    fleet = SyntheticFleet(
        dp=2, tp=8, steps=300, resolution=Resolution.STEP, faults=(bad,), seed=4,
        difficulties=(Difficulty.TENSOR_GROUP,),
    )  # fmt: skip
    verdict = diagnose(labelled(fleet).run).verdict

    assert [(6, "nvlink")] == [(one.rank, one.cause) for one in verdict.culprits]
    assert verdict.slowdown == pytest.approx(1.5, rel=0.1)


def test_a_slow_rank_of_another_group_costs_no_time_that_all_wait_for_the_link():
    """Both groups are slow at once: a step takes as much longer as the slower of them."""
    hot = Fault(Cause.THERMAL, "sw", 20, 1.4, 100)
    run = run_of(dataclasses.replace(BAD, place=6), hot)
    steps = run.windows.groupby("from_step")["wall_seconds"].max()
    longer = steps[100:].median() / steps[20:100].median()

    assert diagnose(run).verdict.slowdown == pytest.approx(longer, rel=0.07)


def test_without_telemetry_of_nvlinks_nobody_is_and_the_run_is_not_healthy():
    run = without_nvlink(run_of(BAD))
    (finding,) = tensor_groups(align(run))
    verdict = diagnose(run).verdict

    assert ("network", None) == (finding.kind, finding.rank)
    assert ((), "unknown") == (verdict.culprits, verdict.status)
    assert "tensor-parallel group of ranks 12 to 15" in verdict.sentence


@pytest.mark.parametrize(("rank", "step"), [(14, 100), (13, 10), (13, 250)])
def test_without_telemetry_of_nvlinks_an_xid_of_theirs_at_that_time_tells_whose_it_is(rank, step):
    run = without_nvlink(run_of(BAD))
    (info,) = [each for each in run.ranks if each.rank == rank]
    since = float(run.windows.loc[run.windows["from_step"] == step, "start"].min())
    there = (run.samples["node"] == info.node) & (run.samples["gpu"] == info.gpu)
    mine = run.samples[there & (run.samples["metric"] == GPU_TEMPERATURE.name)]
    logged = mine[mine["time"] >= since].assign(
        metric=GPU_XID_LAST.name, labels='severity="warning",xid="74"', value=since
    )
    told = pd.concat([run.samples, logged], ignore_index=True)
    culprits = diagnose(dataclasses.replace(run, samples=told)).verdict.culprits

    assert ([(14, "nvlink")] if step == 100 else []) == [(c.rank, c.cause) for c in culprits]


def test_groups_alike_are_nothing():
    assert [] == list(tensor_groups(align(run_of())))


def test_a_slow_rank_lets_its_group_wait_and_is_no_link():
    slow = Fault(Cause.SLOW_GPU, "plain", 14, 1.5, 100)
    (culprit,) = diagnose(run_of(slow)).verdict.culprits

    assert [] == list(tensor_groups(align(run_of(slow))))
    assert (14, "slow-gpu") == (culprit.rank, culprit.cause)


def test_a_slow_rank_of_another_group_hides_no_link():
    """Inside a layer a group waits for its members and for nobody else."""
    slow = Fault(Cause.SLOW_GPU, "plain", 5, 1.6, 80)
    verdict = diagnose(run_of(slow, BAD)).verdict

    assert {(5, "slow-gpu"), (14, "nvlink")} == {(c.rank, c.cause) for c in verdict.culprits}


def test_a_collector_that_falls_silent_hides_no_slow_link_of_another_node():
    """Its ranks still tell their steps; what they exchange inside the node is as it was."""
    bad = Fault(Cause.LINK, "rate", 20, 1.5, 150)
    fleet = SyntheticFleet(dp=8, tp=4, steps=300, resolution=Resolution.STEP, faults=(bad,), seed=4)
    run = labelled(fleet).run
    middle = run.windows["start"].median()
    silent = (run.samples["node"] == "node-0") & (run.samples["time"] > middle)
    run = dataclasses.replace(run, samples=run.samples[~silent])
    (culprit,) = diagnose(run).verdict.culprits

    assert ("link", "node-2", "link") == (culprit.scope, culprit.node, culprit.cause)
