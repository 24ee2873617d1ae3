"""One Alertmanager that fails in every way, and what it, the log and the page are told."""

import logging

import pytest

from lockstep.analyzer.findings.alertmanager.outbox import MAX_ALERTS
from lockstep.analyzer.findings.alertmanager.posting import Alert, post
from lockstep.analyzer.findings.alertmanager.replica import Replica
from lockstep.analyzer.findings.alertmanager.service import Alertmanagers
from lockstep.analyzer.read.prometheus.access import RequestError, access
from lockstep.collector.contract import threads


@pytest.fixture
def replica(clock):
    return lambda url: Replica(access(url, {}, "alertmanager"), clock.unix, clock.monotonic)


def test_an_alert_fires_for_an_hour_and_ends_when_it_is_no_more_wanted(
    server, replica, clock, alert
) -> None:
    there = server()
    to = replica(there.url)
    to.want([alert(gpu="", rank="3")])
    to.work()
    clock.now, there.clock = 80.0, there.clock + 80.0
    to.want([])
    to.work()
    fires, ends = (body[0] for body in there.bodies)

    assert {
        "labels": {"alertname": "LockstepFinding", "node": "node-3", "rank": "3", "run": "gpt"},
        "annotations": {"summary": "Rank 3 is slow."},
        "startsAt": "1970-01-01T00:16:40.000+00:00",
        "endsAt": "2027-01-15T09:00:00.000+00:00",
    } == fires
    assert fires["labels"] == ends["labels"]
    assert "2027-01-15T08:01:20.000+00:00" == ends["endsAt"]
    assert 2 == to.counts["delivered"]


def test_a_server_error_is_tried_again_and_told_once_each_way(
    server, replica, clock, alert, caplog
) -> None:
    there = server()
    there.answers = [(503, b'"starting"'), (500, b"\x00\xff<html>"), (200, b"")]
    to = replica(there.url)
    to.want([alert()])
    with caplog.at_level(logging.WARNING):
        for now in (0.0, 0.5, 1.0, 3.0):
            clock.now = now
            to.work()

    assert 3 == len(there.bodies)
    assert {"status": 2, "delivered": 1, "dropped": 0} == dict(to.counts)
    first, second, third = (record.getMessage() for record in caplog.records)
    assert f"Alertmanager {there.url}: it answers 503: starting; its alerts wait" in first
    assert "it answers 500: ?\ufffd<html>" in second
    assert f"Alertmanager {there.url} takes alerts again" == third


def test_one_wrong_alert_is_named_and_keeps_no_other_back(server, replica, alert, caplog) -> None:
    there = server()
    there.answers = [(400, b'"bad"'), (200, b""), (400, b'"invalid label set:\\nnode"'), (200, b"")]
    to = replica(there.url)
    to.want([alert("node-1"), alert("bad\nnode"), alert("node-2")])
    with caplog.at_level(logging.ERROR):
        to.work()
        to.work()

    assert [3, 1, 1, 1] == [len(body) for body in there.bodies]
    assert {"delivered": 2, "rejected": 1, "dropped": 0} == dict(to.counts)
    [said] = [record.getMessage() for record in caplog.records]
    assert (
        f"Alertmanager {there.url} refuses an alert, it answers 400: invalid label set: node:"
        " alertname='LockstepFinding', node='bad\\nnode', run='gpt'"
    ) == said


def test_an_alertmanager_that_is_not_there_costs_a_sentence(replica, alert, caplog, clock) -> None:
    to = replica("http://127.0.0.1:9")
    to.want([alert()])
    with caplog.at_level(logging.WARNING):
        for now in (0.0, 1.0, 3.0):
            clock.now = now
            to.work()

    assert 3 == to.counts["unreachable"]
    [said] = [record.getMessage() for record in caplog.records]
    assert (
        "Alertmanager http://127.0.0.1:9: it cannot be reached; its alerts wait and are sent"
        " again, in 1 s first"
    ) == said


def test_a_silent_one_is_left_after_its_time(server, replica, alert, monkeypatch) -> None:
    monkeypatch.setattr("lockstep.analyzer.findings.alertmanager.posting.ANSWER_SECONDS", 0.05)
    there = server()
    there.hold.clear()
    to = replica(there.url)
    to.want([alert()])
    to.work()

    assert {"timeout": 1, "dropped": 0} == dict(to.counts)


def test_a_redirect_is_not_followed_with_our_credentials(server, clock, alert, caplog) -> None:
    there = server()
    there.answers = [(307, b"")]
    to = Replica(
        access(there.url, {"LOCKSTEP_ALERTMANAGER_TOKEN": "secret"}, "alertmanager"),
        clock.unix, clock.monotonic,
    )  # fmt: skip
    to.want([alert()])
    to.work()

    assert "Bearer secret" == there.headers[0]["Authorization"]
    assert "prefix?" in caplog.text
    assert "secret" not in caplog.text


def test_an_alert_that_nobody_took_in_time_is_said_to_be_told_late(replica, alert, caplog) -> None:
    to = replica("http://127.0.0.1:9")
    to.want([alert()])
    to.work()
    to.want([])

    assert 0 == to.counts["dropped"]
    assert "over now; it is sent late: alertname='LockstepFinding'" in caplog.text


def test_one_that_hangs_does_not_keep_the_other_waiting(server, alert, clock) -> None:
    slow, quick = server(), server()
    slow.hold.clear()
    both = Alertmanagers([slow.url, quick.url], clock.unix)
    both.start()
    both.want([alert()])

    assert quick.came.acquire(timeout=10)
    assert slow.came.acquire(timeout=10)
    slow.hold.set()
    both.stop()
    assert [1, 1] == [len(each.bodies) for each in (slow, quick)]


def test_all_are_told_to_end_before_any_is_waited_for(clock, monkeypatch) -> None:
    done: list[tuple[str, float]] = []

    class Hanging(Replica):
        def end(self) -> None:
            done.append(("end", 0.0))

        def join(self, seconds: float) -> None:
            done.append(("join", seconds))
            monkeypatch.setattr(
                "lockstep.analyzer.findings.alertmanager.service.time.monotonic", lambda: 1e9
            )

    monkeypatch.setattr("lockstep.analyzer.findings.alertmanager.service.Replica", Hanging)
    Alertmanagers(["http://127.0.0.1:9"] * 3, clock.unix).stop()

    assert ["end"] * 3 + ["join"] * 3 == [what for what, _ in done]
    assert [0.0, 0.0] == [seconds for _, seconds in done[-2:]]


def test_too_many_findings_are_counted_and_said(alert, clock, caplog) -> None:
    every = [alert(f"node-{number}") for number in range(MAX_ALERTS + 2)]
    both = Alertmanagers(["http://127.0.0.1:9"], clock.unix)
    both.want(every)
    both.want(every)
    page = {(sample.metric.name, sample.labels): sample.value for sample in both.samples()}

    assert 2 == page["lockstep_analyzer_alerts_dropped_total", ("http://127.0.0.1:9",)]
    [said] = [record.getMessage() for record in caplog.records]
    assert "1002 findings are open; Alertmanager gets the first 1000 only" == said


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(RequestError, match="--alertmanager localhost:9093 is no address"):
        Alertmanagers(["localhost:9093"], lambda: 0.0)


def test_text_that_utf_8_cannot_say_is_sent_all_the_same(server, replica) -> None:
    there = server()
    to = replica(there.url)
    to.want([Alert({"run": "half \ud83d"}, {"summary": "\ud83d"}, 0.0)])
    to.work()

    assert [{"run": "half ?"}] == [body[0]["labels"] for body in there.bodies]


@pytest.mark.parametrize(
    ("ahead", "own"), [(-600.0, "2027-01-15T08:50:00"), (600.0, "2027-01-15T09:10:00")]
)
def test_an_alertmanager_with_another_clock_is_told_its_own_times(
    replica, server, alert, clock, caplog, ahead, own
) -> None:
    there = server()
    there.clock = clock.unix() + ahead
    to = replica(there.url)
    to.want([alert()])
    to.work()
    ends = [body[0]["endsAt"] for body in there.bodies]

    assert ["2027-01-15T09:00:00.000+00:00", f"{own}.000+00:00"] == ends
    assert 1 == to.counts["delivered"]
    assert f"the clock of Alertmanager {there.url} is {ahead:+.0f} s from ours" in caplog.text


@pytest.mark.parametrize(
    "date",
    [
        "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 -2300",
        "Wed, 31 Dec 1969 23:59:59 -0000", "Mon, 01 Jan 1900 00:00:00 +2300", "Thu, 01 Jan 3000",
        "Wed, 31 Feb 2026 25:61:61 GMT", "Mon, 01 Jan 99999999999 00:00:00 GMT", "", "\xff" * 40,
    ],
)  # fmt: skip
def test_a_date_that_no_clock_can_show_is_no_date(server, replica, clock, alert, date) -> None:
    there = server()
    there.more_headers = {"Date": date}
    to = replica(there.url)
    to.want([alert()])
    to.work()

    assert 1 == to.counts["delivered"]
    assert ["2027-01-15T09:00:00.000+00:00"] == [body[0]["endsAt"] for body in there.bodies]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    "location",
    [
        "http://[::1",
        "http://a:99999999/",
        "//[",
        "http://\xff\xfe/",
        "http://a b/\x80",
        "%zz://",
    ],
)
def test_a_redirect_to_no_address_is_a_failed_request_that_is_tried_again(
    server, replica, clock, alert, status, location
) -> None:
    there = server()
    there.answers, there.more_headers = [(status, b""), (200, b"")], {"Location": location}
    to = replica(there.url)
    to.want([alert()])
    to.work()
    failed = dict(to.counts)
    clock.now = 30.0
    to.work()

    assert {"status": 1, "dropped": 0} == failed
    assert 1 == to.counts["delivered"]


def test_a_bug_in_sending_is_counted_and_the_next_try_is_made(
    server, clock, alert, monkeypatch, caplog
) -> None:
    there, tries = server(), []

    def send(session, access, alerts):
        tries.append(len(alerts))
        if len(tries) == 1:
            raise RuntimeError("nobody thought of this")
        return post(session, access, alerts)

    monkeypatch.setattr(threads, "FIRST_PAUSE_SECONDS", 0.05)
    before = failures("alertmanager")
    to = Replica(access(there.url, {}, "alertmanager"), clock.unix, clock.monotonic, send)
    to.want([alert()])
    to.start()
    try:
        assert there.came.acquire(timeout=30)
    finally:
        to.end()
        to.join(30)

    assert before + 1 == failures("alertmanager")
    assert "thread alertmanager failed" in caplog.text


def failures(name: str) -> float:
    told = {labels: value for _, labels, value in threads.samples()}
    return told.get((name,), 0.0)
