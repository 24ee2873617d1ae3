"""What is later said of a finding's archive does not contradict whom people were told of."""

import json

import pytest

from analyzer.run import Culprit, Fact, Verdict
from analyzer.verdict_json import verdict_json
from analyzer.watch.concluded import concluded
from analyzer.watch.finding import Kind, Tier, WatchFinding, Who, finding_json
from analyzer.watch.upheld import upheld

XID = WatchFinding(
    who=Who("gpt", "node-2", 5, 1, None), kind=Kind.EVENT, scope="gpu", attempt=0, cause="xid",
    tier=Tier.PAGE, confidence=0.95, slowdown=None, onset=990.0, first_seen=995.0, opened=1000.0,
    seen=1000.0, closed=None, sentence="XID 79: rank 5 lost its GPU.",
    facts=(Fact(True, "XID 79", "q"), Fact(False, "no throttling", "")), folder="gpt/x",
    uuid="GPU-5",
)  # fmt: skip
EMPTY = Verdict("gpt", "unknown", "Nobody can be named.", None, None, 3.5, 0.0, missing=("steps",))
TREE = finding_json(XID)


def culprit(rank: int) -> Culprit:
    return Culprit("rank", rank, f"node-{rank}", 0, None, None, None, None, None, 7, None, None,
                   1.5, None, "thermal", 0.9, "page", ())  # fmt: skip


def told(verdict: Verdict) -> dict:
    return json.loads(json.dumps(verdict_json(verdict)))


def test_an_archive_that_names_nobody_keeps_the_culprit_and_the_evidence_of_the_finding() -> None:
    written = concluded(XID, EMPTY, None, ["no samples: too late"])
    after = upheld(EMPTY, TREE, told(written))

    assert (written.culprits, written.sentence, "degraded") == (
        after.culprits, after.sentence, after.status,
    )  # fmt: skip
    assert 3.5 == after.lost_gpu_hours
    assert {"steps", "no samples: too late"} <= set(after.missing)
    assert after == upheld(after, TREE, told(after))


def test_an_archive_that_names_another_gives_way_to_the_finding() -> None:
    other = Verdict("gpt", "degraded", "Rank 0 is slow.", 1.2, None, 1.0, 1.0, (culprit(0),))

    assert [5] == [each.rank for each in upheld(other, TREE, told(other)).culprits]
    assert XID.sentence == upheld(other, TREE, told(other)).sentence


def test_an_archive_that_names_the_same_is_believed() -> None:
    own = Verdict("gpt", "degraded", "Node 2.", 1.2, None, 1.0, 1.0, (
        Culprit("node", None, "node-2", None, None, None, None, None, None, 7, None, None, 1.5,
                None, "thermal", 0.9, "page", ()),
    ))  # fmt: skip

    assert own == upheld(own, TREE, None)


@pytest.mark.parametrize(
    "torn",
    [
        None,
        {},
        {"culprits": "all", "sentence": 1, "status": "degraded"},
        {"culprits": [None, 3, {}], "sentence": "x", "status": "degraded", "missing": {}},
        {"culprits": [{"evidence": [{"text": 1}], "rank": "5"}], "sentence": "x", "status": "slow"},
    ],
)
def test_without_a_whole_verdict_the_finding_alone_is_told(torn) -> None:
    after = upheld(EMPTY, TREE, torn)

    assert (XID.sentence, [(5, "node-2", 1, "GPU-5", "xid", "page")]) == (
        after.sentence,
        [(one.rank, one.node, one.gpu, one.uuid, one.cause, one.tier) for one in after.culprits],
    )


@pytest.mark.parametrize("torn", [{}, {"key": None}, {"key": {"tier": "loud"}, "sentence": "x"}])
def test_a_torn_finding_changes_nothing(torn) -> None:
    assert EMPTY == upheld(EMPTY, torn, None)
