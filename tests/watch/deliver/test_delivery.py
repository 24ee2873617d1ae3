"""`POST /alertmanager` over HTTP, and findings handed to Alertmanagers."""

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockstep.analyzer.findings.alertmanager.service import Alertmanagers
from lockstep.analyzer.findings.alertmanager.webhook import MAX_BYTES, ReceivedAlert
from lockstep.analyzer.findings.alerts import of_alert
from lockstep.analyzer.findings.finding import WatchFinding
from lockstep.analyzer.rules.alert_rules.shape import Addresses
from lockstep.collector.config import Address
from lockstep.terminal.output import CommandError
from lockstep.watch import program
from lockstep.watch.archive.reports import Reports
from lockstep.watch.deliver.delivery import Delivery
from lockstep.watch.serve.server import Server
from tests.watch.conftest import DELIVERY

BODY = json.dumps({"version": "4", "alerts": []}).encode()


class FakeWatch:
    """What a delivery needs of a watch."""

    def __init__(self) -> None:
        self.on_change: list[Callable[..., None]] = []
        self.more_samples: list[Callable[..., object]] = []
        self.taken: Callable[..., object] | None = None
        self.reports = Reports()

    def taken_before(self) -> dict[str, frozenset[str]]:
        return {}

    def findings(self) -> tuple[WatchFinding, ...]:
        return ()

    def closed_lately(self) -> tuple[WatchFinding, ...]:
        return ()

    def live(self, node: str | None) -> tuple[str, ...]:
        return ()

    def archive(self, finding: WatchFinding) -> Path:
        raise OSError(finding.folder)


@pytest.fixture
def post(tmp_path) -> Iterator[Callable[..., tuple[int, str]]]:
    """`post(body, header=value)`: status and sentence."""
    (tmp_path / "token").write_text("secret")
    delivery = Delivery(FakeWatch(), (), tmp_path, tmp_path / "token")  # type: ignore[arg-type]
    server = Server(Address("127.0.0.1", 0), delivery.routes, program.MOST_BYTES)
    server.start()

    def ask(body: bytes, method: str = "POST", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(*server.address, timeout=20)
        told = {"Content-Type": "application/json"} | headers
        connection.request(method, "/alertmanager", body, told)
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        return answer.status, said.strip()

    yield ask
    server.stop()


def test_a_webhook_is_taken_with_its_token_only(post) -> None:
    assert (200, "took 0 alerts") == post(BODY, Authorization="Bearer secret")
    assert (401, "a bearer token is needed") == post(BODY)


def test_a_body_that_is_too_large_or_wrong_is_refused(post) -> None:
    right = {"Authorization": "Bearer secret"}

    assert 413 == post(b" " * (MAX_BYTES + 1), **right)[0]
    assert (400, 'version is "3"; it must be "4"') == post(b'{"version": "3"}', **right)
    assert 405 == post(b"", "GET", **right)[0]


def test_the_server_reads_as_much_as_a_webhook_may_have() -> None:
    assert program.MOST_BYTES == MAX_BYTES


def test_without_a_folder_there_are_no_post_mortems() -> None:
    assert () == Delivery(FakeWatch(), (), None, None).routes  # type: ignore[arg-type]


def test_an_address_that_is_none_ends_the_start() -> None:
    with pytest.raises(CommandError, match="--alertmanager nowhere is no address") as refused:
        Delivery(FakeWatch(), ("nowhere",), None, None)  # type: ignore[arg-type]

    assert 64 == refused.value.code


def test_every_metric_of_delivery_is_a_row_and_every_row_is_on_the_page(tmp_path) -> None:
    from lockstep.collector.contract.metric_rows import analyzer as rows
    from lockstep.collector.contract.metric_rows.shape import Metric

    watch = FakeWatch()
    Delivery(watch, ("http://127.0.0.1:9",), tmp_path, None)  # type: ignore[arg-type]
    shown = {sample.metric.name for sample in watch.more_samples[0]()}

    every = {one.name for one in vars(rows).values() if isinstance(one, Metric)}
    assert {name for name in every if DELIVERY.match(name)} == shown


def test_alerts_point_to_the_addresses_that_watch_was_given(monkeypatch) -> None:
    told = []
    monkeypatch.setattr(Alertmanagers, "want", lambda _, alerts, over: told.extend(alerts))
    watch = FakeWatch()
    where = Addresses(runbooks="https://wiki/r", dashboard="https://d", grafana="https://g/d")
    Delivery(watch, (), None, None, where)  # type: ignore[arg-type]
    event = ReceivedAlert("f", True, {"alertname": "X"}, {}, 1.0, None)
    watch.on_change[0]([of_alert(event, "gpt", 2.0)], [], [])

    assert ["https://wiki/r/LockstepFinding.md"] == [
        alert.annotations["runbook_url"] for alert in told
    ]
