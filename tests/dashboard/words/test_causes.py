"""Causes with what speaks for and against them."""

from lockstep.dashboard.words import culprits
from tests.dashboard.words.verdicts import BROKEN, CULPRIT, HEALTHY, SLOW


def test_causes_stand_with_the_counts_of_their_evidence_and_then_the_alternatives() -> None:
    rows = culprits.causes(SLOW)[["who", "cause", "confidence"]].to_numpy().tolist()
    assert [["rank 2 (node-1, GPU 0)", "thermal", 0.97], ["instead", "power", 0.02]] == rows
    assert [1, 1] == culprits.causes(SLOW).loc[0, ["for", "against"]].tolist()


def test_a_cause_is_explained_in_words() -> None:
    assert "its GPU is too hot" == culprits.causes(SLOW).loc[0, "meaning"]


def test_evidence_for_stands_before_evidence_against() -> None:
    frame = culprits.evidence(CULPRIT)
    assert ["+ for", "− against"] == frame["speaks"].tolist()
    assert "93 °C, peers 64 °C" == frame.loc[0, "observation"]


def test_a_healthy_run_has_no_causes() -> None:
    assert list(culprits.CAUSES) == list(culprits.causes(HEALTHY).columns)
    assert culprits.causes(HEALTHY).empty


def test_a_verdict_edited_by_hand_breaks_nothing() -> None:
    assert ["unknown", "unknown"] == culprits.causes(BROKEN)["cause"].tolist()
    assert culprits.evidence({"evidence": 3}).empty
