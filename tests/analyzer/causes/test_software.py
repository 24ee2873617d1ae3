"""Software that changed on all nodes is nobody's fault; on the slow node alone it is the cause."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.align.versions import versions
from lockstep.analyzer.causes.cause_weights import weigh_causes
from lockstep.analyzer.causes.symptoms.software import software
from lockstep.analyzer.shapes.run import RankInfo
from lockstep.analyzer.verdict.pipeline import diagnose


def evidence(grid, finding):
    return next(each for each in weigh_causes(grid, [finding])[0] if each.cause == "software")


def _driver(nodes, when, new="550.90", old="550.54"):
    """Edits samples: the driver of these nodes is `new` from `when` on (seconds of the run)."""

    def edit(samples):
        rows = samples["metric"] == "lockstep_gpu_info"
        changed = samples["node"].isin(nodes) & (samples["time"] >= 1_760_000_000.0 + when)
        told = np.where(changed, new, old)
        labels = [f'driver="{each}",model="s",simulated="true"' for each in told]
        return samples.assign(labels=np.where(rows, labels, samples["labels"]))

    return edit


NODES = [f"node-{rank}" for rank in range(4)]


def _when_slow(recipe):
    """Seconds into the run at which its slowdown is found to begin."""
    grid = diagnose(recipe.run()).grid
    return float(grid.start[80] - 1_760_000_000.0)


def test_a_new_driver_on_all_nodes_as_the_run_slowed_is_the_cause_and_nobody_is_blamed(synthetic):
    recipe = synthetic(uniform=(80, 1.5))
    recipe.drop = _driver(NODES, _when_slow(recipe))
    verdict = diagnose(recipe.run()).verdict
    (one,) = verdict.structure

    assert ((), "uniform", "software") == (verdict.culprits, one["kind"], one["cause"])
    assert one["confidence"] > 0.9
    changed = "the GPU driver changed from 550.54 to 550.90 on all 4 nodes as the slowdown began"
    assert changed in one["text"]
    assert changed in verdict.sentence


def test_a_uniform_slowdown_without_new_software_has_no_cause(synthetic):
    (one,) = diagnose(synthetic(uniform=(80, 1.5)).run()).verdict.structure

    assert {"kind", "share", "text"} == one.keys()


@pytest.mark.parametrize(("nodes", "when"), [(NODES, 0.5), (NODES[:2], None)])
def test_new_software_at_another_time_or_on_some_nodes_is_not_why_all_are_slow(
    synthetic, nodes, when
):
    recipe = synthetic(uniform=(200, 1.5), steps=600)
    grid = diagnose(recipe.run()).grid
    recipe.drop = _driver(nodes, float(grid.start[200] - grid.start[0]) if when is None else when)
    (one,) = diagnose(recipe.run()).verdict.structure

    assert "cause" not in one


def test_a_slow_node_whose_driver_changed_alone_is_slow_for_it(synthetic, fault):
    recipe = synthetic(faults=[fault("compute", 2, 1.5, 80)])
    recipe.drop = _driver(["node-2"], _when_slow(recipe))
    verdict = diagnose(recipe.run()).verdict
    (culprit,) = verdict.culprits

    assert (2, "software") == (culprit.rank, culprit.cause)
    assert "from 550.54 to 550.90 on node-2, and on no other" in verdict.sentence


def test_a_node_that_always_differed_and_became_slow_later_is_not_slow_for_it(synthetic, fault):
    recipe = synthetic(faults=[fault("compute", 2, 1.5, 200)], steps=600)
    recipe.drop = _driver(["node-2"], -1.0)
    culprit = diagnose(recipe.run()).verdict.culprits[0]

    assert (2, "slow-gpu") == (culprit.rank, culprit.cause)


def test_a_node_that_differs_and_is_slow_all_along_is_suspected_with_less_than_certainty(
    synthetic, fault
):
    recipe = synthetic(faults=[fault("compute", 2, 1.8, 0)])
    recipe.drop = _driver(["node-2"], -1.0)
    (culprit,) = diagnose(recipe.run()).verdict.culprits

    assert (2, "software") == (culprit.rank, culprit.cause)
    assert culprit.confidence < 0.99


@pytest.mark.parametrize(
    ("kind", "cause"), [("thermal", "thermal"), ("cpu-quota", "host-cpu"), ("ecc", "ecc")]
)
def test_another_cause_that_is_seen_wins_over_a_driver_that_always_differed(
    synthetic, fault, kind, cause
):
    recipe = synthetic(faults=[fault(kind, 2, 1.5, 80)])
    recipe.drop = _driver(["node-2"], -1.0)

    assert cause == diagnose(recipe.run()).verdict.culprits[0].cause


def test_ranks_of_the_same_node_that_are_not_slow_speak_against_its_software(synthetic, fault):
    recipe = synthetic(faults=[fault("compute", 2, 1.5, 80)])
    recipe.drop = _driver(["node-2"], _when_slow(recipe))
    diagnosis = diagnose(recipe.run())
    grid, finding = diagnosis.grid, diagnosis.findings[0]
    ranks = tuple(
        dataclasses.replace(info, node="node-2") if info.rank == 3 else info for info in grid.ranks
    )
    codes = grid.versions["GPU driver"].codes.copy()
    codes[:, 3] = codes[:, 2]
    told = dataclasses.replace(grid.versions["GPU driver"], codes=codes)
    shared = dataclasses.replace(grid, ranks=ranks, versions={"GPU driver": told})

    alone = evidence(grid, finding)
    both = evidence(shared, finding)
    assert both.log_odds < alone.log_odds - 3
    assert any("are not slow" in fact.text for fact in both.facts if not fact.supports)


def test_nodes_that_tell_no_versions_make_no_cause(synthetic, fault):
    def silent(samples):
        return samples[~samples["metric"].str.endswith("_info")]

    recipe = synthetic(faults=[fault("compute", 2, 1.5, 80)], drop=silent)
    diagnosis = diagnose(recipe.run())
    told = evidence(diagnosis.grid, diagnosis.findings[0])

    assert {} == dict(align(recipe.run()).versions)
    assert told.log_odds < 0
    assert ("versions of the driver and the kernel",) == told.missing


def test_the_versions_of_several_nics_of_a_node_are_told_together():
    samples = pd.DataFrame(
        {
            "time": [1.0, 1.0, 5.0, 5.0],
            "node": ["a"] * 4,
            "gpu": pd.array([None] * 4, dtype="Int32"),
            "rank": pd.array([None] * 4, dtype="Int32"),
            "metric": ["lockstep_ib_info"] * 4,
            "labels": [f'device="mlx5_{i % 2}",firmware="28.{39 + i}"' for i in range(4)],
            "value": [1.0] * 4,
        }
    )
    told = versions(samples, (RankInfo(0, "a", 0, "u", 0, 0, 0, 0),), np.array([0.0, 2.0, 6.0]))

    found = told["NIC firmware"]
    assert ["28.39, 28.40", "28.39, 28.40", "28.41, 28.42"] == [
        found.words[code] for code in found.codes[:, 0]
    ]


@pytest.mark.parametrize(("details", "explains"), [({}, False), ({"node": "node-1"}, True)])
def test_of_two_nodes_the_odd_one_is_the_one_that_is_slow_as_a_whole(
    synthetic, fault, details, explains
):
    recipe = synthetic(world=2, faults=[fault("compute", 1, 1.5)], drop=_driver(["node-1"], 0))
    done = diagnose(recipe.run())
    found = next(each for each in done.findings if each.kind == "slow")
    always = dataclasses.replace(found, first=0, details={"from_start": True, **details})

    assert explains == software(done.grid, always).explains
