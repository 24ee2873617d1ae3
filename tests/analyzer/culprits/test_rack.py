"""Slow nodes or links that make up a leaf or rack are one culprit."""

import dataclasses

import pytest

from analyzer.pipeline import diagnose

WORLD = 6


def _placed(run, leaf, kind="leaf"):
    """The run with `leaf` = name -> ranks in its meta."""
    places = {f"node-{rank}": {kind: name} for name, ranks in leaf.items() for rank in ranks}
    return dataclasses.replace(run, meta={**run.meta, "topology": places})


def _hot(synthetic, fault, kind="power"):
    faults = [fault(kind, rank, 1.5, 80) for rank in (0, 1)]
    return synthetic(world=WORLD, faults=faults, steps=200).run()


@pytest.mark.parametrize("kind", ["rack", "leaf"])
def test_all_nodes_of_a_rack_or_leaf_at_their_power_cap_are_that(synthetic, fault, kind):
    run = _placed(_hot(synthetic, fault), {"r1": [0, 1], "r2": [2, 3, 4, 5]}, kind)
    verdict = diagnose(run).verdict
    (culprit,) = verdict.culprits

    assert ("rack", f"{kind} r1", "power", None, None) == (
        culprit.scope, culprit.link, culprit.cause, culprit.rank, culprit.node
    )  # fmt: skip
    assert 1.5 == pytest.approx(culprit.slowdown, rel=0.06)
    assert verdict.sentence.startswith(f"{kind.title()} r1 holds the run back from step ")
    assert f"all 2 nodes of {kind} r1 in this run, and none of the other 4" in verdict.sentence


@pytest.mark.parametrize(
    "leaves", [{}, {"l1": [0, 1, 2], "l2": [3, 4, 5]}, {"l1": [0, 2], "l2": [1, 3]}]
)
def test_nodes_that_share_no_leaf_of_their_own_stay_culprits_each(synthetic, fault, leaves):
    verdict = diagnose(_placed(_hot(synthetic, fault), leaves)).verdict

    assert {"node-0", "node-1"} == {culprit.node for culprit in verdict.culprits}


def test_of_a_rack_is_told_how_sure_the_rack_is(synthetic, fault):
    run = _placed(_hot(synthetic, fault), {"r1": [0, 1], "r2": [2, 3, 4, 5]}, "rack")
    diagnosed = diagnose(run)
    (one,) = diagnosed.verdict.culprits
    told = [f.details["place_confidence"] for f in diagnosed.findings if f.kind == "slow"]

    assert [one.place_confidence] * 2 == [min(each, 0.99) for each in told]
    assert one.place_confidence > 0.9


def test_a_slowdown_too_small_for_a_node_is_seen_of_its_whole_leaf(synthetic, fault):
    """Twelve nodes that are slower by a little tell together what none of them tells alone."""
    faults = [fault("power", rank, 1.045, 80) for rank in range(12)]
    run = synthetic(world=24, faults=faults, steps=200, noise=0.06).run()
    leaves = {"l1": list(range(12)), "l2": list(range(12, 24))}
    found = diagnose(_placed(run, leaves)).verdict.culprits

    assert [("rack", "leaf l1")] == [(one.scope, one.link) for one in found]
    assert 12 > sum(one.scope == "rank" for one in diagnose(run).verdict.culprits)


@pytest.mark.parametrize("slow", [[0], [0, 1], [0, 1, 2]])
def test_some_nodes_of_a_leaf_are_not_the_leaf(synthetic, fault, slow):
    faults = [fault("power", rank, 1.4, 80) for rank in slow]
    run = synthetic(world=12, faults=faults, steps=200).run()
    verdict = diagnose(_placed(run, {"l1": [0, 1, 2, 3], "l2": [*range(4, 12)]})).verdict

    assert {f"node-{rank}" for rank in slow} == {one.node for one in verdict.culprits}


def test_a_crash_is_no_slow_rack(synthetic, fault):
    run = synthetic(world=WORLD, faults=[fault("crash", 0)], steps=200).run()
    (culprit,) = diagnose(_placed(run, {"l1": [0, 1], "l2": [2, 3, 4, 5]})).verdict.culprits

    assert ("rank", 0) == (culprit.scope, culprit.rank)


def test_links_of_all_nodes_of_a_leaf_are_the_leaf(synthetic, fault):
    faults = [fault("loss", 0, 1.3, 80), fault("loss", 1, 1.3, 80)]
    run = synthetic(world=WORLD, faults=faults, steps=200).run()
    (culprit,) = diagnose(_placed(run, {"l1": [0, 1], "l2": [2, 3, 4, 5]})).verdict.culprits

    assert ("rack", "leaf l1", "link") == (culprit.scope, culprit.link, culprit.cause)
    assert () == diagnose(run).verdict.culprits


def test_waiting_packets_everywhere_and_no_errors_are_a_full_fabric_and_no_bad_link(
    synthetic, fault
):
    faults = [fault("full", rank, 1.1, 80) for rank in range(WORLD)]
    run = synthetic(world=WORLD, faults=faults, steps=200).run()
    verdict = diagnose(_placed(run, {"l1": [0, 1], "l2": [2, 3, 4, 5]})).verdict

    assert () == verdict.culprits
    assert "packets wait on 6 of 6 nodes while no link counts errors" in verdict.sentence
