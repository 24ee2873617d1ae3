"""Is communication the limit? The answer for every kind of verdict."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.shapes import Matrix, Severity, Span
from lockstep.dashboard.words import collectives
from lockstep.dashboard.words.collectives import UNKNOWN, waits
from tests.dashboard.words.verdicts import BROKEN, HEALTHY, LINK, NODE, RACK, SLOW

ARRIVALS = Matrix(
    "", "s", ("rank 0", "rank 1 (node-B, GPU 0)", "rank 2"), np.arange(4.0), None,
    np.array([[0.0, 0.0, 0.01, np.nan], [0.02, 0.03, 0.0, np.nan], [np.nan] * 4]),
)  # fmt: skip


@pytest.mark.parametrize(
    ("told", "share", "begins", "severity"),
    [
        (LINK, 0.4, "Yes: the link node-0 – node-1 holds the run back (link).", Severity.CRITICAL),
        (RACK, 0.4, "Yes: leaf leaf-3 holds the run back (congestion).", Severity.WARNING),
        (SLOW, 0.4, "No: the others wait for rank 2 (node-1, GPU 0)", Severity.NOTE),
        (NODE, 0.4, "No: the others wait for node-1;", Severity.NOTE),
        (HEALTHY, 0.05, "No. All ranks are in collectives for 5 %", Severity.OK),
        (HEALTHY, 0.2, "All ranks are in collectives for 20 % of a step. That is ordinary",
         Severity.NOTE),
        (HEALTHY, 0.5, "All ranks are in collectives for 50 % of a step. That is a lot",
         Severity.NOTE),
        (HEALTHY, math.nan, "How long ranks are in collectives is unknown", Severity.UNKNOWN),
        (None, 0.5, "All ranks are in collectives for 50 %", Severity.UNKNOWN),
    ],
)  # fmt: skip
def test_the_answer_follows_the_verdict(
    told: dict[str, Any] | None, share: float, begins: str, severity: Severity
) -> None:
    said = collectives.headline(waits(ranks(share, share)), told, None)
    assert (True, severity) == (said.text.startswith(begins), said.severity), said.text


def test_who_arrives_last_is_told_in_the_sentence() -> None:
    said = collectives.headline(waits(ranks(0.2, 0.2)), HEALTHY, collectives.latest(ARRIVALS))
    assert (
        "Rank 1 (node-B, GPU 0) arrives last most often, in 67 % of the windows, by 20.0 ms"
        in said.text
    )


def test_who_arrives_last_by_chance_is_not_told() -> None:
    even = Matrix("", "s", ("rank 0", "rank 1"), np.arange(2.0), None, np.eye(2))
    said = collectives.headline(waits(ranks(0.2, 0.2)), HEALTHY, collectives.latest(even))
    assert "No rank arrives last much more often than the others." in said.text


def test_who_came_last_is_counted_over_the_windows_that_were_told() -> None:
    late = collectives.latest(ARRIVALS)
    assert [["rank 1 (node-B, GPU 0)", 2], ["rank 0", 1], ["rank 2", 0]] == late.iloc[
        :, :2
    ].to_numpy().tolist()


def test_no_arrivals_are_an_empty_table() -> None:
    nothing = Matrix("", "s", ("rank 0",), np.arange(2.0), None, np.full((1, 2), np.nan))
    assert collectives.latest(nothing).empty


def test_slow_links_are_those_that_the_verdict_names() -> None:
    assert ["the link node-0 – node-1"] == collectives.slow_links(LINK)["where"].tolist()
    assert ["leaf leaf-3"] == collectives.slow_links(RACK)["where"].tolist()
    assert collectives.slow_links(SLOW).empty
    assert collectives.slow_links(None).empty


def test_a_verdict_edited_by_hand_breaks_nothing() -> None:
    assert collectives.slow_links(BROKEN).empty
    assert "somebody" in collectives.headline(UNKNOWN, BROKEN, None).text


# Which moment a timeline shows, and a rank's collectives.

MOMENTS = st.floats(0, 1e5)


@given(MOMENTS, MOMENTS, st.floats(0, 100) | st.just(float("nan")), st.none() | MOMENTS)
def test_the_moment_lies_within_the_range(
    start: float, length: float, wall: float, around: float | None
) -> None:
    span = Span(start, start + length)
    shown = collectives.window(span, wall, around)
    assert span.start - 1e-6 <= shown.start <= shown.end <= span.end + 1e-6


def test_it_begins_one_step_before_the_finding() -> None:
    assert Span(49.0, 53.0) == collectives.window(Span(0.0, 100.0), 1.0, 50.0)


def test_a_moment_is_widened_within_its_range() -> None:
    assert Span(0.0, 68.0) == collectives.widened(Span(0.0, 90.0), Span(4.0, 8.0))
    assert Span(10.0, 90.0) == collectives.widened(Span(10.0, 90.0), Span(40.0, 44.0))


def test_collectives_are_summed_by_operation_and_group() -> None:
    some = pd.DataFrame({
        "op": ["a", "b", "b", "c"], "group": ["", "dp", "dp", "tp"],
        "seconds": [9.0, 0.1, 0.3, 0.5], "bytes": [0.0, 4.0, 4.0, 2.0],
    })  # fmt: skip
    frame = collectives.collectives(some)
    assert [("c", 1, 500.0), ("b", 2, 200.0)] == list(
        zip(frame["op"], frame["count"], frame["median ms"].round(6), strict=True)
    )


def test_no_collectives_are_an_empty_table() -> None:
    some = pd.DataFrame({"op": ["a"], "group": [""], "seconds": [1.0], "bytes": [0.0]})
    assert collectives.collectives(some).empty


# How much of a step ranks wait: numbers that some rank has, with its name.


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
        assert "How long ranks are in collectives is unknown." == waits(told).words


@given(st.lists(st.floats(0, 1) | st.just(math.nan), min_size=1, max_size=9))
def test_the_middle_is_a_share_that_some_rank_has(shares: list[float]) -> None:
    found = waits(ranks(*shares))
    assert "nan" not in found.words
    assert math.isnan(found.middle) or found.middle in shares
