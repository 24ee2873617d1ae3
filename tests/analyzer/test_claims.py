"""What counts as saying more: naming, certainty, clearing."""

import pytest

from tests.analyzer.claims import ACCUSED, CLEARED, HEALTHY, UNKNOWN, Charge, Claim, bolder

THERMAL = Charge("thermal", 0.9, "page")
ONE = Claim(ACCUSED, {"rank 1": THERMAL})
TWO = Claim(ACCUSED, {"rank 1": THERMAL, "rank 2": THERMAL})
SAYS = [Claim(HEALTHY), Claim(CLEARED), Claim(UNKNOWN), ONE, TWO]


def one(cause="thermal", confidence=0.9, tier="page", place=0.9):
    return Claim(ACCUSED, {"rank 1": Charge(cause, confidence, tier, place)})


@pytest.mark.parametrize("claim", SAYS)
def test_the_same_and_unknown_are_never_bolder(claim):
    assert () == bolder(claim, claim)
    assert () == bolder(claim, Claim(UNKNOWN))


@pytest.mark.parametrize("less", [Claim(HEALTHY), Claim(CLEARED)])
@pytest.mark.parametrize("more", SAYS)
def test_to_clear_is_bolder_unless_it_was_cleared_alike_before(more, less):
    assert bool(bolder(more, less)) == (more != less)


@pytest.mark.parametrize("more", [Claim(HEALTHY), Claim(CLEARED), Claim(UNKNOWN), ONE])
def test_to_name_somebody_else_is_bolder(more):
    assert "rank 2 is named" in bolder(more, TWO)


def test_to_name_fewer_is_not():
    assert () == bolder(TWO, ONE)


@pytest.mark.parametrize(
    ("more", "less", "is_bolder"),
    [
        (one(confidence=0.8), one(confidence=0.9), True),
        (one(confidence=0.9), one(confidence=0.8), False),
        (one(confidence=0.9), one(confidence=0.91), False),
        (one(place=0.5), one(place=0.9), True),
        (one(place=0.9), one(place=0.5), False),
        (one(tier="record"), one(tier="page"), True),
        (one(tier="page"), one(tier="record"), False),
        (one("thermal"), one("power"), True),
        (one("thermal"), one("unknown", 0.99), False),
        (one("unknown"), one("thermal"), True),
    ],
)
def test_certainty_counts_tier_cause_and_confidence(more, less, is_bolder):
    assert is_bolder == bool(bolder(more, less))
