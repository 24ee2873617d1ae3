"""What ranks of several nodes share is slow, input data or cooling, and no node is blamed."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.shapes.run import SHARED_COOLING, SHARED_LOADING, Run
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import Phase

SINCE, STOP = 80, 200


@pytest.fixture
def healthy(synthetic):
    """Eight ranks, a node each."""
    return synthetic(world=8, steps=300).run()


def starved(run: Run, turns: dict[int, float], each: int = 20) -> Run:
    """Ranks wait for data in turn, by a share of a step, and all others for them."""
    windows = run.windows.copy()
    usual = float(windows["own_seconds"].median())
    for place, (rank, share) in enumerate(turns.items()):
        first = SINCE + place * each
        stop = STOP if len(turns) == 1 else first + each
        steps = windows["from_step"].between(first, stop - 1)
        mine, more = windows["rank"] == rank, share * usual
        for column in ("own_seconds", f"{Phase.DATA}_seconds"):
            windows.loc[steps & mine, column] += more
        windows.loc[steps, "wall_seconds"] += more
        windows.loc[steps & ~mine, "collective_seconds"] += more
        windows.loc[steps & ~mine, f"{Phase.GRAD_SYNC}_seconds"] += more
    return dataclasses.replace(run, windows=windows)


def test_ranks_of_most_nodes_that_lack_data_in_turn_are_nobodys_fault(healthy):
    verdict = diagnose(starved(healthy, {1: 0.8, 4: 0.6, 6: 0.9, 2: 0.7, 7: 0.5, 3: 0.8})).verdict
    (structure,) = verdict.structure

    assert () == verdict.culprits
    assert SHARED_LOADING == structure["kind"]
    assert "ranks of 6 of 8 nodes" in verdict.sentence
    assert "file system or object store" in verdict.sentence
    assert "degraded" == verdict.status
    assert {1, 4, 6, 2, 7, 3} == {one.rank for one in verdict.rejected}
    assert verdict.slowdown > 1.4


@pytest.mark.parametrize("turns", [{1: 0.8}, {1: 0.8, 4: 0.6}])
def test_one_loader_or_two_are_named(healthy, turns):
    verdict = diagnose(starved(healthy, turns, each=60)).verdict

    assert set(turns) == {one.rank for one in verdict.culprits}
    assert {"data"} == {one.cause for one in verdict.culprits}
    assert () == verdict.structure


@pytest.mark.parametrize(("turns", "world"), [
    ({1: 4.0, 2: 0.015, 4: 0.015, 5: 0.015, 6: 0.015, 7: 0.015}, 8), ({1: 1.0, 0: 0.015}, 2),
])  # fmt: skip
def test_a_loader_is_not_let_go_for_what_others_lack_a_little(synthetic, turns, world):
    run = synthetic(world=world, steps=300).run()
    for rank, share in turns.items():
        run = starved(run, {rank: share})
    verdict = diagnose(run).verdict

    assert [1] == [one.rank for one in verdict.culprits]
    assert () == verdict.structure


def test_an_episode_of_all_lets_nobody_go_who_was_slow_long_before(healthy):
    run = starved(healthy, {2: 0.8, 4: 0.8, 6: 0.8, 7: 0.8, 3: 0.8})
    windows = run.windows.copy()
    late, mine = windows["from_step"] >= 20, windows["rank"] == 5
    usual = float(windows["own_seconds"].median())
    for column in ("own_seconds", "data_seconds", "wall_seconds"):
        windows.loc[late & mine, column] += 0.9 * usual
    windows.loc[late & ~mine, "wall_seconds"] += 0.9 * usual
    windows.loc[late & ~mine, "collective_seconds"] += 0.9 * usual
    verdict = diagnose(dataclasses.replace(run, windows=windows)).verdict

    assert 5 in {one.rank for one in verdict.culprits}


def test_most_ranks_of_one_node_in_turn_are_the_node(synthetic):
    run = synthetic(world=8, steps=300, ranks_per_node=4).run()
    verdict = diagnose(starved(run, {4: 0.8, 6: 0.7, 5: 0.9}, each=40)).verdict
    (culprit,) = verdict.culprits

    assert ("node", "node-1", "data") == (culprit.scope, culprit.node, culprit.cause)
    assert "3 of 4 ranks of node-1 are slow in turn" in culprit.evidence[0].text
    assert verdict.sentence.startswith("node-1, with 3 of 4 ranks, is ")
    assert () == verdict.structure


def test_who_is_slow_for_another_reason_is_named_beside_it(healthy):
    run = starved(healthy, {1: 0.8, 4: 0.6, 6: 0.9, 2: 0.7, 7: 0.5, 3: 0.8})
    windows = run.windows.copy()
    mine, late = windows["rank"] == 5, windows["from_step"] >= 230
    more = np.where(late, 0.5 * windows["own_seconds"].median(), 0.0)
    for column in ("own_seconds", f"{Phase.FORWARD}_seconds"):
        windows[column] += np.where(mine, more, 0.0)
    windows["wall_seconds"] += more
    for column in ("collective_seconds", f"{Phase.GRAD_SYNC}_seconds"):
        windows[column] += np.where(mine, 0.0, more)
    verdict = diagnose(dataclasses.replace(run, windows=windows)).verdict

    assert [5] == [one.rank for one in verdict.culprits]
    assert 5 not in {one.rank for one in verdict.rejected}
    assert len(verdict.rejected) == len({one.rank for one in verdict.rejected})
    assert SHARED_LOADING in {one["kind"] for one in verdict.structure}


def test_more_work_is_no_lack_of_data(healthy):
    """Of sequences twice as long all ranks load twice as much; one loader is slow meanwhile."""
    run = starved(healthy, {1: 0.8})
    windows = run.windows.copy()
    late = windows["from_step"] >= SINCE
    for column in [name for name in windows if name.endswith("_seconds")]:
        windows[column] *= np.where(late, 1.6, 1.0)
    verdict = diagnose(dataclasses.replace(run, windows=windows)).verdict

    assert [1] == [one.rank for one in verdict.culprits]


HOT, HOT_SINCE = 92.0, 120
FACTORS = {1: 1.12, 4: 1.15, 6: 1.13}


@pytest.fixture
def heated(synthetic, fault):
    """Eight GPUs on as many nodes, of which some are held back by heat from one step on."""

    def made(factors, *, room):
        faults = [fault("thermal", rank, factor, HOT_SINCE) for rank, factor in factors.items()]
        run = synthetic(world=8, steps=300, faults=faults).run()
        if not room:
            return run
        samples, windows = run.samples.copy(), run.windows
        since = windows.loc[windows["from_step"] == HOT_SINCE, "start"].min()
        hot = (samples["metric"] == "lockstep_gpu_temperature_celsius") & (samples["time"] > since)
        samples.loc[hot, "value"] = HOT
        return dataclasses.replace(run, samples=samples)

    return made


def test_gpus_that_a_hot_room_holds_back_are_nobodys_fault(heated):
    verdict = diagnose(heated(FACTORS, room=True)).verdict
    (structure,) = verdict.structure

    assert () == verdict.culprits
    assert SHARED_COOLING == structure["kind"]
    assert "degraded" == verdict.status
    assert "the GPUs of all nodes became hotter by 28 °C" in verdict.sentence
    assert set(FACTORS) == {one.rank for one in verdict.rejected}


def test_gpus_that_are_hot_alone_are_named(heated):
    verdict = diagnose(heated(FACTORS, room=False)).verdict

    assert set(FACTORS) == {one.rank for one in verdict.culprits}
    assert {"thermal"} == {one.cause for one in verdict.culprits}


def test_who_is_far_slower_than_a_hot_room_makes_the_others_is_named(heated):
    verdict = diagnose(heated({**FACTORS, 4: 2.6}, room=True)).verdict

    assert [4] == [one.rank for one in verdict.culprits]
