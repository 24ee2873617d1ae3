"""Findings through Debian's Alertmanager: to a webhook and to Slack, once, escaped, and ended."""

import json
import queue
import re
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from analyzer.alertmanager.alert import Alert
from analyzer.alertmanager.fan_out import Alertmanagers
from analyzer.alertmanager.webhook import parse
from collector.clock import SystemClock
from tests.deploy.standalone import Standalone

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.skipif(
        shutil.which("prometheus-alertmanager") is None,
        reason="prometheus-alertmanager is not installed",
    ),
]
HOSTILE = "<!channel> & <script>\"'\n🦀"
PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def receiver() -> Iterator[tuple[str, dict[str, "queue.Queue[bytes]"]]]:
    """(Address, path -> bodies that were posted there)."""
    came: dict[str, queue.Queue[bytes]] = {"/alertmanager": queue.Queue(), "/slack": queue.Queue()}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            right = self.path == "/slack" or self.headers["Authorization"] == "Bearer secret"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not right:
                self.send_error(401)
                return
            came[self.path].put(body)
            self.send_response(200)
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
def alertmanager(tmp_path_factory, receiver) -> Iterator[str]:
    """URL of one with the standalone configuration, its example of Slack included."""
    address, _ = receiver
    there = Standalone(tmp_path_factory.mktemp("alertmanager"))
    there.token.parent.mkdir(parents=True)
    there.token.write_text("secret")
    config = there.folder / "etc" / "alertmanager.yml"
    secret = there.folder / "etc" / "slack-url"
    secret.write_text(f"http://{address}/slack")
    text = config.read_text().replace(there.values["127.0.0.1:9411"], address)
    for slow, quick in (("group_wait: 10s", "group_wait: 0s"), ("interval: 5s", "interval: 1s")):
        text = text.replace(slow, quick)  # people wait, tests need not
    config.write_text(with_slack(text).replace("/etc/alertmanager/slack-url", str(secret)))
    with there.running("alertmanager"):
        yield there.alertmanager


def with_slack(text: str) -> str:
    """The configuration with its example of Slack uncommented."""
    routes, receiver = text.split("# - name: slack", 1)
    routes = re.sub(
        r"^( *)# (- matchers: .*|  receiver: slack|  continue: true)$", r"\1\2", routes,
        flags=re.MULTILINE,
    )  # fmt: skip
    return routes + "- name: slack" + re.sub(r"^# ?", "", receiver, flags=re.MULTILINE)


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


def test_a_finding_arrives_at_the_webhook_with_its_labels_and_ends(receiver, findings) -> None:
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


def test_slack_is_told_of_hostile_names_without_being_commanded(receiver, findings) -> None:
    _, came = receiver
    findings.want([finding(HOSTILE)])
    said = b""
    while b"script" not in said:
        said = came["/slack"].get(timeout=PATIENCE_SECONDS)
    [attachment] = json.loads(said)["attachments"]
    shown = attachment["title"] + attachment["text"]

    assert "&lt;!channel&gt; &amp; &lt;script&gt;" in attachment["text"]
    assert [] == re.findall(r"<(?!https://lockstep\.example/[^<>|]*\|runbook>)", shown)


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
