"""Slow links by the data-parallel groups that are slow: the shared part is named, or nobody."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.shapes.run import RankInfo, Run
from lockstep.analyzer.shapes.windows import from_steps
from lockstep.analyzer.stats.transfers import grown
from lockstep.analyzer.stragglers.detectors.links import links
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract import archive
from lockstep.collector.contract.words import PHASES

STEPS, FIRST = 120, 60
OWN, TRANSFER, LONGER = 0.040, 0.004, 0.012
EPOCH = 1_760_000_000.0
LEAVES = {f"node-{i}": {"leaf": "a" if i < 4 else "b"} for i in range(8)}


def _run(dp, pp, tp, *, per_node, slow=(), little=(), rank=None, places=None, seed=0):
    """Steps as ranks record them.

    From FIRST on `slow` groups, as (pp, tp), have longer transfers, `little` ones by a third of it.
    Ranks of a replica wait for each other in forward, those of a group in grad_sync, and all in
    the norm of the gradients, in optimizer.
    """
    dice = np.random.default_rng(seed)
    world = dp * pp * tp
    ranks = tuple(
        RankInfo(r, f"node-{r // per_node}", r % per_node, f"GPU-{r}", r % per_node,
                 r // tp % dp, r // tp // dp, r % tp)
        for r in range(world)
    )  # fmt: skip
    own = OWN * (1 + 0.02 * dice.normal(size=(STEPS, world)))
    if rank is not None:
        own[FIRST:, rank] += LONGER
    replica = np.array([info.dp for info in ranks])
    ready = np.stack([own[:, replica == d].max(axis=1) for d in range(dp)], axis=1)[:, replica]
    group = np.array([info.pp * tp + info.tp for info in ranks])
    took = TRANSFER * (1 + 0.05 * np.abs(dice.normal(size=(STEPS, pp * tp))))
    for stage, index in slow:
        took[FIRST:, stage * tp + index] += LONGER
    for stage, index in little:
        took[FIRST:, stage * tp + index] += LONGER / 3
    done = ready.max(axis=1)[:, None] + took[:, group]
    wall = np.broadcast_to(done.max(axis=1)[:, None], done.shape)
    start = EPOCH + np.concatenate([[0.0], np.cumsum(wall[:-1, 0])])
    phases = {
        "forward": 0.3 * own + ready - own, "backward": 0.6 * own, "grad_sync": done - ready,
        "optimizer": 0.1 * own + wall - done,
    }  # fmt: skip
    columns = {
        "step": np.arange(STEPS)[:, None], "rank": np.arange(world), "attempt": 0,
        "start": start[:, None], "wall_seconds": wall, "cpu_seconds": 0.01, "own_seconds": own,
        **{f"{phase}_seconds": phases.get(phase, 0.0) for phase in PHASES},
        "loss": 3.0, "samples": 4, "tokens": 128, "flops": 1e9,
    }  # fmt: skip
    steps = pd.DataFrame({k: np.broadcast_to(v, wall.shape).ravel() for k, v in columns.items()})
    steps["tags"] = np.where(steps["step"] < 5, "warmup", "")
    samples = pd.DataFrame({column.name: [] for column in archive.SAMPLES})
    meta = {"outcome": {"ending": "finished"}, **({"topology": places} if places else {})}
    return Run("by-hand", meta, ranks, from_steps(steps), samples, None)


@pytest.fixture(scope="module")
def quiet():
    return align(_run(2, 1, 1, per_node=1))


def _told(run):
    return [
        (found.kind, found.details["node"], found.details["link"]) for found in links(align(run))
    ]


def test_a_rail_that_all_slow_groups_use_is_named():
    run = _run(4, 2, 2, per_node=2, slow=[(0, 1), (1, 1)])

    assert [("link", None, "rail 1 (GPU 1 of every node)")] == _told(run)


def test_a_leaf_that_all_slow_groups_use_is_named_with_two_stages():
    slow = [(0, 0), (0, 1)]
    run = _run(2, 2, 2, per_node=1, slow=slow, places=LEAVES)

    assert [("link", None, "leaf a")] == _told(run)


def test_a_node_that_all_slow_groups_use_is_named():
    """Node 1 holds the last rank of stage 0 and the first of stage 1."""
    run = _run(3, 3, 1, per_node=2, slow=[(0, 0), (1, 0)])

    assert [("link", "node-1", "node-1")] == _told(run)


def test_a_healthy_group_clears_only_its_own_gpus_of_a_node():
    """Stage 1 is healthy over GPU 1 of node 1; that of GPU 0 may be slow, or all of node 0."""
    (found,) = links(align(_run(3, 2, 1, per_node=2, slow=[(0, 0)])))

    assert "network" == found.kind
    assert "GPU 0 of node-0 or GPU 0 of node-1 or GPU 1 of node-0 or node-0 alone" in found.text


def test_of_a_tie_both_are_told_and_nobody_is_accused():
    verdict = diagnose(_run(2, 2, 1, per_node=1, slow=[(0, 0)])).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "node-0 or node-1 alone is in all slow groups" in verdict.sentence


@pytest.mark.parametrize("slow", [(), [(0, 0), (0, 1), (1, 0), (1, 1)]])
def test_where_no_group_is_slow_or_all_are_nobody_is_named(slow):
    assert [] == _told(_run(4, 2, 2, per_node=2, slow=slow))


def test_slow_groups_without_a_common_part_name_nobody():
    assert [] == _told(_run(2, 4, 1, per_node=1, slow=[(0, 0), (2, 0)]))


def test_of_a_single_stage_the_finding_of_today_gets_a_name():
    run = _run(4, 1, 2, per_node=2, slow=[(0, 1)])

    assert [("link", None, "rail 1 (GPU 1 of every node)")] == _told(run)


def test_beside_a_group_that_is_a_little_slower_nobody_is_named():
    assert [] == _told(_run(4, 2, 2, per_node=2, slow=[(0, 1), (1, 1)], little=[(0, 0)]))


@pytest.mark.parametrize("layout", [(4, 2, 2), (8, 2, 1), (4, 1, 4)])
def test_a_slow_rank_is_no_slow_group(layout):
    assert [] == _told(_run(*layout, per_node=2, rank=3))


def test_beside_a_slow_rank_no_group_is_judged():
    assert [] == _told(_run(4, 2, 2, per_node=2, slow=[(0, 1), (1, 1)], rank=2))


def test_a_group_with_a_silent_rank_may_be_healthy_so_nobody_is_named():
    run = _run(4, 2, 2, per_node=2, slow=[(0, 1), (1, 1)])
    silent = dataclasses.replace(run, windows=run.windows[run.windows["rank"] != 6])

    assert [] == _told(silent)


@pytest.mark.parametrize("slow", [[(0, 0)], [(0, 0), (1, 0)]])
def test_a_slow_group_inside_a_node_is_no_link_between_nodes(slow):
    """Stages of four ranks on nodes of six: the first and the last are inside one."""
    assert [] == _told(_run(4, 3, 1, per_node=6, slow=slow))


def test_the_verdict_accuses_the_link_and_says_why():
    verdict = diagnose(_run(4, 2, 2, per_node=2, slow=[(0, 1), (1, 1)])).verdict
    (culprit,) = verdict.culprits

    assert ("link", None, None, "rail 1 (GPU 1 of every node)", "link") == (
        culprit.scope, culprit.rank, culprit.node, culprit.link, culprit.cause
    )  # fmt: skip
    assert FIRST == pytest.approx(culprit.from_step, abs=4)
    assert 1 + LONGER / (OWN + TRANSFER) == pytest.approx(culprit.slowdown, rel=0.1)
    assert "transfers of 2 of 4 data-parallel groups take" in culprit.evidence[0].text


def test_a_rank_that_is_slow_at_another_time_is_accused_beside_the_link():
    """Each explains windows that the other does not."""
    run = _run(4, 2, 2, per_node=2, slow=[(0, 1), (1, 1)])
    windows = run.windows.copy()
    early = (windows["rank"] == 2) & windows["from_step"].between(15, 45)
    windows.loc[early, "own_seconds"] *= 1.5
    verdict = diagnose(dataclasses.replace(run, windows=windows)).verdict

    assert [("rank", 2), ("link", None)] == [(one.scope, one.rank) for one in verdict.culprits]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), inside=st.integers(12, 60))
def test_of_many_ranks_own_times_noise_is_no_growth_and_what_grew_is(quiet, seed, inside):
    """White noise of 8 % in 512 ranks: the highest of their rises is up to a tenth."""
    dice = np.random.default_rng(seed)
    own = OWN * (1 + 0.08 * dice.normal(size=(STEPS, 512)))
    first = int(dice.integers(0, STEPS - inside))
    windows = np.arange(STEPS)
    sides = windows[first : first + inside], np.delete(windows, windows[first : first + inside])

    healthy = dataclasses.replace(quiet, time={"own": own})
    assert grown(healthy, *sides) < 0.03 * OWN
    own[sides[0], 7] += LONGER
    assert LONGER / 4 < grown(healthy, *sides) < 1.2 * LONGER
    own[sides[0], 9] = np.nan
    assert np.isinf(grown(healthy, *sides))


@settings(max_examples=8, deadline=None)
@given(
    layout=st.sampled_from([(2, 2, 2, 2), (3, 2, 1, 2), (2, 4, 1, 1), (2, 2, 2, 1), (3, 3, 2, 3)]),
    slow=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=4),
    seed=st.integers(0, 99),
)
def test_a_node_of_a_healthy_group_is_never_named(layout, slow, seed):
    dp, pp, tp, per_node = layout
    slow = {(stage, index) for stage, index in slow if stage < pp and index < tp}
    run = _run(dp, pp, tp, per_node=per_node, slow=slow, places=LEAVES, seed=seed)
    healthy = {info.node for info in run.ranks if (info.pp, info.tp) not in slow}

    for kind, node, link in _told(run):
        if kind == "link" and len(slow) < pp * tp:
            assert node not in healthy
            if link == "leaf a":
                assert healthy.isdisjoint(n for n in LEAVES if LEAVES[n]["leaf"] == "a")
