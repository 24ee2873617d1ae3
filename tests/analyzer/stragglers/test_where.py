"""A place is told about once, by what all its ranks show."""

import dataclasses

import pytest

from lockstep.analyzer.stragglers.imbalance import placed
from lockstep.analyzer.verdict.pipeline import diagnose


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
