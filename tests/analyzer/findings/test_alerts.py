"""Findings as alerts: the labels of the rule, the words of the verdict, hostile names and all."""

import re
from dataclasses import replace
from urllib.parse import parse_qs

from lockstep.analyzer.findings.alertmanager.posting import alert_json
from lockstep.analyzer.findings.alertmanager.webhook import ReceivedAlert
from lockstep.analyzer.findings.alerts import alert, alerts, of_alert, superseded
from lockstep.analyzer.findings.finding import Former, Kind, Tier, WatchFinding, Who
from lockstep.analyzer.rules.alert_rules.groups import GROUPS
from lockstep.analyzer.rules.alert_rules.shape import BY_TIER, Addresses
from lockstep.analyzer.shapes.run import Fact

FACTS = tuple(Fact(number % 2 == 0, f"fact {number}", "query") for number in range(12))
SLOW = WatchFinding(
    who=Who("gpt", "node-2", 5, 1, None), kind=Kind.SLOW, scope="gpu", attempt=0, cause="thermal",
    tier=Tier.PAGE, confidence=0.9, slowdown=1.5, onset=990.0, first_seen=995.0, opened=1000.0,
    seen=1000.0, closed=None, sentence="Rank 5 is slow.", facts=FACTS,
    folder="gpt/19700101T001640Z-rank-5",
)  # fmt: skip


def test_an_alert_has_the_labels_and_the_severity_of_the_rule() -> None:
    [rule] = [
        one for group in GROUPS for one in group.rules
        if getattr(one, "full_name", "") == "LockstepFinding"
    ]  # fmt: skip
    by, *_ = re.findall(r"max by \(([^)]*)\)", rule.expression)
    told = alert(SLOW)

    assert {"alertname", "severity", *by.split(", ")} == told.labels.keys()
    assert "LockstepFinding" == told.labels["alertname"]
    assert (BY_TIER, "") == (rule.severity, rule.action)
    assert ["critical", "warning"] == [
        alert(replace(SLOW, tier=tier)).labels["severity"] for tier in (Tier.PAGE, Tier.RECORD)
    ]


def test_people_read_the_sentence_and_three_facts_of_each_side() -> None:
    told = alert(SLOW).annotations

    assert told["summary"].startswith("node-2 GPU 1 (rank 5) 1.50x slower since 00:16:30 UTC")
    assert "Rank 5 is slow." == told["sentence"]
    assert [
        "Place: unknown. Cause: its GPU is too hot, high (0.90).",
        "Rank 5 is slow.",
        "for: fact 0", "for: fact 2", "for: fact 4",
        "against: fact 1", "against: fact 3", "against: fact 5",
    ] == told["description"].splitlines()  # fmt: skip
    assert "gpt/19700101T001640Z-rank-5" == told["archive"]


def test_an_alert_points_to_where_runbooks_and_dashboards_are() -> None:
    where = Addresses(
        runbooks="https://wiki/r", dashboard="https://pages", grafana="https://grafana/d"
    )
    [told] = alerts([SLOW], where)

    assert ("https://wiki/r/LockstepFinding.md", "https://grafana/d/lockstep-run?var-run=gpt") == (
        told.annotations["runbook_url"], told.annotations["grafana_url"],
    )  # fmt: skip
    page, _, words = told.annotations["dashboard_url"].partition("?")
    assert "https://pages/straggler" == page
    assert {
        "run": ["gpt"], "node": [SLOW.who.node], "rank": ["5"],
        "from": [str(round((SLOW.onset - 900.0) * 1000))], "finding": [SLOW.folder],
    } == {name: value for name, value in parse_qs(words).items() if name != "gpu"}  # fmt: skip


def test_an_alert_leads_to_its_report_and_to_its_query() -> None:
    where = Addresses(
        runbooks="https://w", dashboard="https://d", grafana="https://g",
        reports="http://watch:9411/findings", prometheus="http://prometheus:9090",
    )  # fmt: skip
    told, other = alert(SLOW, where), alert(replace(SLOW, kind=Kind.STOP), where)

    assert (
        "http://watch:9411/findings/gpt/19700101T001640Z-rank-5/report.html"
        == told.annotations["report_url"]
    )
    queries = [parse_qs(one.source.partition("?")[2])["g0.expr"] for one in (told, other)]
    assert [
        ['lockstep_rank_straggler_ratio{run="gpt",rank="5"}'],
        ['lockstep_finding_active{run="gpt",node="node-2"}'],
    ] == queries
    assert ("", "") == (alert(SLOW).source, alert(SLOW).annotations["report_url"])


def test_without_a_run_an_alert_points_to_the_page_of_its_node() -> None:
    told = alert(replace(SLOW, who=Who("", "node-2", None, None, None)))

    assert told.annotations["dashboard_url"].startswith(
        "https://dashboard.lockstep.example/node?node=node-2&from="
    )


def test_what_does_not_apply_is_no_label() -> None:
    sent = alert_json(alert(replace(SLOW, who=Who("", "node-2", None, None, None))), 2000.0)

    assert {
        "alertname": "LockstepFinding", "node": "node-2", "cause": "thermal", "tier": "page",
        "severity": "critical",
    } == sent["labels"]  # fmt: skip


def test_two_links_are_two_alerts() -> None:
    links = [replace(SLOW, who=Who("gpt", None, None, None, name)) for name in ("a", "b")]

    assert ["a", "b"] == [alert(one).labels["link"] for one in links]


def test_hostile_names_stay_one_part_of_an_address() -> None:
    hostile = "<script>&var-x=1#'\"\n\ud83d🦀"
    told = alert(replace(SLOW, who=replace(SLOW.who, run=hostile)))

    assert hostile == told.labels["run"]
    assert re.fullmatch(
        r"https://[^?]+\?var-run=[A-Za-z0-9%._~-]+", told.annotations["grafana_url"]
    )


def test_pages_come_before_records_and_older_ones_first() -> None:
    record = replace(SLOW, tier=Tier.RECORD, opened=1.0, folder="gpt/1")
    late = replace(SLOW, opened=2000.0, folder="gpt/2")

    assert [1000.0, 2000.0, 1.0] == [one.starts_at for one in alerts([record, late, SLOW])]


def test_an_alert_of_a_rule_becomes_a_finding_that_is_closed() -> None:
    labels = {"alertname": "LockstepGpuXidFatal", "node": "n", "gpu": "3", "rank": "many"}
    told = ReceivedAlert("f", True, labels, {}, 5000.0, None)
    finding = of_alert(told, "../gpt", 5001.0)

    assert (Who("../gpt", "n", None, 3, None), 5000.0, 5001.0, 5001.0) == (
        finding.who, finding.onset, finding.opened, finding.closed,
    )  # fmt: skip
    assert "The alert LockstepGpuXidFatal fires." == finding.sentence
    assert ".." not in finding.folder.split("/")


def test_alerts_of_one_notification_have_an_archive_each() -> None:
    every = [
        ReceivedAlert(
            fingerprint, True, {"alertname": "LockstepGpuXidFatal", **labels}, {}, 5000.0, None
        )
        for fingerprint, labels in (
            ("58a2b3c4d5e6f708", {"node": "node-1", "gpu": "0"}),
            ("68a2b3c4d5e6f708", {"node": "node-1", "gpu": "1"}),
            ("78a2b3c4d5e6f708", {"node": "node-2", "rank": "9"}),
            ("88a2b3c4d5e6f708", {"node": "node-2", "rank": "9", "uuid": "GPU-1"}),
            ("98a2b3c4d5e6f708", {}),
        )
    ]
    folders = [of_alert(told, "gpt", 5001.0).folder for told in every]

    assert "gpt/19700101T012321Z-LockstepGpuXidFatal-node-1-gpu-0-58a2b3c4" == folders[0]
    assert len(every) == len(set(folders))


def test_an_alert_whose_cause_became_known_ends_by_saying_that_it_goes_on() -> None:
    unknown = replace(SLOW, cause="unknown").alerted
    learnt = replace(SLOW, cause="thermal", learnt=1020.0, former=(Former(unknown, 1020.0),))
    [(before, since)] = superseded([SLOW, learnt])

    assert ("unknown", "thermal") == (before.labels["cause"], alert(learnt).labels["cause"])
    assert ("It goes on, and its cause is known: thermal.", 1020.0) == (
        before.annotations["summary"], since,
    )  # fmt: skip
    assert ("", "") == (before.annotations["action"], before.annotations["command"])
    assert before.starts_at == alert(learnt).starts_at


def test_what_is_over_commands_nothing_and_says_for_how_long_it_was() -> None:
    for kind in Kind:
        told = alert(replace(SLOW, kind=kind, closed=1600.0, ended=1290.0)).annotations

        assert ("", "") == (told["action"], told["command"])
        assert "drain" not in str(told)
        assert (
            "Over after 5 min: node-2 GPU 1 (rank 5), thermal, since 00:16:30 UTC."
            == (told["summary"])
        )
        assert told["description"].startswith("Rank 5 is slow. It is over after 5 min")
