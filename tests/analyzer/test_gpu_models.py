"""GPUs of several models in one run: another model takes another time, and nobody is slow."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stats.peer_groups import peer_groups
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.metrics import GPU_INFO

FAST, SLOW = "NVIDIA B200", "NVIDIA H200"


def with_models(run, models):
    """The run with the model that each node tells of its GPUs; None = it tells none."""
    first = float(run.windows["start"].min())
    rows = [
        (first, info.node, info.gpu, None, GPU_INFO.name, f'model="{models[info.node]}"', 1.0)
        for info in run.ranks
        if models[info.node] is not None
    ]
    others = run.samples[run.samples["metric"] != GPU_INFO.name]
    told = pd.DataFrame(rows, columns=run.samples.columns)
    return dataclasses.replace(run, samples=pd.concat([others, told], ignore_index=True))


def slower(run, nodes, factor, since=0):
    """The run with own times of some nodes longer."""
    windows = run.windows.copy()
    mine = [info.rank for info in run.ranks if info.node in nodes]
    late = windows["rank"].isin(mine) & (windows["from_step"] >= since)
    more = windows.loc[late, "own_seconds"] * (factor - 1.0)
    for name in ("own_seconds", "backward_seconds", "wall_seconds"):
        windows.loc[late, name] += more
    return dataclasses.replace(run, windows=windows)


@pytest.fixture(scope="module")
def run(synthetic):
    """Four nodes of two ranks, of which the last has an older model."""
    made = synthetic(seed=7, world=8, ranks_per_node=2, steps=200).run()
    return slower(made, ["node-3"], 1.6)


OLD_LAST = {"node-0": FAST, "node-1": FAST, "node-2": FAST, "node-3": SLOW}


def test_a_node_of_an_older_model_is_not_slow_and_what_it_costs_is_told(run):
    verdict = diagnose(with_models(run, OLD_LAST)).verdict

    assert ("healthy", ()) == (verdict.status, verdict.culprits)
    (told,) = verdict.structure
    assert ("mixed-gpu-models", True) == (told["kind"], 0.1 < told["share"] < 0.6)
    assert told["text"].startswith("the same work takes H200 1.6")
    assert "By design, no fault: the same work takes" in verdict.sentence


@pytest.mark.parametrize("model", [FAST, FAST.removeprefix("NVIDIA "), None])
def test_a_node_of_the_same_model_however_spelt_or_of_one_that_nobody_told_is(run, model):
    verdict = diagnose(with_models(run, OLD_LAST | {"node-3": model})).verdict

    assert ["node-3"] == [one.node for one in verdict.culprits]
    assert () == verdict.structure


def test_a_node_of_another_model_that_becomes_slow_is_named(run):
    verdict = diagnose(with_models(slower(run, ["node-3"], 1.5, 100), OLD_LAST)).verdict

    assert ["node-3"] == [one.node for one in verdict.culprits]
    assert 100 == pytest.approx(verdict.culprits[0].from_step, abs=6)


def test_who_told_no_model_stands_with_most(run):
    grid = align(with_models(run, OLD_LAST | {"node-1": None}))
    found = {place[2]: columns.tolist() for place, columns in peer_groups(grid).items()}

    assert {"B200": list(range(6)), "H200": [6, 7]} == found
    assert [FAST] * 2 + [""] * 2 + [FAST] * 2 + [SLOW] * 2 == [info.model for info in grid.ranks]


def test_models_that_are_as_fast_are_no_word_worth(synthetic):
    made = synthetic(seed=7, world=8, ranks_per_node=2, steps=200).run()

    assert () == diagnose(with_models(made, OLD_LAST)).verdict.structure
    assert np.isfinite(align(made).time["own"]).all()
