"""Slow nodes or links that make up a leaf or rack are one culprit."""

import dataclasses

import pytest

from lockstep.analyzer.verdict.pipeline import diagnose

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


def _staged(run, dp):
    ranks = tuple(dataclasses.replace(i, pp=i.rank // dp, dp=i.rank % dp) for i in run.ranks)
    return dataclasses.replace(run, ranks=ranks)


def test_a_leaf_that_is_a_stage_cannot_be_told_from_its_work(synthetic, fault):
    """All that a leaf holds is one stage: what slows all of it may be the stage, nobody's fault."""
    faults = [fault("compute", rank, 1.3, 80) for rank in range(4)]
    run = _staged(synthetic(world=16, faults=faults, steps=200).run(), 4)
    verdict = diagnose(_placed(run, {"l1": [0, 1, 2, 3], "l2": [*range(4, 16)]})).verdict

    assert () == verdict.culprits
    assert "stage-slowdown" in [one["kind"] for one in verdict.structure]


@pytest.mark.sweep(sample=0)
def test_seventy_nodes_of_a_rack_are_that(synthetic, fault):
    faults = [fault("power", rank, 1.3, 80) for rank in range(70)]
    run = synthetic(world=144, faults=faults, steps=160).run()
    racks = {"r1": [*range(70)], "r2": [*range(70, 144)]}
    (culprit,) = diagnose(_placed(run, racks, "rack")).verdict.culprits

    assert "rack r1" == culprit.link


def test_a_node_that_is_slower_by_what_neighbours_feel_is_not_slow(synthetic, fault):
    factors = {0: 1.3, 1: 1.3, 2: 1.3, 3: 1.02}
    faults = [fault("compute", rank, factor, 80) for rank, factor in factors.items()]
    run = synthetic(world=16, faults=faults, steps=200).run()
    verdict = diagnose(_placed(run, {"l1": [0, 1, 2, 3], "l2": [*range(4, 16)]})).verdict

    assert {"node-0", "node-1", "node-2"} == {one.node for one in verdict.culprits}


def test_two_causes_at_once_are_two_nodes_and_no_leaf(synthetic, fault):
    faults = [fault("power", 0, 1.5, 80), fault("data", 1, 1.5, 80)]
    run = synthetic(world=WORLD, faults=faults, steps=200).run()
    verdict = diagnose(_placed(run, {"l1": [0, 1], "l2": [2, 3, 4, 5]})).verdict

    assert {("node-0", "power"), ("node-1", "data")} == {
        (one.node, one.cause) for one in verdict.culprits
    }


def test_a_leaf_of_two_is_not_named_for_the_pauses_of_one(synthetic):
    run = synthetic(world=24, steps=400).run()
    windows = run.windows.copy()
    mine = (windows["rank"] == 4) & windows["from_step"].isin([200, 260, 330])
    windows.loc[mine, ["own_seconds", "wall_seconds", "other_seconds"]] += 3.0
    run = dataclasses.replace(run, windows=windows)
    leaves = {f"l{pair}": [2 * pair, 2 * pair + 1] for pair in range(12)}

    assert [4] == [one.rank for one in diagnose(run).verdict.culprits]
    assert [4] == [one.rank for one in diagnose(_placed(run, leaves)).verdict.culprits]


def test_a_crash_is_no_slow_rack(synthetic, fault):
    run = synthetic(world=WORLD, faults=[fault("crash", 0)], steps=200).run()
    (culprit,) = diagnose(_placed(run, {"l1": [0, 1], "l2": [2, 3, 4, 5]})).verdict.culprits

    assert ("rank", 0) == (culprit.scope, culprit.rank)


def test_links_of_all_nodes_of_a_leaf_are_the_leaf(synthetic, fault):
    faults = [fault("loss", 0, 1.3, 80), fault("loss", 1, 1.3, 80)]
    run = synthetic(world=WORLD, faults=faults, steps=200).run()
    (culprit,) = diagnose(_placed(run, {"l1": [0, 1], "l2": [2, 3, 4, 5]})).verdict.culprits

    assert ("rack", "leaf l1", "link") == (culprit.scope, culprit.link, culprit.cause)
    (nodes,) = diagnose(run).verdict.culprits
    assert ("link", None, "node-0 -- node-1") == (nodes.scope, nodes.node, nodes.link)
    assert () == diagnose(_placed(run, {"l1": [0, 2, 4], "l2": [1, 3, 5]})).verdict.culprits


def test_nodes_that_began_to_count_trouble_at_other_times_share_nothing(synthetic, fault):
    faults = [fault("loss", 0, 1.3, 80), fault("loss", 1, 1.0, 140)]
    verdict = diagnose(synthetic(world=WORLD, faults=faults, steps=200).run()).verdict

    assert "node-0 -- node-1" not in [one.link for one in verdict.culprits]


def test_waiting_packets_everywhere_and_no_errors_are_a_full_fabric_and_no_bad_link(
    synthetic, fault
):
    faults = [fault("full", rank, 1.1, 80) for rank in range(WORLD)]
    run = synthetic(world=WORLD, faults=faults, steps=200).run()
    verdict = diagnose(_placed(run, {"l1": [0, 1], "l2": [2, 3, 4, 5]})).verdict

    assert () == verdict.culprits
    assert "packets wait on 6 of 6 nodes while no link counts errors" in verdict.sentence
