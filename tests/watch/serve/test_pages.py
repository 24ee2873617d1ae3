"""What watch serves beside metrics: its runbooks, and reports of findings, and nothing else."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.analyzer.findings.alerts import alert
from lockstep.analyzer.rules.alert_rules.shape import PLACEHOLDERS, Addresses
from lockstep.collector.config import Address
from lockstep.terminal.output import CommandError
from lockstep.watch.serve.pages import addresses, routes, served
from lockstep.watch.serve.server import Server
from tests.analyzer.findings.test_headline import SLOW


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "findings" / SLOW.folder
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<!doctype html>")
    (folder / "run.json").write_text("{}")
    (folder / "finding.json").symlink_to("/etc/passwd")
    (tmp_path / "report.html").write_text("not to be served")
    return tmp_path / "findings"


@pytest.fixture
def server(out: Path) -> Iterator[Server]:
    made = Server(Address("127.0.0.1", 0), routes(out), 1 << 10)
    made.start()
    yield made
    made.stop()


def asked(url: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, "", error.read()


def test_the_links_of_an_alert_work_out_of_the_box(server: Server, out: Path) -> None:
    where = served(PLACEHOLDERS, server.address, out, "http://me:secret@prometheus:9090/")
    told = alert(SLOW, where)

    assert asked(told.annotations["report_url"])[:2] == (200, "text/html; charset=utf-8")
    status, _, runbook = asked(told.annotations["runbook_url"])
    assert (200, True) == (status, runbook.startswith(b"# "))
    assert told.source.startswith("http://prometheus:9090/graph?")
    assert "secret" not in str(told)


@pytest.mark.parametrize(
    "path",
    ["", "../report.html", "gpt/../../report.html", "%2e%2e/%2e%2e/report.html", "a/b/report.html",
     f"{SLOW.folder}/run.json", f"{SLOW.folder}/finding.json", f"{SLOW.folder}/%00/report.html"],
)  # fmt: skip
def test_nothing_else_is_served(server: Server, path: str) -> None:
    assert 404 == asked(f"http://{server.address}/findings/{path}")[0]


def test_a_link_in_a_page_works_before_its_report_is_written(out: Path) -> None:
    late, unsaid = "gpt/19700101T002000Z-rank-6", "gpt/19700101T002000Z-rank-7"
    (out / late).mkdir()
    (out / late / "finding.json").write_text('{"alerts": [], "sentence": "Rank 6 <b>is</b> hot."}')
    known = {unsaid: "Rank 7 is slow."}
    troubles = {out / unsaid: "the disk is full"}
    made = Server(
        Address("127.0.0.1", 0),
        routes(out, lambda folder: known.get(folder, ""), lambda path: troubles.get(path, "")),
        1 << 10,
    )
    made.start()
    told = {
        each: asked(f"http://{made.address}/findings/{each}/report.html")
        for each in (late, unsaid, "gpt/nobody")
    }
    made.stop()

    assert [200, 200, 404] == [status for status, _, _ in told.values()]
    assert b"Rank 6 &lt;b&gt;is&lt;/b&gt; hot." in told[late][2]
    assert b"Rank 7 is slow." in told[unsaid][2]
    assert b"the disk is full" in told[unsaid][2]
    assert all(b'http-equiv="refresh"' in told[each][2] for each in (late, unsaid))


def test_a_runbook_that_is_not_there_is_refused(server: Server) -> None:
    status, _, said = asked(f"http://{server.address}/runbooks/../../CHANGELOG.md")

    assert (404, True) == (status, b"LockstepFinding.md" in said)


def test_what_the_environment_names_goes_before_what_is_served(out: Path) -> None:
    named = addresses({
        "LOCKSTEP_WATCH_URL": "https://watch/", "LOCKSTEP_PROMETHEUS_URL": "https://prometheus",
    })  # fmt: skip
    where = served(named, Address("0.0.0.0", 9411), out, "http://127.0.0.1:9090")

    assert ("https://watch/runbooks", "https://watch/findings", "https://prometheus") == (
        where.runbooks, where.reports, where.prometheus,
    )  # fmt: skip


# Where texts of alerts point to, by the environment.


def test_the_environment_says_where_and_a_slash_at_the_end_is_none() -> None:
    told = {
        "LOCKSTEP_RUNBOOKS_URL": "https://wiki/r/",
        "LOCKSTEP_DASHBOARD_URL": "http://d:8501",
        "LOCKSTEP_GRAFANA_URL": "http://g:3000/d",
    }

    where = Addresses(
        runbooks="https://wiki/r", dashboard="http://d:8501", grafana="http://g:3000/d"
    )
    assert where == addresses(told)


def test_placeholders_stand_for_what_it_does_not_say() -> None:
    assert PLACEHOLDERS == addresses({"LOCKSTEP_RUNBOOKS_URL": ""})


@pytest.mark.parametrize(
    "wrong", ["wiki/r", "ftp://wiki/r", "https://", "https://wiki/{{ .x }}", "https://w/?a=b", "\n"]
)
def test_what_no_name_can_be_put_after_is_refused(wrong: str) -> None:
    with pytest.raises(CommandError, match="LOCKSTEP_RUNBOOKS_URL is") as refused:
        addresses({"LOCKSTEP_RUNBOOKS_URL": wrong})

    assert 64 == refused.value.code


@pytest.mark.parametrize("what", ["WATCH", "PROMETHEUS", "RUNBOOKS", "DASHBOARD", "GRAFANA"])
@pytest.mark.parametrize("who", ["me:S3CR3T@", "S3CR3T@", "me:S3CR3T?@"])
def test_links_are_sent_to_people_without_name_and_password(what: str, who: str) -> None:
    with pytest.raises(CommandError, match="without name and password") as refused:
        addresses({f"LOCKSTEP_{what}_URL": f"https://{who}host/path"})

    assert 64 == refused.value.code
    assert "S3CR3T" not in str(refused.value)


def test_an_at_in_the_path_is_no_name() -> None:
    told = addresses({"LOCKSTEP_RUNBOOKS_URL": "https://wiki/@team/r"})

    assert "https://wiki/@team/r" == told.runbooks


def test_watch_refuses_them_before_it_looks_at_anything(lockstep, monkeypatch) -> None:
    monkeypatch.setenv("LOCKSTEP_RUNBOOKS_URL", "wiki")
    answer = lockstep("watch", "--prometheus", "nowhere")

    assert (64, "") == (answer.code, answer.out)
    assert "LOCKSTEP_RUNBOOKS_URL is 'wiki'; it must be an http:// or https://" in answer.err
