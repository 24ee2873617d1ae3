"""Notifications of an Alertmanager, right ones and all kinds of wrong ones."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.findings.alertmanager.webhook import (
    MAX_ALERTS,
    MAX_TEXT,
    Notification,
    ReceivedAlert,
    WebhookError,
    parse,
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
