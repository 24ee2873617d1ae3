"""Slow from the first step seen: beyond what identical parts differ, or nobody."""

import dataclasses

import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stragglers.confidence import accepted
from lockstep.analyzer.stragglers.model.effects import effects

PARTS = (1.0, 1.13, 1.04, 1.17, 1.06, 1.0, 1.15, 1.09)
"""Factors of parts of which none is broken."""


@pytest.fixture(scope="module")
def healthy(synthetic):
    return synthetic(seed=7, world=8, steps=200, telemetry=False).run()


def accused(run):
    grid = align(run)
    found = accepted(grid, [*effects(grid), *effects(grid)])
    return {finding.details.get("node", finding.rank) for finding in found}


@pytest.mark.parametrize(("factor", "named"), [(1.18, set()), (1.35, {2})])
def test_a_part_is_named_beyond_the_spread_of_parts(healthy, slowed, steadily, factor, named):
    assert named == accused(slowed(healthy, [2], factor, steadily(0)))


def test_of_two_nodes_the_one_that_always_was_slower_is_named(healthy, slowed, steadily, on_nodes):
    run = on_nodes(slowed(healthy, [4, 5, 6, 7], 1.12, steadily(0)), 4)

    assert {"node-1"} == accused(run)


@pytest.mark.parametrize("per_node", [2, 4])
def test_nodes_of_parts_that_differ_are_no_slow_nodes(
    healthy, slowed, steadily, on_nodes, per_node
):
    run = healthy
    for rank, factor in enumerate(PARTS):
        run = slowed(run, [rank], factor, steadily(0))

    assert set() == accused(on_nodes(dataclasses.replace(run), per_node))


@pytest.mark.parametrize(("fast", "named"), [(1.0, {"node-2"}), (1.0 / 1.2, set())])
def test_a_node_as_much_slower_as_another_is_faster_is_of_another_kind(
    synthetic, slowed, steadily, on_nodes, fast, named
):
    """Nothing that breaks makes a node faster: such a fleet has parts of two kinds."""
    run = synthetic(seed=7, world=16, steps=200, telemetry=False).run()
    run = slowed(run, [4, 5], 1.2, steadily(0))

    assert named == accused(on_nodes(slowed(run, [10, 11], fast, steadily(0)), 2))
