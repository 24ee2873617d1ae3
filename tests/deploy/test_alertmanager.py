"""Findings through Debian's Alertmanager to a webhook, Slack, PagerDuty and a mailbox."""

import json
import queue
import re
import shutil
import socketserver
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lockstep.analyzer.findings.alertmanager import outbox
from lockstep.analyzer.findings.alertmanager.posting import Alert
from lockstep.analyzer.findings.alertmanager.service import Alertmanagers
from lockstep.analyzer.findings.alertmanager.webhook import parse
from lockstep.analyzer.findings.alerts import alert as alert_of
from lockstep.analyzer.findings.finding import Who
from lockstep.analyzer.rules.alert_rules.shape import Addresses
from lockstep.collector.clock import SystemClock
from tests.analyzer.findings.test_headline import SLOW
from tests.deploy.standalone import Standalone
from tests.deploy.test_alertmanager_config import EXAMPLE

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.skipif(
        shutil.which("prometheus-alertmanager") is None,
        reason="prometheus-alertmanager is not installed",
    ),
]
HOSTILE = "<!channel> & <script>\"'\n🦀"
PATIENCE_SECONDS = 30.0
WHERE = Addresses(
    "https://wiki/r", "https://pages", "https://grafana/d", "https://watch/findings", "https://prom"
)
PATHS = ("/alertmanager", "/slack", "/pagerduty")


@pytest.fixture(scope="module")
def receiver() -> Iterator[tuple[str, dict[str, "queue.Queue[bytes]"]]]:
    """(Address, path -> bodies that were posted there)."""
    came: dict[str, queue.Queue[bytes]] = {path: queue.Queue() for path in PATHS}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            right = self.path != "/alertmanager" or self.headers["Authorization"] == "Bearer secret"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not right:
                self.send_error(401)
                return
            came[self.path].put(body)
            # PagerDuty's event is taken with 202, and Alertmanager asks for that.
            self.send_response(202 if self.path == "/pagerduty" else 200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", came
        server.shutdown()


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory, receiver, mailbox) -> Iterator[str]:
    """URL of one with the standalone configuration, its examples included."""
    there = configured(tmp_path_factory.mktemp("alertmanager"), receiver[0], mailbox[0], "0s")
    with there.running("alertmanager"):
        yield there.alertmanager


def configured(folder: Path, address: str, smtp: str, group_wait: str) -> Standalone:
    """The standalone configuration with its examples, for these receivers."""
    there = Standalone(folder)
    there.token.parent.mkdir(parents=True)
    there.token.write_text("secret")
    config = there.folder / "etc" / "alertmanager.yml"
    secret = there.folder / "etc" / "slack-url"
    secret.write_text(f"http://{address}/slack")
    (there.folder / "etc" / "pagerduty-key").write_text("key")
    text = config.read_text().replace(there.values["127.0.0.1:9411"], address)
    for slow, quick in (
        ("group_wait: 1s", f"group_wait: {group_wait}"),
        ("interval: 5s", "interval: 1s"),
    ):
        text = text.replace(slow, quick)  # people wait, tests need not
    text = with_examples(text).replace("/etc/alertmanager/", f"{there.folder}/etc/")
    text = text.replace("https://events.pagerduty.com/v2/enqueue", f"http://{address}/pagerduty")
    config.write_text(text.replace("localhost:25", smtp))
    return there


def with_examples(text: str) -> str:
    """The configuration with its examples uncommented."""
    return EXAMPLE.sub(r"\1\2", text)


@pytest.fixture(scope="module")
def mailbox() -> Iterator[tuple[str, "queue.Queue[EmailMessage]"]]:
    """(Address, mails that were sent there); as much of SMTP as Alertmanager speaks."""
    came: queue.Queue[EmailMessage] = queue.Queue()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                word = line[:4].upper()
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    text = b"".join(iter(self.rfile.readline, b".\r\n"))
                    came.put(message_from_bytes(text, _class=EmailMessage, policy=policy.default))
                self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
                if word == b"QUIT":
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}", came
        server.shutdown()


@pytest.fixture
def findings(alertmanager) -> Iterator[Alertmanagers]:
    sender = Alertmanagers([alertmanager], SystemClock().wall)
    sender.start()
    yield sender
    sender.stop()


def finding(node: str, **labels: str) -> Alert:
    every = {"alertname": "LockstepFinding", "run": f"run of {node}", "node": node,
             "severity": "critical", **labels}  # fmt: skip
    words = {"summary": f"{node} is slow.", "description": f"for: {node} is hot",
             "runbook_url": "https://lockstep.example/runbooks/LockstepFinding.md"}  # fmt: skip
    return Alert(every, words, SystemClock().wall())


def firing(url: str) -> list[dict[str, object]]:
    with urllib.request.urlopen(f"{url}/api/v2/alerts", timeout=10) as answer:
        return list(json.load(answer))


def told_of(came: queue.Queue[bytes], node: str, firing: bool):  # type: ignore[no-untyped-def]
    """The next that is said of this node: others may still be told of."""
    while True:
        for each in parse(came.get(timeout=PATIENCE_SECONDS)).alerts:
            if (node, firing) == (each.labels["node"], each.firing):
                return each


def test_a_finding_arrives_at_the_webhook_with_its_labels_and_ends(
    receiver, findings, monkeypatch
) -> None:
    monkeypatch.setattr(outbox, "LATE_SECONDS", 1.0)
    _, came = receiver
    one = finding("node-7", rank="7")
    findings.want([one])
    begun = told_of(came["/alertmanager"], "node-7", firing=True)

    assert (dict(one.key), one.annotations["summary"]) == (
        begun.labels, begun.annotations["summary"],
    )  # fmt: skip
    assert abs(one.starts_at - begun.starts_at) < 0.01
    findings.want([])
    assert begun.key == told_of(came["/alertmanager"], "node-7", firing=False).key


def test_people_hear_of_what_was_over_before_their_group_was_told(
    tmp_path, receiver, mailbox, monkeypatch
) -> None:
    monkeypatch.setattr(outbox, "LATE_SECONDS", 8.0)
    there = configured(tmp_path, receiver[0], mailbox[0], "4s")
    with there.running("alertmanager"):
        sender = Alertmanagers([there.alertmanager], SystemClock().wall)
        sender.start()
        sender.want([finding("node-9")])
        deadline = SystemClock().wall() + PATIENCE_SECONDS
        while not sender.taken()[there.alertmanager] and SystemClock().wall() < deadline:
            time.sleep(0.05)
        sender.want([])
        came = receiver[1]["/alertmanager"]

        assert told_of(came, "node-9", firing=True).starts_at
        assert told_of(came, "node-9", firing=False).ends_at
        sender.stop()


def test_people_are_told_who_and_what_to_do_wherever_they_read_it(
    receiver, mailbox, findings
) -> None:
    _, came = receiver
    one = alert_of(replace(SLOW, who=Who("a run", "node-8", 8, 0, None), onset=990.0), WHERE)
    findings.want([one])
    line = one.annotations["summary"]
    slack = attachment(came["/slack"], "node-8")
    page = json.loads(said(came["/pagerduty"], b"node-8"))
    mail = mailbox[1].get(timeout=PATIENCE_SECONDS)
    while "node-8" not in str(mail["Subject"]):
        mail = mailbox[1].get(timeout=PATIENCE_SECONDS)
    [plain] = [part for part in mail.walk() if part.get_content_type() == "text/plain"]
    [html] = [part for part in mail.walk() if part.get_content_type() == "text/html"]

    assert line.startswith("node-8 GPU 0 (rank 8) 1.48x slower since 00:16:30 UTC")
    assert (line, line, line) == (slack["title"], page["payload"]["summary"], mail["Subject"])
    assert ("critical", "node-8", "a run") == tuple(
        page["payload"][name] for name in ("severity", "component", "group")
    )
    for text in (slack["text"], page["payload"]["custom_details"]["text"], plain.get_content()):
        assert "kubectl cordon node-8" in text.replace("&amp;", "&")
        assert "Place: high (0.98). Cause: its GPU is too hot, high (0.93)." in text
        for link in ("report_url", "dashboard_url", "runbook_url"):
            assert one.annotations[link] in text
        assert one.source in text
    assert "report</a>" in html.get_content()


def test_nobody_is_commanded_by_hostile_names(receiver, mailbox, findings) -> None:
    _, came = receiver
    findings.want([finding(HOSTILE)])
    shown = attachment(came["/slack"], "script")
    mail = mailbox[1].get(timeout=PATIENCE_SECONDS)
    while "script" not in str(mail):
        mail = mailbox[1].get(timeout=PATIENCE_SECONDS)
    [html] = [part for part in mail.walk() if part.get_content_type() == "text/html"]

    assert "&lt;!channel&gt; &amp; &lt;script&gt;" in shown["title"]
    assert [] == re.findall(
        r"<(?!https://lockstep\.example/[^<>|]*\|runbook>)", shown["title"] + shown["text"]
    )
    assert "<script" not in html.get_content()


def said(came: "queue.Queue[bytes]", word: bytes) -> bytes:
    """The next body in which a word is: others may still be told of."""
    body = b""
    while word not in body:
        body = came.get(timeout=PATIENCE_SECONDS)
    return body


def attachment(came: "queue.Queue[bytes]", word: str) -> dict[str, str]:
    """What Slack is told of a word."""
    [shown] = json.loads(said(came, word.encode()))["attachments"]
    return dict(shown)


def test_the_same_labels_from_a_rule_are_the_same_alert(alertmanager, findings, receiver) -> None:
    _, came = receiver
    one = finding("node-9", cause="thermal", tier="page")
    body = json.dumps([{"labels": dict(one.key), "annotations": {"summary": "By the rule."}}])
    urllib.request.urlopen(
        urllib.request.Request(
            f"{alertmanager}/api/v2/alerts", body.encode(), {"Content-Type": "application/json"}
        ),
        timeout=10,
    ).close()
    findings.want([one])
    told: list[str] = []
    while "node-9" not in told:
        told = [
            each.labels["node"]
            for each in parse(came["/alertmanager"].get(timeout=PATIENCE_SECONDS)).alerts
        ]

    assert 1 == sum(each["labels"] == dict(one.key) for each in firing(alertmanager))


def test_an_alert_that_is_refused_is_said_and_the_others_arrive(
    findings, receiver, caplog, alertmanager
) -> None:
    _, came = receiver
    right = finding("node-11")
    findings.want([finding("node-10", **{"no-name": "x"}), right])
    told: list[str] = []
    while "node-11" not in told:
        told = [
            each.labels["node"]
            for each in parse(came["/alertmanager"].get(timeout=PATIENCE_SECONDS)).alerts
        ]

    findings.stop()  # when it has said what it has to say
    assert f"Alertmanager {alertmanager} refuses an alert, it answers 400: " in caplog.text
    assert "no-name" in caplog.text
