"""Which finding an alert belongs to."""

import itertools
from dataclasses import replace

import pytest

from lockstep.analyzer.findings.alertmanager.webhook import (
    AFTERWARDS_SECONDS,
    ReceivedAlert,
    matching_finding,
    with_alert,
)

FIRES = ReceivedAlert(
    "f1", True, {"alertname": "LockstepGpuXidFatal", "node": "node-2", "gpu": "0"},
    {"summary": "XID 79"}, 5000.0, None,
)  # fmt: skip
ENDED = replace(FIRES, firing=False, ends_at=6000.0)


def finding(opened: float = 4990.0, closed: float | None = None, **key: object) -> dict:
    place = {"run": "gpt", "node": None, "rank": None, "gpu": None, "cause": "xid", "tier": "page"}
    return {"key": {**place, **key}, "opened": opened, "closed": closed, "alerts": []}


def of_finding(**labels: str) -> ReceivedAlert:
    return replace(FIRES, labels={"alertname": "LockstepFinding", "run": "gpt", **labels})


def test_the_most_exact_finding_about_the_place_is_taken() -> None:
    every = [finding(), finding(node="node-2"), finding(node="node-2", gpu=0), finding(node="x")]

    assert 2 == matching_finding(FIRES, ["gpt"], every)


def test_of_equals_the_newest_is_taken() -> None:
    assert 1 == matching_finding(FIRES, ["gpt"], [finding(1.0), finding(3.0), finding(2.0)])


@pytest.mark.parametrize(
    "other",
    [
        finding(node="node-1"),
        finding(node="node-2", gpu=1),
        finding(run="other"),
        finding(closed=5000.0 - AFTERWARDS_SECONDS - 1),
        {"key": None, "opened": 1.0},
        {"key": {"run": "gpt"}},
    ],
)
def test_a_finding_about_something_else_is_not(other) -> None:
    assert None is matching_finding(FIRES, ["gpt"], [other])


def test_a_finding_that_ended_a_moment_ago_still_is() -> None:
    assert 0 == matching_finding(FIRES, ["gpt"], [finding(closed=4999.0)])


def test_the_alert_of_a_finding_belongs_to_exactly_that() -> None:
    labels = {"node": "node-2", "rank": "2", "gpu": "0", "cause": "xid", "tier": "page"}
    exact = finding(node="node-2", rank=2, gpu=0)

    assert 1 == matching_finding(of_finding(**labels), ["gpt"], [finding(node="node-2"), exact])
    assert None is matching_finding(of_finding(**labels), ["gpt"], [finding(node="node-2")])
    assert None is matching_finding(of_finding(**labels | {"cause": "ecc"}), ["gpt"], [exact])


def test_two_links_have_an_alert_each() -> None:
    labels = {"link": "node-2 mlx5_1", "cause": "xid", "tier": "page"}
    every = [finding(link="node-2 mlx5_0"), finding(link="node-2 mlx5_1")]

    assert 1 == matching_finding(of_finding(**labels), ["gpt"], every)
    assert None is matching_finding(of_finding(**labels), ["gpt"], every[:1])


def test_the_alert_of_a_finding_that_opens_again_is_not_the_closed_one_s() -> None:
    labels = {"node": "node-2", "cause": "xid", "tier": "page"}
    before = finding(4000.0, closed=4999.0, node="node-2")
    again = finding(5000.0, node="node-2")

    assert None is matching_finding(of_finding(**labels), ["gpt"], [before])
    assert 1 == matching_finding(of_finding(**labels), ["gpt"], [before, again])
    assert 0 == matching_finding(
        of_finding(**labels), ["gpt"], [finding(closed=5000.0, node="node-2")]
    )


def test_an_alert_that_is_noted_somewhere_is_found_there_again() -> None:
    away = with_alert(finding(node="node-7"), FIRES, 5001.0)

    assert 1 == matching_finding(ENDED, [], [finding(node="node-2", gpu=0), away])


def test_an_alert_is_noted_once_in_whatever_order_it_comes() -> None:
    expected = {
        "name": "LockstepGpuXidFatal", "fingerprint": "f1", "labels": FIRES.labels,
        "summary": "XID 79", "starts_at": 5000.0, "received": 5001.0, "ends_at": 6000.0,
    }  # fmt: skip
    for order in itertools.permutations([FIRES, FIRES, ENDED, ENDED]):
        now = finding()
        for after, alert in enumerate(order):
            now = with_alert(now, alert, 5001.0 + after) or now

        assert [expected] == now["alerts"]
    assert None is with_alert(now, FIRES, 9000.0)


def test_the_same_labels_that_fire_anew_are_another_alert() -> None:
    once = with_alert(finding(), FIRES, 5001.0)

    assert 2 == len(with_alert(once, replace(FIRES, starts_at=7000.0), 7001.0)["alerts"])
