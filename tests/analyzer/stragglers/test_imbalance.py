"""A node that alone holds a stage is slow or has a heavier one; each place is weighed once."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stragglers.detectors.stage_levels import stage_levels
from lockstep.analyzer.stragglers.imbalance import heavier_or_slow, heavier_stages, placed
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.evaluation.scoring.examples import background
from lockstep.evaluation.synth.hard_draw import hard
from lockstep.evaluation.synth.whole import labelled


def test_a_node_is_weighed_by_the_share_of_its_ranks_that_show_it(synthetic, fault):
    run = synthetic(seed=5, world=8, steps=300, faults=[fault("thermal", 3)]).run()
    hot = diagnose(run)
    slow = next(one for one in hot.findings if one.kind == "slow")
    details = {**slow.details, "node": hot.grid.ranks[3].node}
    node = [dataclasses.replace(slow, rank=rank, details=details) for rank in (2, 3)]
    told, evidences = placed(hot.grid, [*node, slow])
    mate, mine, alone = (
        next(each.log_odds for each in one if each.cause == "thermal") for one in evidences
    )

    assert [*node, slow] == list(told)
    assert mate == pytest.approx(mine)
    assert mine < alone


@pytest.fixture(scope="module")
def healthy(synthetic):
    return synthetic(seed=7, world=8, steps=300).run()


def staged(run, *, driver=None):
    """Ranks 0 to 3 are stage 0, the others stage 1; on request with another driver on node-1."""
    ranks = tuple(dataclasses.replace(i, pp=i.rank // 4, dp=i.rank % 4) for i in run.ranks)
    samples = run.samples
    if driver is not None:
        old = samples["node"].astype(str).str.removeprefix("node-").astype(int)
        places = {"node": "node-" + (old // 4).astype(str), "gpu": old % 4}
        samples = samples.assign(**places)
        rows = samples["metric"] == "lockstep_gpu_info"
        told = np.where(samples["node"] == "node-1", driver, "550.54")
        labels = [f'driver="{each}",model="s",simulated="true"' for each in told]
        samples = samples.assign(labels=np.where(rows, labels, samples["labels"]))
    return dataclasses.replace(run, ranks=ranks, samples=samples)


def test_nobody_knows_where_there_is_no_telemetry(healthy, slowed, steadily, on_nodes):
    run = staged(on_nodes(slowed(healthy, [4, 5, 6, 7], 1.4, steadily(0)), 4))
    run = dataclasses.replace(run, samples=run.samples[:0])
    verdict = diagnose(run).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "it alone holds stage 1" in verdict.sentence
    assert "do not distinguish a heavier stage from a slow node" in verdict.sentence


def test_where_all_hardware_is_well_the_stage_is_heavier(healthy, slowed, steadily, on_nodes):
    run = staged(on_nodes(slowed(healthy, [4, 5, 6, 7], 1.4, steadily(0)), 4))
    (one, *_) = stage_levels(align(run))

    def sure(of, slowdown=1.4):
        details = {**one.details, "log_ratio": np.log(of)}
        return [dataclasses.replace(one, slowdown=slowdown, details=details)]

    assert ["stage-imbalance"] == [each["kind"] for each in heavier_stages(sure(0.2))]
    assert heavier_or_slow(sure(0.2)) is None
    assert () == heavier_stages(sure(0.7))
    assert () == heavier_stages(sure(0.2, 2.5))  # nobody gives a stage so much
    assert heavier_or_slow(sure(0.2, 2.5)) is not None
    assert heavier_or_slow(sure(0.7)) is not None


def test_what_the_hardware_tells_of_the_node_accuses_it():
    """A power cap on all GPUs of a node that alone holds two stages, from the first step on."""
    run = labelled(hard(99081, injected=True, variant="usual")).run
    (culprit,) = diagnose(run).verdict.culprits

    assert ("node", "node-1", "power") == (culprit.scope, culprit.node, culprit.cause)
    assert culprit.slowdown == pytest.approx(1.37, abs=0.05)
    low, high = culprit.slowdown_interval
    assert low < culprit.slowdown < high


def test_one_difference_of_two_nodes_is_not_enough(healthy, slowed, steadily, on_nodes):
    run = on_nodes(slowed(healthy, [4, 5, 6, 7], 1.4, steadily(0)), 4)
    verdict = diagnose(staged(run, driver="550.90")).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)


@pytest.mark.parametrize(("cause", "told"), [("power", True), ("software", False)])
def test_a_node_that_is_well_is_not_the_mirror_image_of_its_slow_neighbour(
    healthy, on_nodes, cause, told
):
    """Where another driver is why the one is slow, that the other has another one is no example."""
    grid = align(staged(on_nodes(healthy, 4), driver="550.90"))
    truth = [{"cause": cause, "node": "node-1", "rank": None}]
    node, _ = background(grid, truth)

    assert told == ("other software: mild" in node.states)


@pytest.mark.parametrize(("first", "last"), [(100, 10_000), (0, 160)])
def test_who_was_not_always_slower_is_no_heavier_stage(healthy, slowed, on_nodes, first, last):
    span = slowed(healthy, [4, 5, 6, 7], 1.4, lambda step: ((step >= first) & (step < last)) * 1.0)

    assert [] == list(stage_levels(align(staged(on_nodes(span, 4)))))


@pytest.mark.parametrize("factor", [1.0, 1.15])
def test_what_parts_can_differ_by_is_no_reason_to_be_unknown(
    healthy, slowed, steadily, on_nodes, factor
):
    run = staged(on_nodes(slowed(healthy, [4, 5, 6, 7], factor, steadily(0)), 4))

    assert ("healthy", ()) == (diagnose(run).verdict.status, diagnose(run).verdict.culprits)


def test_a_stage_over_several_nodes_is_none_of_theirs(healthy, slowed, steadily, on_nodes):
    run = staged(on_nodes(slowed(healthy, [4, 5, 6, 7], 1.4, steadily(0)), 2))

    assert "healthy" == diagnose(run).verdict.status
