"""A Prometheus that refuses, fails or is none: one sentence each, never with a credential in it.

And servers that answer otherwise than Prometheus.
"""

import json
import logging
import socket

import numpy as np
import pytest

from lockstep.analyzer.read.prometheus.access import RequestError, SourceError, access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.load import load_prometheus
from lockstep.analyzer.read.prometheus.servers import server
from tests.analyzer.read.prometheus.fake import NOW

SECRET = "hunter2-and-more"
RUN = "gpt-20261120T101500-3f2a"


def _said(status, error):
    body = json.dumps({"status": "error", "errorType": "bad_data", "error": error})
    return status, {"Content-Type": "application/json"}, body.encode()


def _asked(url, seconds=5.0):
    with Connection(access(url, {}), seconds=seconds, pause=0.0) as connection:
        return connection.now()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (_said(400, "1:5: parse error: unexpected end of input"), "answers 400: 1:5: parse error"),
        ((401, {}, b"Unauthorized"), "wants credentials; set LOCKSTEP_PROMETHEUS_TOKEN"),
        ((403, {}, b""), "these credentials may not read there"),
        ((404, {}, b"404 page not found"), "no Prometheus is there"),
        (_said(422, "query processing\nwould load too many samples"), "too many samples; a later"),
        ((429, {"Retry-After": "86400"}, b""), "overloaded or starting"),
        ((500, {}, b"<html>Internal error</html>"), "answers 500; it must be Prometheus' HTTP API"),
        (_said(503, "Service Unavailable"), "Service Unavailable; it is overloaded or starting"),
        ((302, {"Location": "https://sso.example/?to=x"}, b""), "a redirect to https://sso.example/;"),
        ((200, {}, b"<!doctype html><title>Grafana</title>"), "does not answer as a Prometheus"),
        ((200, {}, b""), "does not answer as a Prometheus"),
        ((200, {}, b"[" * 9000), "does not answer as a Prometheus"),
        ((200, {}, b'{"status":"success"}'), "does not answer as a Prometheus"),
        ((200, {}, b'{"data":{"result":[1,"soon"]}}'), "does not answer as a Prometheus"),
        ((400, {}, b'{"error":{"nested":1}}'), "answers 400; it must be"),
    ],
)  # fmt: skip
def test_every_answer_that_is_none_is_one_sentence(fake, answer, expected):
    fake.answer = answer
    with pytest.raises(SourceError) as failure:
        _asked(fake.url)

    sentence = str(failure.value)
    assert expected in sentence
    assert fake.url in sentence
    assert "\n" not in sentence


def test_half_a_body_is_told(fake):
    fake.cut = 5
    with pytest.raises(SourceError, match="ends too early"):
        _asked(fake.url)


def test_a_server_that_is_starting_is_asked_again(fake, monkeypatch):
    answers = [(503, {}, b""), (503, {}, b"")]
    tree = fake.respond
    monkeypatch.setattr(
        type(fake), "respond", lambda self, *words: answers.pop() if answers else tree(*words)
    )

    assert _asked(fake.url) > 0


def test_a_server_that_does_not_answer_is_not_waited_for(fake):
    fake.delay = 1.0
    with pytest.raises(SourceError, match="did not answer in time"):
        _asked(fake.url, seconds=0.2)


def test_a_refused_connection_is_told():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(SourceError, match=f"127.0.0.1:{port} cannot be reached"):
        _asked(f"http://127.0.0.1:{port}")


def test_a_name_that_nobody_knows_is_told():
    with pytest.raises(SourceError, match=r"no-such-host\.invalid cannot be reached"):
        _asked("http://no-such-host.invalid")


@pytest.mark.parametrize(
    "url",
    ["", "prometheus:9090", "ftp://host", "http://", "http://host:port", "http://host:99999",
     "http://[::1", "http://host/?a=b", "/tmp/prometheus"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url):
    with pytest.raises(RequestError, match="is no address; it must be http://HOST:PORT"):
        access(url, {})


def test_an_address_may_have_a_path_and_an_ipv6_host():
    assert "http://[::1]:9090/prometheus" == access("http://[::1]:9090/prometheus/", {}).url


@pytest.mark.parametrize(
    ("place", "environment", "expected"),
    [
        ("", {}, None),
        ("", {"LOCKSTEP_PROMETHEUS_TOKEN": f"{SECRET}\n"}, f"Bearer {SECRET}"),
        ("", {"LOCKSTEP_PROMETHEUS_USER": "ann", "LOCKSTEP_PROMETHEUS_PASSWORD": "b"},
         "Basic YW5uOmI="),
        ("ann:b@", {}, "Basic YW5uOmI="),
    ],
)  # fmt: skip
def test_credentials_of_environment_or_address_are_sent(fake, place, environment, expected):
    url = fake.url.replace("//", f"//{place}")
    with Connection(access(url, environment)) as connection:
        connection.now()
        connection.body("query", {"query": "lockstep_rank_up{}[5ms]", "time": "1"})

    assert expected == fake.headers.get("Authorization")
    assert place not in connection.url or not place


@pytest.mark.parametrize("status", [400, 401, 403, 302])
def test_no_credential_is_in_a_message_or_log(fake, caplog, status):
    caplog.set_level(logging.DEBUG)
    fake.answer = (status, {"Location": f"http://ann:{SECRET}@other/"}, b"")
    address = access(fake.url.replace("//", f"//ann:{SECRET}@"), {})
    with pytest.raises(SourceError) as failure, Connection(address) as connection:
        connection.now()

    assert SECRET not in f"{failure.value} {caplog.text} {address!r}"


def test_a_token_that_no_header_can_hold_is_refused():
    with pytest.raises(RequestError, match="no header can hold"):
        access("http://host", {"LOCKSTEP_PROMETHEUS_TOKEN": "a\nb"})


def test_an_unknown_run_is_told_with_those_that_there_are(fake):
    one = {"__name__": "lockstep_rank_up", "job": "j", "instance": "i", "rank": "0"}
    now = np.array([1_760_099_990_000])
    fake.series = [({**one, "run": name}, now, now * 0.0) for name in ("gpt-a", "gpt-b")]
    with pytest.raises(RequestError, match=f"has no run '{RUN}'; it has gpt-a, gpt-b"):
        load_prometheus(fake.url, RUN, environment={})


def test_a_prometheus_without_lockstep_is_told(fake):
    with pytest.raises(RequestError, match="has no training run; it must scrape Lockstep's"):
        load_prometheus(fake.url, RUN, environment={})


def test_a_span_without_the_run_says_when_it_was(fake):
    one = {"__name__": "lockstep_rank_up", "job": "j", "instance": "i", "rank": "0", "run": RUN}
    fake.series = [(one, np.array([1_760_000_000_000, 1_760_000_060_000]), np.ones(2))]
    with pytest.raises(RequestError, match=r"nothing of run .*; it has it from 2025-10-09T08:53"):
        load_prometheus(fake.url, RUN, since="1h", environment={})


def test_a_span_that_ends_before_it_begins_is_refused(fake):
    with pytest.raises(RequestError, match="is not before --until"):
        load_prometheus(fake.url, RUN, since="1h", until="2h", environment={})


@pytest.mark.parametrize("run", ['a"b', "a\\b", "a\nb", "{}", "ä", ".*"])
def test_a_run_id_is_a_text_and_no_query(fake, run):
    with pytest.raises(RequestError, match="has no training run"):
        load_prometheus(fake.url, run, environment={})


TIMES = np.asarray([NOW - 30, NOW - 15, NOW - 1]) * 1000


@pytest.mark.parametrize(
    ("build", "time", "name"),
    [
        ({"version": "2.42.0", "goVersion": "go1.19"}, [1.0, "1"], "Prometheus"),
        ({}, [{"metric": {}, "value": [1.0, "1"]}], "VictoriaMetrics"),
        ({"version": "2.24.0"}, [{"metric": {}, "value": [1.0, "1"]}], "VictoriaMetrics"),
        ({"application": "Grafana Mimir", "version": "2.10.0"}, [1.0, "1"], "Grafana Mimir"),
        ({"version": "0.34.1", "goVersion": "go1.21"}, [1.0, "1"], "Thanos"),
        ({}, [1.0, "1"], "a server with Prometheus' HTTP API"),
    ],
)
def test_a_server_is_known_by_what_it_says(build, time, name):
    assert name == server(build, time).name


@pytest.mark.parametrize(("victoria", "values"), [(True, [1.0, 1.0]), (False, [1.0, 1.0, np.nan])])
def test_the_end_of_a_series_is_no_sample_of_it(fake, victoria, values):
    fake.victoria = victoria
    labels = {"__name__": "lockstep_rank_up", "job": "lockstep", "instance": "n:9410"}
    fake.series = [(labels, TIMES.astype(np.int64), np.asarray([1.0, 1.0, np.nan]))]
    with Connection(access(fake.url, {})) as connection:
        (found,) = connection.samples("lockstep_rank_up{}[60000ms]", NOW)

    np.testing.assert_array_equal(values, found.values)


@pytest.mark.parametrize("victoria", [True, False])
def test_both_tell_the_time(fake, victoria):
    fake.victoria = victoria
    with Connection(access(fake.url, {})) as connection:
        assert NOW == connection.now()
