"""What people were told stands beside the verdict about an archive, and never changes it."""

import json
from dataclasses import replace

import pytest

from lockstep.analyzer.findings.finding import Kind, Tier, WatchFinding, Who, finding_json
from lockstep.analyzer.report.sections.summary import summary, title
from lockstep.analyzer.shapes.run import Culprit, Fact, Verdict
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.diagnose.history import with_history
from tests.docs.verdict import HISTORY

XID = WatchFinding(
    who=Who("gpt", "node-2", 5, 1, None), kind=Kind.EVENT, scope="gpu", attempt=0, cause="xid",
    tier=Tier.PAGE, confidence=0.95, slowdown=None, onset=990.0, first_seen=995.0, opened=1000.0,
    seen=1000.0, closed=None, sentence="XID 79: rank 5 lost its GPU.",
    facts=(Fact(True, "XID 79", "q"), Fact(False, "no throttling", "")), folder="gpt/x",
    uuid="GPU-5", from_step=7,
)  # fmt: skip
EMPTY = Verdict("gpt", "unknown", "Nobody can be named.", None, None, 3.5, 0.0, missing=("steps",))
CLAIM = (
    "watch named rank 5 on node-2 (xid, confidence 0.95) at 1970-01-01 00:16:40 UTC, by an error"
    " that was logged"
)


def tree(finding: WatchFinding = XID, **changed) -> dict:
    return {**json.loads(json.dumps(finding_json(replace(finding, **changed))))}


def naming(*ranks: int, cause: str = "xid") -> Verdict:
    return Verdict("gpt", "degraded", "Somebody is slow.", 1.2, None, 1.0, 1.0, tuple(
        Culprit("rank", rank, f"node-{rank - 3}", 1, None, None, None, None, None, 7, None, None,
                1.5, None, cause, 0.9, "page", ())
        for rank in ranks
    ))  # fmt: skip


def stripped(verdict: Verdict) -> Verdict:
    return replace(verdict, sentence="", history=())


@pytest.mark.parametrize("verdict", [EMPTY, naming(5), naming(4), naming(5, cause="power")])
def test_nothing_of_the_verdict_changes_but_the_end_of_its_sentence(verdict) -> None:
    after = with_history(verdict, tree())

    assert stripped(verdict) == stripped(after)
    assert after.sentence.startswith(verdict.sentence)
    assert after.sentence == with_history(verdict, tree()).sentence
    json.dumps(verdict_json(after), allow_nan=False)


def test_who_what_when_and_by_what_it_was_told_is_there_by_name() -> None:
    (told,) = with_history(EMPTY, tree()).history

    assert [name for names in HISTORY for name in names.split(", ")] == list(told)
    assert ("watch", 5, "node-2", 1, "GPU-5", "xid", 0.95, "page", "event", 7) == tuple(
        told[name] for name in ("by", "rank", "node", "gpu", "uuid", "cause", "confidence", "tier",
                                "kind", "from_step")
    )  # fmt: skip
    assert ("1970-01-01T00:16:40+00:00", "1970-01-01T00:16:30+00:00") == (
        told["opened"], told["since"],
    )  # fmt: skip
    assert [(True, "XID 79"), (False, "no throttling")] == [
        (fact["for"], fact["text"]) for fact in told["evidence"]
    ]
    assert XID.sentence == told["sentence"]


@pytest.mark.parametrize(
    ("verdict", "end"),
    [
        (EMPTY, "this archive alone names nobody"),
        (naming(4), "this archive alone names rank 4"),
        (naming(5, cause="power"), "the cause by this archive alone is power"),
    ],
)
def test_where_they_disagree_the_sentence_ends_by_saying_what_was_told(verdict, end) -> None:
    after = with_history(verdict, tree())

    assert f"{verdict.sentence} W{CLAIM[1:]}; {end}." == after.sentence
    assert not after.history[0]["agrees"]
    assert title(after) == f"{title(verdict)}; watch reported rank 5 on node-2: xid"
    assert CLAIM[1:] in " ".join(summary(after))


@pytest.mark.parametrize("verdict", [naming(5), naming(4, 5), naming(5, cause="unknown")])
def test_where_they_agree_the_sentence_stays(verdict) -> None:
    after = with_history(verdict, tree())

    assert (verdict.sentence, True) == (after.sentence, after.history[0]["agrees"])
    assert f"{CLAIM}; this archive says so too" == after.history[0]["text"]
    assert (title(verdict), summary(verdict)) == (title(after), summary(after))


def test_a_node_is_the_place_of_its_ranks() -> None:
    node = replace(naming(5).culprits[0], scope="node", rank=None, gpu=None)
    (told,) = with_history(replace(naming(5), culprits=(node,)), tree()).history

    assert told["place_agrees"]


def test_a_run_that_stood_named_nobody_and_is_contradicted_by_a_healthy_one_only() -> None:
    stood = tree(who=Who("gpt", None, None, None, None), kind=Kind.STOP, cause="unknown")
    texts = {
        status: with_history(replace(EMPTY, status=status), stood).history[0]
        for status in ("unknown", "healthy")
    }
    named = with_history(naming(5), stood)

    assert "watch reported run gpt (cause unknown)" in texts["unknown"]["text"]
    assert [True, False] == [texts[status]["agrees"] for status in ("unknown", "healthy")]
    assert named.history[0]["text"].endswith("since the run stood still; this archive names rank 5")


def test_what_a_rule_told_of_was_not_named_by_watch() -> None:
    (told,) = with_history(EMPTY, tree(scope="alert", cause="unknown", confidence=0.0)).history

    assert "alert" == told["by"]
    assert told["text"].startswith("an alert reported rank 5 on node-2 at 1970-01-01 00:16:40 UTC;")


@pytest.mark.parametrize(
    "torn",
    [
        {}, {"key": None}, {"key": {"tier": "loud"}, "sentence": "x"}, {"key": {"tier": "page"}},
        {"key": {"tier": ["page"]}, "sentence": "x"},
    ],
)  # fmt: skip
def test_a_torn_finding_changes_nothing(torn) -> None:
    assert EMPTY == with_history(EMPTY, torn)


@pytest.mark.parametrize(
    "torn",
    [
        {"evidence": "all"}, {"evidence": [None, {"text": 1}]}, {"opened": "soon"},
        {"confidence": float("nan")}, {"kind": ["slow"]}, {"from_step": -1}, {"uuid": {}},
    ],
)  # fmt: skip
def test_what_is_torn_of_a_finding_is_left_out(torn) -> None:
    after = with_history(EMPTY, {**tree(), **torn})

    assert XID.sentence == after.history[0]["sentence"]
    json.dumps(verdict_json(after), allow_nan=False)


def test_a_finding_of_before_there_was_evidence_is_told() -> None:
    old = {name: value for name, value in tree().items() if name not in ("evidence", "kind")}
    (told,) = with_history(EMPTY, old).history

    assert ([], None) == (told["evidence"], told["kind"])
    assert "at 1970-01-01 00:16:40 UTC; this archive alone names nobody" in told["text"]
