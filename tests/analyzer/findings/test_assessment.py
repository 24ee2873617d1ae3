"""A run is healthy only if everything was looked at: what is missing never speaks for it."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.findings.assessment import (
    DEGRADED,
    HEALTHY,
    UNKNOWN,
    WORDS,
    Assessment,
    Facts,
    Reason,
    assessed,
)

WELL = Facts(
    heard=True, world=4, up=4, stepping=4, known=4, untold=False, verdict=HEALTHY, named=False,
    unsure=False, settled=True,
)  # fmt: skip
LESS = {
    "heard": False, "up": 3, "stepping": 3, "known": 3, "untold": True, "verdict": None,
    "unsure": True, "settled": False,
}  # fmt: skip


def test_with_everything_looked_at_a_run_is_healthy():
    assert Assessment(HEALTHY) == assessed(WELL)


@pytest.mark.parametrize("lacks", LESS)
def test_whatever_is_missing_makes_it_unknown_and_says_what(lacks):
    found = assessed(replace(WELL, **{lacks: LESS[lacks]}))

    assert UNKNOWN == found.status
    assert WORDS[found.reason]


def test_a_verdict_that_could_not_tell_is_no_health():
    found = assessed(replace(WELL, verdict=UNKNOWN))

    assert Assessment(UNKNOWN, Reason.NO_DIAGNOSIS) == found


def test_an_open_finding_is_evidence_whatever_else_is_missing():
    assert Assessment(DEGRADED) == assessed(replace(WELL, **LESS, named=True))


def test_a_rank_that_was_never_told_of_is_missing():
    assert Reason.RANKS == assessed(replace(WELL, world=5, stepping=5, known=5)).reason


def test_each_reason_has_words():
    assert set(Reason) - {Reason.NONE} == set(WORDS)


@given(
    st.builds(
        Facts, heard=st.booleans(), world=st.integers(1, 4), up=st.integers(0, 4),
        stepping=st.integers(0, 4), known=st.integers(0, 4), untold=st.booleans(),
        verdict=st.sampled_from([None, HEALTHY, DEGRADED, UNKNOWN]), named=st.booleans(),
        unsure=st.booleans(), settled=st.booleans(),
    ),
    st.sampled_from([one.name for one in fields(Facts) if one.name in LESS]),
)  # fmt: skip
def test_no_fact_that_goes_away_makes_a_run_healthier_or_surer(facts, lacks):
    value = LESS[lacks]
    less = min(value, getattr(facts, lacks)) if type(value) is int else value
    before, after = assessed(facts), assessed(replace(facts, **{lacks: less}))

    assert after.status in (before.status, UNKNOWN)
