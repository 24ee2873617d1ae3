"""Findings are acknowledged and silenced through Debian's Alertmanager, by who is logged in."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from streamlit.testing.v1 import AppTest

from lockstep.analyzer.findings.alertmanager.posting import alert_json
from lockstep.analyzer.findings.alertmanager.silences import (
    ACKNOWLEDGED,
    Silence,
    SilenceError,
    Silences,
    labels_of,
)
from lockstep.analyzer.findings.alerts import alert
from lockstep.analyzer.read.prometheus.access import access
from lockstep.analyzer.rules.alert_rules.shape import Addresses
from lockstep.dashboard.widgets import finding
from lockstep.dashboard.words import findings
from lockstep.workloads.launch.joining.reachable import free_port
from tests.dashboard.words.rows import FOUND

CONFIG = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"
PATIENCE = 60.0
LABELS = labels_of(FOUND.run, FOUND.node, FOUND.rank, FOUND.gpu, FOUND.link)


def made(*matchers: tuple[str, str, bool, bool], comment: str = "a ticket") -> Silence:
    return Silence("s-1", "bob", comment, time.time() + 60.0, matchers)


def test_a_silence_covers_what_all_its_matchers_match() -> None:
    assert made(("node", "node-1", False, True)).covers({"node": "node-1", "rank": "2"})
    assert not made(("node", "node-1", False, True)).covers({"node": "node-2"})
    assert made(("node", "node-.*", True, True)).covers({"node": "node-2"})
    assert not made(("node", "node-2", False, False)).covers({"node": "node-2"})
    assert made(("link", "", False, True)).covers({})


@pytest.mark.parametrize(
    "pattern", ["(node-1|node-2)", "(?:node-1|node-2)", "^(node|host)-(1|2)$", "node-(?:1|2)"]
)
def test_a_pattern_that_lists_names_in_a_group_is_read(pattern: str) -> None:
    assert made(("node", pattern, True, True)).covers({"node": "node-1"})
    assert not made(("node", pattern, True, True)).covers({"node": "node-12"})
    assert not made(("node", pattern, True, False)).covers({"node": "node-2"})


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*", "(?:a?)+", "(a|a)(a|a)(a|a)", "a*a*a*a*", "[", "x" * 5000]
)
def test_a_pattern_that_could_take_for_ever_is_not_asked(pattern: str) -> None:
    assert not made(("node", pattern, True, True)).covers({"node": "a" * 200 + "!"})


@pytest.mark.parametrize(
    "pattern", ["(node-1)*", "(?i)NODE-1", "(?<=x)", "a{2}", "[", "a*b*c*", "x" * 5000]
)
@pytest.mark.parametrize("equal", [True, False])
def test_a_pattern_that_is_not_read_covers_nothing(pattern: str, *, equal: bool) -> None:
    assert not made(("node", pattern, True, equal)).covers({"node": "node-1"})
    assert not made(("node", pattern, True, equal)).covers({"node": "node-7"})


@pytest.mark.parametrize(("state", "count"), [("active", 1), ("pending", 0), ("expired", 0)])
def test_only_a_silence_that_is_active_is_in_force(
    monkeypatch: pytest.MonkeyPatch, state: str, count: int
) -> None:
    there = Silences(access("http://127.0.0.1:9093", service="alertmanager"))
    told = {"id": "s-1", "status": {"state": state}, "endsAt": "2030-01-01T00:00:00Z",
            "matchers": [{"name": "node", "value": "node-1", "isRegex": False}]}  # fmt: skip
    monkeypatch.setattr(there, "_asked", lambda *_: [told])
    assert count == len(there.in_force())


def test_an_alertmanager_that_is_away_is_a_sentence() -> None:
    there = Silences(access(f"http://127.0.0.1:{free_port()}", service="alertmanager"))
    with pytest.raises(SilenceError, match="cannot be reached"):
        there.in_force()


def page() -> None:
    """What AppTest runs: the finding of the tests, with who is logged in from the environment."""
    import os

    from lockstep.dashboard.context import Settings
    from lockstep.dashboard.widgets import finding
    from tests.dashboard.words.rows import FOUND

    where = os.environ["LOCKSTEP_TEST_ALERTMANAGER"]
    login = os.environ["LOCKSTEP_TEST_LOGIN"] == "yes"
    finding.on_call(FOUND, Settings(login=login, alertmanager=where), "now")


def look(patch: pytest.MonkeyPatch, url: str, who: str = "alice", *, login: bool = True) -> AppTest:
    patch.setenv("LOCKSTEP_TEST_ALERTMANAGER", url)
    patch.setenv("LOCKSTEP_TEST_LOGIN", "yes" if login else "no")
    patch.setattr(finding, "reader", lambda: who)
    return AppTest.from_function(page, default_timeout=PATIENCE).run()


def words(app: AppTest) -> str:
    return "\n".join(str(each.value) for each in (*app.markdown, *app.caption)).replace("\\", "")


def test_without_an_alertmanager_there_is_no_button(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not look(monkeypatch, "").button


def test_an_alertmanager_that_is_away_leaves_the_page_standing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = look(monkeypatch, f"http://127.0.0.1:{free_port()}")
    assert "Who looks after this is unknown." in words(app)
    assert not app.button
    assert not app.exception


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if shutil.which("prometheus-alertmanager") is None:
        pytest.skip("prometheus-alertmanager is not installed")
    folder: Path = tmp_path_factory.mktemp("alertmanager")
    (folder / "config.yml").write_text(CONFIG)
    where = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        ["prometheus-alertmanager", f"--config.file={folder / 'config.yml'}",
         f"--storage.path={folder}", f"--web.listen-address={where}",
         "--cluster.listen-address="],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        end = time.monotonic() + PATIENCE
        while not _ready(where):
            assert time.monotonic() < end
            time.sleep(0.05)
        yield f"http://{where}"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _ready(where: str) -> bool:
    try:
        with urlopen(f"http://{where}/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def fire(url: str) -> None:
    """The alert as `lockstep watch` sends it."""
    watched = findings._as_watched(FOUND)
    told = alert_json(alert(watched, Addresses("", "", "")), time.time() + 600.0)
    request = Request(f"{url}/api/v2/alerts", json.dumps([told]).encode(),
                      {"Content-Type": "application/json"})  # fmt: skip
    urlopen(request, timeout=5).close()


def state(url: str, wanted: str) -> str:
    """Of the one alert, once it is what is wanted or patience ends."""
    end = time.monotonic() + PATIENCE
    while True:
        with urlopen(f"{url}/api/v2/alerts", timeout=5) as answer:
            told: list[dict[str, Any]] = json.load(answer)
        seen = told[0]["status"]["state"] if told else ""
        if seen == wanted or time.monotonic() > end:
            return seen
        time.sleep(0.05)


@pytest.mark.prometheus
def test_acknowledged_by_a_reader_the_alert_is_quiet_until_somebody_ends_it(
    monkeypatch: pytest.MonkeyPatch, alertmanager: str
) -> None:
    fire(alertmanager)
    assert "active" == state(alertmanager, "active")
    app = look(monkeypatch, alertmanager)

    app.button(key="now-acknowledge").click().run()

    assert "Acknowledged by alice, 4 h left" in words(app)
    assert "suppressed" == state(alertmanager, "suppressed")
    [one] = Silences(access(alertmanager, service="alertmanager")).in_force()
    assert (True, "alice") == (one.acknowledges, one.author)
    assert "now-acknowledge" not in [each.key for each in app.button]

    app.button(key=f"now-end-{one.id}").click().run()

    assert "active" == state(alertmanager, "active")


@pytest.mark.prometheus
def test_a_silence_says_who_and_why_and_for_how_long(
    monkeypatch: pytest.MonkeyPatch, alertmanager: str
) -> None:
    fire(alertmanager)
    there = Silences(access(alertmanager, service="alertmanager"))
    hostile = "[x](javascript:alert(1)) <script>"
    mark = there.silence(LABELS, 3600.0, hostile, "OPS-1", time.time())
    try:
        app = look(monkeypatch, alertmanager, "carol")
        assert "Silenced by" in words(app)
        assert "OPS-1" in words(app)
        shown = "\n".join(str(each.value) for each in app.markdown)
        assert r"\[x\]\(javascript" in shown
        assert r"\<script\>" in shown
    finally:
        there.end(mark)
    assert () == there.in_force()


@pytest.mark.prometheus
@pytest.mark.parametrize(("who", "login"), [("", True), ("alice", False)])
def test_who_is_not_logged_in_reads_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, alertmanager: str, who: str, login: bool
) -> None:
    there = Silences(access(alertmanager, service="alertmanager"))
    mark = there.silence(LABELS, 60.0, "bob", f"{ACKNOWLEDGED} bob", time.time())
    try:
        app = look(monkeypatch, alertmanager, who, login=login)
        assert "Acknowledged by bob" in words(app)
        assert not app.button
    finally:
        there.end(mark)


@pytest.mark.prometheus
def test_what_alertmanager_does_not_take_is_told_in_its_words(alertmanager: str) -> None:
    there = Silences(access(alertmanager, service="alertmanager"))
    with pytest.raises(SilenceError, match="answers 400"):
        there.silence(LABELS, -60.0, "bob", "in the past", time.time())
    with pytest.raises(SilenceError, match="silence not found"):
        there.end("00000000-0000-0000-0000-000000000000")
