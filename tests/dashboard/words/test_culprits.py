"""Causes with what speaks for and against them."""

from lockstep.dashboard.address import Location
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.words import culprits
from tests.dashboard.words.rows import FOUND, found
from tests.dashboard.words.verdicts import BROKEN, CULPRIT, HEALTHY, ROW, SLOW, verdict


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


# An address that is about a culprit opens with it.

OTHER = CULPRIT | {"rank": 5, "node": "node-2", "gpu": 1, "cause": "power", "tier": "record",
                   "slowdown": 1.2}  # fmt: skip
TWO = verdict(sentence="Rank 2 is slower.", culprits=[CULPRIT, OTHER])
SECOND = found(finding="f-2", rank=5, node="node-2", gpu=1, cause="power",
               severity=Severity.WARNING, sentence="Rank 5 is held at a power cap.")  # fmt: skip


def first(location: Location, *rows: object) -> object:
    ordered = culprits.first(TWO, location, culprits.finding(location, rows))  # type: ignore[arg-type]
    return (ordered or {})["culprits"][0]["rank"]


def test_each_of_two_findings_of_a_run_opens_its_own_culprit() -> None:
    assert [2, 5] == [first(Location(finding=name), FOUND, SECOND) for name in ("f-1", "f-2")]


def test_a_rank_a_node_or_a_gpu_of_the_address_is_enough() -> None:
    assert 5 == first(Location(rank=5))
    assert 5 == first(Location(node="node-2"))
    assert 5 == first(Location(node="node-2", gpu=1))


def test_who_is_no_culprit_changes_nothing() -> None:
    for place in (
        Location(), Location(rank=7), Location(node="node-2", rank=2), Location(finding="gone"),
    ):  # fmt: skip
        assert 2 == first(place, FOUND, SECOND)


def test_of_two_causes_on_one_place_that_of_the_finding_comes_first() -> None:
    twice = verdict(culprits=[CULPRIT, CULPRIT | {"cause": "power"}])
    ordered = culprits.first(twice, Location(finding="f-1"), found(cause="power"))
    assert "power" == (ordered or {})["culprits"][0]["cause"]


def test_the_sentence_is_that_of_the_culprit_and_then_that_of_the_run() -> None:
    said = culprits.headline(TWO, Location(finding="f-2"), SECOND, ROW, live=False)
    expected = "Rank 5 is held at a power cap. Of the whole run: Rank 2 is slower."
    assert (expected, Severity.WARNING) == (said.text, said.severity)


def test_without_a_finding_the_culprit_is_put_into_words() -> None:
    said = culprits.headline(TWO, Location(rank=5), None, ROW, live=False)
    assert said.text.startswith(
        "Rank 5 (node-2, GPU 1) is 1.20x slower than it should be: its GPU is held at a power cap."
    )


def test_the_first_culprit_is_told_as_the_verdict_does() -> None:
    for place, row in (
        (Location(), None), (Location(finding="f-1"), FOUND), (Location(rank=2), None),
    ):  # fmt: skip
        assert "Rank 2 is slower." == culprits.headline(TWO, place, row, ROW, live=False).text


def test_a_finding_without_a_verdict_is_told_with_what_is_to_be_done() -> None:
    said = culprits.headline(None, Location(finding="f-1"), FOUND, ROW, live=False)
    assert said.text.startswith("Rank 2 is too hot. Of the whole run: Run gpt-a was not analyzed")
    assert "lockstep analyze 'runs/gpt a'" == said.command


def test_a_finding_that_the_verdict_does_not_name_is_told_first() -> None:
    said = culprits.headline(SLOW, Location(finding="f-2"), SECOND, ROW, live=False)
    assert said.text.startswith("Rank 5 is held at a power cap.")
