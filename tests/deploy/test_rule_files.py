"""The committed rule files: generated, valid, and the same rules in both forms."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from lockstep.analyzer.rules.alert_rules.groups import ALERTS, GROUPS, annotations, labels
from lockstep.analyzer.rules.alert_rules.shape import Addresses
from lockstep.cli.rule_files import rule_files
from lockstep.collector.contract.metric_rows import alerted
from lockstep.collector.contract.xid import PAGED
from tests.deploy.promtool import program

FOLDER = Path(__file__).parents[2] / "deploy" / "rules"
MATCHERS = re.compile(r'\b(\w+)=~?"([^"]*)"')


def groups(name: str) -> list[dict]:
    tree = yaml.safe_load((FOLDER / name).read_text("utf-8"))
    return tree["spec"]["groups"] if name.endswith(".prometheusrule.yaml") else tree["groups"]


def test_the_committed_files_are_what_is_generated():
    assert rule_files() == {
        path.name: path.read_text("utf-8") for path in FOLDER.glob("lockstep-*")
    }


def test_the_file_says_what_the_entries_say():
    written = [rule for group in groups("lockstep-alerts.rules.yml") for rule in group["rules"]]

    assert {
        alert.full_name: (
            alert.expression,
            alert.wait,
            alert.keep,
            labels(alert),
            annotations(alert),
        )
        for alert in ALERTS
    } == {
        rule["alert"]: (
            rule["expr"],
            rule.get("for", ""),
            rule.get("keep_firing_for", ""),
            rule["labels"],
            rule["annotations"],
        )
        for rule in written
        if "alert" in rule
    }
    assert sum(len(group.rules) for group in GROUPS) == len(written)


@pytest.mark.parametrize("name", ["lockstep-alerts", "lockstep-peers"])
def test_the_object_has_the_groups_of_the_plain_file(name: str):
    tree = yaml.safe_load((FOLDER / f"{name}.prometheusrule.yaml").read_text("utf-8"))

    assert groups(f"{name}.rules.yml") == tree["spec"]["groups"]
    assert ("monitoring.coreos.com/v1", "PrometheusRule", name) == (
        tree["apiVersion"], tree["kind"], tree["metadata"]["name"],
    )  # fmt: skip


def test_every_alert_points_to_its_runbook_and_a_dashboard():
    where = Addresses(
        runbooks="https://wiki/r", dashboard="https://pages", grafana="https://grafana/d"
    )
    for alert in ALERTS:
        told = annotations(alert, where)

        assert f"https://wiki/r/{alert.full_name}.md" == told["runbook_url"]
        assert told["grafana_url"].startswith("https://grafana/d/lockstep-")
        page = told["dashboard_url"].removeprefix("https://pages/").partition("?")[0]
        assert page in ("node", "run", "health")
        assert told["threshold_source"]


def test_counters_whose_first_count_fires_are_told_as_0_by_the_collector():
    named = {
        (label, word)
        for alert in ALERTS
        for label, words in MATCHERS.findall(alert.expression)
        if "lockstep_ib_" in alert.expression or "xid" in alert.expression
        for word in words.split("|")
        if label in ("xid", "kind")
    }
    zeros = {("xid", xid) for xid, _ in alerted.XID_ZEROS}
    told = zeros | {("kind", kind) for kind in (*alerted.PORT_ERRORS, *alerted.RDMA_ERRORS_FATAL)}

    assert told <= named
    assert {("xid", str(number)) for number in PAGED} == named - told | {
        ("xid", xid) for xid, severity in alerted.XID_ZEROS if severity == "fatal"
    }, "without a 0, an alert needs the time of the last event, which only GpuXidFatal reads"


@pytest.mark.prometheus
def test_prometheus_takes_the_plain_files():
    files = sorted(FOLDER.glob("*.rules.yml"))
    answer = subprocess.run([program(), "check", "rules", *files], capture_output=True, text=True)

    assert (0, 2) == (answer.returncode, answer.stdout.count("SUCCESS")), answer.stderr
