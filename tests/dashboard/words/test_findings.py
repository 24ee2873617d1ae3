"""Findings as a table, each with links to its place and time."""

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from lockstep.analyzer.findings.finding import Kind, Tier, WatchFinding, Who, finding_json
from lockstep.analyzer.findings.headline import first_action
from lockstep.dashboard import address
from lockstep.dashboard.shapes import Event, Severity
from lockstep.dashboard.sources.archive.findings import of_watch
from lockstep.dashboard.sources.prometheus.findings import _archived
from lockstep.dashboard.sources.prometheus.folders import Kept
from lockstep.dashboard.words import findings
from tests.dashboard.words.rows import FOUND, RUN, SPAN, found


def test_open_findings_come_first_then_the_worst() -> None:
    order = findings.worst_first([
        found(finding="ended", open=False), found(finding="mild", severity=Severity.WARNING),
        found(finding="slow", slowdown=2.0), FOUND,
    ])  # fmt: skip
    assert ["slow", "f-1", "mild", "ended"] == [one.finding for one in order]


def test_a_row_links_to_the_place_with_a_range_around_the_onset() -> None:
    frame = findings.findings([FOUND], {"gpt-a": RUN})
    path, query = urlsplit(frame.loc[0, "node page"])[2:4]
    location = address.read(dict(parse_qsl(query)))
    assert ("/node", "gpt-a", "node-1", None) == (path, location.run, location.node, location.gpu)
    shown = address.span(location, SPAN, SPAN.end)
    assert SPAN.start <= shown.start < FOUND.since < shown.end <= SPAN.end + 0.002


def test_each_kind_of_page_has_its_link() -> None:
    row = findings.findings([FOUND], {}).iloc[0]
    assert ["/straggler", "/node", "/run"] == [
        urlsplit(row[column]).path for column in findings.FINDING_LINKS
    ]


def test_a_finding_without_a_node_has_no_link_to_one() -> None:
    row = findings.findings([found(node="", gpu=None, rank=None, link="a – b")], {}).iloc[0]
    assert ("", "a – b") == (row["node page"], row["node"])


def test_hostile_names_stay_inside_their_link() -> None:
    hostile = "x&node=y /<script>"
    row = findings.findings([found(node=hostile)], {}).iloc[0]
    assert hostile == dict(parse_qsl(urlsplit(row["node page"]).query))["node"]


def test_severity_is_a_sign_and_a_word() -> None:
    assert "✖ critical" == findings.findings([FOUND], {}).loc[0, "severity"]


def test_who_and_why_come_first_and_links_last() -> None:
    assert ("node", "GPU", "rank", "cause") == findings.FINDINGS[:4]
    assert findings.FINDING_LINKS == findings.FINDINGS[-len(findings.FINDING_LINKS) :]


def test_no_findings_are_an_empty_table() -> None:
    assert list(findings.FINDINGS) == list(findings.findings([], {}).columns)


def test_an_event_says_when_where_and_what() -> None:
    event = Event(0.0, None, "xid", Severity.CRITICAL, "XID 94", node="node-1", gpu=3)
    row = findings.events([event]).iloc[0]
    assert ["✖ critical", "XID 94", "node-1, GPU 3", "xid"] == row.tolist()[1:]
    assert "1970-01-01" == f"{row['time (UTC)']:%Y-%m-%d}"


def test_an_event_of_a_run_names_the_run() -> None:
    event = Event(0.0, None, "restart", Severity.NOTE, "attempt 2", run="gpt-a")
    assert "gpt-a" == findings.events([event]).loc[0, "where"]


# The lines under the sentence of a finding.


def test_it_says_since_when_and_for_how_long() -> None:
    assert "UTC, open after 2 min" in findings.since(FOUND, FOUND.since + 125.0)
    ended = found(open=False, until=FOUND.since + 30.0)
    assert findings.since(ended, FOUND.since + 999.0).endswith("ended after 30 s")


def test_what_is_not_known_of_the_cost_is_not_told_as_nothing() -> None:
    assert "unknown" == findings.cost(found(slowdown=None), None)
    assert "lost" not in findings.cost(FOUND, None)
    assert findings.cost(FOUND, RUN).startswith(f"{FOUND.slowdown:.2f}x its own time")


def test_a_cause_that_nobody_knows_is_said_so() -> None:
    assert "unknown" == findings.why(found(cause="unknown"))
    assert findings.why(found(cause="thermal", confidence=0.97)).startswith("its GPU is too hot")


def test_what_to_do_first_is_what_the_alert_says_with_its_command() -> None:
    action, command = findings.to_do(found(cause="thermal", place_confidence=0.99))
    assert action
    assert "node-1" in command


def test_a_machine_is_suspect_after_a_run_that_ended_with_its_culprit() -> None:
    past = found(cause="thermal", place_confidence=0.99, open=False, until=FOUND.since + 30.0)
    assert ("", "") == findings.to_do(past)
    assert findings.to_do(replace(past, until=None)) == findings.to_do(replace(past, lasts=True))


def test_a_run_that_stands_is_not_told_to_drain() -> None:
    _, command = findings.to_do(found(cause="software", slowdown=None))
    assert "drain" not in command


def test_a_hostile_node_is_an_argument_and_no_command() -> None:
    _, command = findings.to_do(found(node="x; rm -rf /", place_confidence=0.99))
    assert "'x; rm -rf /'" in command


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("cause", ["unknown", "thermal", "software", "freeze"])
@pytest.mark.parametrize("slowdown", [None, 1.5])
def test_page_and_alert_say_the_same_of_a_finding(
    kind: Kind, cause: str, slowdown: float | None
) -> None:
    watched = WatchFinding(
        who=Who("gpt-a", "node-1", 2, 0, None), kind=kind, scope="node", attempt=0, cause=cause,
        tier=Tier.PAGE, confidence=0.9, slowdown=slowdown, onset=1.7e9, first_seen=1.7e9,
        opened=1.7e9, seen=1.7e9 + 600.0, closed=None, sentence="It stands.", facts=(),
        folder="gpt-a/x", place_confidence=0.99, lost_seconds=7200.0, unit="rank",
    )  # fmt: skip
    told = json.loads(json.dumps(finding_json(watched)))
    archived = _archived(Kept("gpt-a/x", Path("x"), told))
    assert archived is not None
    for row in (archived, of_watch("gpt-a", "x", told)):
        assert first_action(watched) == findings.to_do(row)
        assert "2.00 rank-hours lost so far" in findings.cost(row, RUN)
        assert "2.00 rank-hours lost so far" in watched.summary
