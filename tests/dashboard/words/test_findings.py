"""Findings as a table, each with links to its place and time."""

from urllib.parse import parse_qsl, urlsplit

from lockstep.dashboard import address
from lockstep.dashboard.shapes import Event, Severity
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
    place = address.read(dict(parse_qsl(query)))
    assert ("/node", "gpt-a", "node-1", None) == (path, place.run, place.node, place.gpu)
    shown = address.span(place, SPAN, SPAN.end)
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
