"""Webhooks that no Alertmanager sends: the page of watch stays one that every parser reads."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from lockstep.analyzer.findings.alertmanager.webhook import MAX_ALERTS, MAX_BYTES
from lockstep.collector.exporter.page import Form, render
from lockstep.watch.deliver.webhook import Webhook, ensure_token_file
from tests.attack.bounds import times
from tests.attack.watch_program import WatchProgram, watching

HUGE = 10**400
ALERT = {
    "status": "firing", "fingerprint": "58a2f1d8a1a5cf0e", "labels": {"alertname": "X"},
    "annotations": {}, "startsAt": "2026-11-22T12:00:00Z", "endsAt": "0001-01-01T00:00:00Z",
}  # fmt: skip
BODY = {"version": "4", "truncatedAlerts": 0, "alerts": [ALERT]}


@pytest.fixture(scope="module")
def watch(tmp_path_factory):
    # Nobody is at port 9: there is nothing to watch, and the page is there.
    with watching("http://127.0.0.1:9", tmp_path_factory.mktemp("watch")) as one:
        yield one


def post(watch: WatchProgram, body: bytes | dict, **headers: str) -> tuple[int, str]:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return watch.ask("/alertmanager", sent, **headers)


def counted(watch: WatchProgram) -> dict[str, float]:
    page = watch.ask("/metrics")[1]
    return {
        f"{sample.name} {sample.labels.get('result', '')}".strip(): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "webhook" in sample.name and sample.value
    }


@pytest.mark.distributed
@pytest.mark.parametrize(
    "body",
    [
        BODY | {"truncatedAlerts": HUGE},
        BODY | {"truncatedAlerts": 1e308 * 10},
        BODY | {"truncatedAlerts": 10**10},
        BODY | {"truncatedAlerts": -HUGE},
        BODY | {"alerts": [ALERT] * (MAX_ALERTS + 1)},
        BODY | {"alerts": [ALERT | {"startsAt": HUGE}]},
        BODY | {"alerts": [ALERT | {"fingerprint": "\ud800"}]},
        BODY | {"alerts": [ALERT | {"labels": {"a" * 2000: "b"}}]},
        BODY | {"alerts": [ALERT | {"labels": {"a": "\ud800"}}]},
        b'{"version": "4", "alerts": ' + b"[" * 100_000,
        b'{"version": "4", "alerts": [], "a": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
        b'{"version": "4", "alerts": [], "truncatedAlerts": 1' + b"0" * 1_000_000 + b"}",
    ],
    ids=range(12),
)
def test_a_webhook_out_of_bounds_is_refused_counted_and_leaves_the_page_whole(watch, body):
    before = counted(watch)
    status, said = post(watch, body)
    now = counted(watch)

    assert 400 == status, said
    assert len(said) < 400
    assert 1 == now["lockstep_analyzer_webhooks_total malformed"] - before.get(
        "lockstep_analyzer_webhooks_total malformed", 0
    )
    assert now.keys() - before.keys() <= {"lockstep_analyzer_webhooks_total malformed"}


@pytest.mark.distributed
def test_one_that_is_too_large_is_refused_as_that(watch):
    assert 413 == post(watch, b" " * (MAX_BYTES + 1))[0]
    assert 200 == post(watch, BODY | {"truncatedAlerts": 3})[0]


@pytest.mark.distributed
@pytest.mark.parametrize(
    ("expected", "headers"),
    [
        (401, {"Authorization": ""}),
        (401, {"Authorization": "Bearer guessed"}),
        (403, {"Origin": "https://evil.example"}),
        (403, {"Origin": "null"}),
        (403, {"Sec_Fetch_Site": "cross-site"}),
        (415, {"Content_Type": "text/plain"}),
        (415, {"Content_Type": "application/x-www-form-urlencoded"}),
        (415, {"Content_Type": "multipart/form-data; boundary=a"}),
        (421, {"Host": "evil.example"}),
        (421, {"Host": "evil.example:9411"}),
    ],
)
def test_a_page_of_the_web_posts_nothing(watch, expected, headers):
    assert expected == post(watch, BODY, **headers)[0]


@pytest.mark.distributed
@pytest.mark.parametrize("path", ["/metrics", "/-/healthy", "/healthz"])
def test_by_a_name_that_was_led_here_nothing_is_read(watch, path):
    assert 200 == watch.ask(path)[0]
    assert 200 == watch.ask(path, Host=f"localhost:{watch.address[1]}")[0]
    status, said = watch.ask(path, Host="rebound.evil.example:9411")

    assert (421, True) == (status, said.startswith("the Host must be one of"))


@pytest.mark.distributed
def test_the_token_is_its_owners_and_told_nowhere(watch):
    path = watch.folder / "state" / "webhook-token"

    assert 0o600 == path.stat().st_mode & 0o777
    assert str(path) in watch.log()
    assert watch.token not in watch.log()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(10**15, 10**4000) | st.floats()
    | st.text() | st.sampled_from([HUGE, -HUGE, "\ud800", "\x00", '"} 1\n# HELP x', "firing"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@settings(
    max_examples=times(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(
    st.dictionaries(st.sampled_from(sorted(BODY)), JSON),
    st.dictionaries(st.sampled_from(sorted(ALERT)), JSON),
    st.binary(max_size=3),
    st.integers(0, 400),
)
def test_whatever_is_posted_every_parser_reads_the_page(tmp_path, whole, alert, noise, at):
    taken: list[object] = []
    webhook = Webhook(lambda told: taken.append(told) is None, ensure_token_file(tmp_path))
    body = json.dumps({**BODY, "alerts": [ALERT | alert], **whole}).encode()
    for sent in (body, body[:at] + noise + body[at + len(noise) :]):
        status, said = webhook.answer(sent)
        assert status in (200, 400, 413)
        assert said.isprintable()

    samples = list(webhook.samples())
    text = render(samples)
    assert 2 == sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "lockstep_analyzer_webhooks_total"
    )
    assert list(openmetrics_families(render(samples, Form.OPENMETRICS)))
