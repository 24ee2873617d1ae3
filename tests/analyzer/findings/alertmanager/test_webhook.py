"""Notifications of an Alertmanager, right and wrong, and the findings that they belong to."""

import copy
import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.findings.alertmanager.webhook import (
    AFTERWARDS_SECONDS,
    MAX_ALERTS,
    MAX_TEXT,
    Notification,
    ReceivedAlert,
    WebhookError,
    matching_finding,
    parse,
    with_alert,
)

# As Alertmanager 0.25 sent it.
RIGHT = {
    "receiver": "lockstep", "status": "firing", "version": "4", "truncatedAlerts": 0,
    "groupLabels": {"alertname": "LockstepGpuXidFatal", "node": "node-2"},
    "commonLabels": {}, "commonAnnotations": {}, "externalURL": "http://localhost:9093",
    "groupKey": '{}:{alertname="LockstepGpuXidFatal", node="node-2"}',
    "alerts": [{
        "status": "firing", "fingerprint": "58a2f1d8a1a5cf0e",
        "labels": {"alertname": "LockstepGpuXidFatal", "node": "node-2", "gpu": "0", "xid": "79"},
        "annotations": {"summary": "XID 79"}, "generatorURL": "http://localhost:9090/graph",
        "startsAt": "2026-11-22T12:00:00.123456789Z", "endsAt": "0001-01-01T00:00:00Z",
    }],
}  # fmt: skip


def changed(**alert: object) -> bytes:
    tree = copy.deepcopy(RIGHT)
    tree["alerts"][0] |= alert
    return json.dumps(tree).encode()


def test_a_firing_alert_is_read_whole() -> None:
    alert = RIGHT["alerts"][0]

    assert Notification((
        ReceivedAlert("58a2f1d8a1a5cf0e", True, alert["labels"], alert["annotations"],
                      1795348800.123456, None),
    )) == parse(json.dumps(RIGHT).encode())  # fmt: skip


def test_a_resolved_one_has_the_same_key_and_an_end() -> None:
    [alert] = parse(changed(status="resolved", endsAt="2026-11-22T13:00:00+01:00")).alerts

    assert (False, 1795348800.0) == (alert.firing, alert.ends_at)
    assert parse(json.dumps(RIGHT).encode()).alerts[0].key == alert.key


def test_alerts_that_were_left_out_are_counted() -> None:
    assert 7 == parse(json.dumps(RIGHT | {"truncatedAlerts": 7}).encode()).truncated


def test_hostile_labels_stay_as_they_are_and_long_ones_are_cut() -> None:
    labels = {"run": "<script>\"'\n\x00 🦀", "node": "n" * 10_000}
    [alert] = parse(changed(labels=labels)).alerts

    assert labels["run"] == alert.labels["run"]
    assert MAX_TEXT + len("… (cut off)") == len(alert.labels["node"])


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the body is not JSON; it must be Alertmanager's webhook"),
        (b"\xff", "the body is not UTF-8; it must be Alertmanager's JSON"),
        (b"[" * 100_000, "the body is not JSON; it must be Alertmanager's webhook"),
        (b"[]", "the body is no JSON object; it must be Alertmanager's webhook"),
        (b'{"version": "3"}', 'version is "3"; it must be "4"'),
        (b'{"version": "4", "alerts": {}}', "alerts is an object; it must be a list"),
        (b'{"version": "4", "alerts": [NaN]}',
         "the body is not JSON; it must be Alertmanager's webhook"),
        (b'{"version": "4", "alerts": [1]}', "alerts[0] is 1; it must be an object"),
        (json.dumps({"version": "4", "alerts": [{}] * (MAX_ALERTS + 1)}).encode(),
         "there are 1001 alerts; max_alerts of the receiver must be at most 1000"),
        (json.dumps(RIGHT | {"truncatedAlerts": -1}).encode(),
         "truncatedAlerts is -1; it must be 0 to 1000000000"),
        (changed(status="on fire"),
         'alerts[0].status is "on fire"; it must be firing or resolved'),
        (changed(fingerprint=""),
         'alerts[0].fingerprint is ""; it must be 1 to 64 characters'),
        (changed(labels={"node": 3}),
         "alerts[0].labels is an object; it must be an object of texts"),
        (changed(labels=None), "alerts[0].labels is missing; it must be an object of texts"),
        (changed(startsAt="yesterday"),
         'alerts[0].startsAt is "yesterday"; it must be a time as in RFC 3339'),
        (changed(startsAt="2026-11-22T12:00:00"),
         'alerts[0].startsAt is "2026-11-22T12:00:00"; it must be a time as in RFC 3339'),
    ],
)  # fmt: skip
def test_a_malformed_body_is_refused_with_a_sentence(body, sentence) -> None:
    with pytest.raises(WebhookError) as told:
        parse(body)

    assert sentence == str(told.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(RIGHT["alerts"][0])), JSON, st.integers(0, 2000))
def test_whatever_comes_it_is_a_notification_or_a_sentence(field, value, cut) -> None:
    for body in (changed(**{field: value}), changed()[:cut]):
        try:
            said = f"{len(parse(body).alerts)} alerts"
        except WebhookError as error:
            said = str(error)
        assert said.isprintable()


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
