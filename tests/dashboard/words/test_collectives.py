"""Is communication the limit? The answer for every kind of verdict."""

import math
from typing import Any

import numpy as np
import pytest

from lockstep.dashboard.shapes import Matrix, Severity
from lockstep.dashboard.words import collectives
from lockstep.dashboard.words.collectives import UNKNOWN, waits
from tests.dashboard.words.test_waiting import ranks
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
        (NODE, 0.4, "No: the others wait for node-1,", Severity.NOTE),
        (HEALTHY, 0.05, "No. All ranks are in collectives for 5 %", Severity.OK),
        (HEALTHY, 0.2, "All ranks are in collectives for 20 % of a step. That is ordinary",
         Severity.NOTE),
        (HEALTHY, 0.5, "All ranks are in collectives for 50 % of a step. That is a lot",
         Severity.NOTE),
        (HEALTHY, math.nan, "How long ranks are in collectives is not known", Severity.UNKNOWN),
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
