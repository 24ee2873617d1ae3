"""How much of a step ranks wait: numbers that some rank has, with its name."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.words.collectives import waits


def ranks(*shares: float, nodes: str = "aabb") -> pd.DataFrame:
    count = len(shares)
    named = [f"node-{nodes[at % len(nodes)]}" for at in range(count)]
    return pd.DataFrame({"rank": range(count), "node": named, "wait_share": list(shares)})


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (ranks(0.55, 0.55, 0.26, 0.29),
         "The ranks of node-b are in collectives for 26 to 29 % of a step, the others for 55 %."),
        (ranks(0.55, 0.551, 0.1, 0.56),
         "Rank 2 on node-b is in collectives for 10 % of a step, the others for 55 to 56 %."),
        (ranks(0.2, 0.2, 0.21, 0.21), "All ranks are in collectives for 20 to 21 % of a step."),
        (ranks(0.2, 0.3, 0.4, 0.5),
         ("Ranks are in collectives for 20 % (rank 0 on node-a) to 50 % (rank 3 on node-b) of a"
         " step.")),
        (ranks(0.5), "Rank 0 on node-a is in collectives for 50 % of a step."),
        (ranks(0.1, 0.5), ("Rank 0 on node-a is in collectives for 10 % of a step, the other for"
                          " 50 %.")),
        (ranks(0.1, 0.5, 0.1, 0.5, nodes="ab"),
         "The ranks of node-a are in collectives for 10 % of a step, the others for 50 %."),
        (ranks(*[0.1] * 5, *[0.5] * 5, nodes="a"),
         ("Rank 0 on node-a, rank 1 on node-a, rank 2 on node-a and 2 more are in collectives for"
         " 10 % of a step, the others for 50 %.")),
    ],
)  # fmt: skip
def test_lowest_and_highest_are_told_with_names(told: pd.DataFrame, expected: str) -> None:
    assert expected == waits(told).words


def test_what_nobody_told_is_not_known() -> None:
    for told in (None, ranks(), ranks(math.nan)):
        assert "How long ranks are in collectives is not known." == waits(told).words


@given(st.lists(st.floats(0, 1) | st.just(math.nan), min_size=1, max_size=9))
def test_the_middle_is_a_share_that_some_rank_has(shares: list[float]) -> None:
    found = waits(ranks(*shares))
    assert "nan" not in found.words
    assert math.isnan(found.middle) or found.middle in shares
