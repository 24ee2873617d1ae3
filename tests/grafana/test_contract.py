"""Both ways: what dashboards ask for is exported, and what is exported is shown or left out.

This is what a renamed label breaks.
"""

import re

import yaml

from lockstep.analyzer.rules.alert_rules.groups import GROUPS
from lockstep.analyzer.rules.alert_rules.shape import Recording
from lockstep.analyzer.rules.recording_rules.ledger import SERIES
from lockstep.analyzer.rules.recording_rules.rules import rules
from lockstep.collector.contract.metrics import EVERY, EXPORTED
from tests.grafana.boards import BOARDS, queries

NAME = re.compile(r"\b(lockstep[\w:]*|ALERTS)\b")
SELECTOR = re.compile(r"\b(lockstep[\w:]*|ALERTS)\{([^{}]*)\}")
MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"')
LIST = re.compile(r"\b(?:by|on|group_left|group_right) \(([^)]*)\)")
LEGEND = re.compile(r"\{\{(\w+)\}\}")
CELL = re.compile(r"__(?:field\.labels|data\.fields)\.(\w+)")

# Labels that the recording rules keep: of a place, or of a stratum of peers.
PLACE = {"run", "rank", "world_size", "dp", "pp", "tp", "node", "gpu", "uuid"}
STRATUM = {"run", "pp", "tp"}
RECORDED = (
    {
        rule["record"]: STRATUM if rule["record"].endswith((":count", ":med", ":mad")) else PLACE
        for group in yaml.safe_load(rules())["groups"]
        for rule in group["rules"]
    }
    | {SERIES: {"run", "team", "bucket"}}
    | {rule.name: PLACE for group in GROUPS for rule in group.rules if isinstance(rule, Recording)}
)
# Prometheus tells its alerts itself: with the labels of the rule and of the series.
ALERTS = {"alertname", "alertstate", "severity", "node", "run"}
# Prometheus adds these to what it scrapes; `node` to collectors, by their target.
TARGET = {"instance", "job"}


def labels() -> dict[str, set[str]]:
    """Name in an expression -> its labels."""
    told = {"ALERTS": ALERTS} | RECORDED
    for exporter, metrics in EXPORTED.items():
        added = TARGET | ({"node"} if exporter == "collector" else set())
        for metric in metrics.values():
            for one in (metric, *metric.parts):
                told[one.name] = set(one.labels) | added
    return told


KNOWN = labels()


def asked() -> list[tuple[str, str]]:
    """(where, expression) of every query, those of variables included."""
    found = [(f"{one.board}: {one.panel}", one.expression) for one in queries()]
    return found + [
        (f"{name}: ${one['name']}", one["definition"])
        for name, board in BOARDS.items()
        for one in board["templating"]["list"]
        if one["type"] == "query"
    ]


def names(expression: str) -> set[str]:
    """Metrics of an expression, those of a pattern of names included."""
    return set(NAME.findall(expression))


def test_every_metric_of_a_dashboard_is_in_the_contract_or_recorded():
    unknown = {
        (where, name) for where, text in asked() for name in names(text) if name not in KNOWN
    }  # fmt: skip

    assert set() == unknown


def test_every_label_that_is_matched_is_one_of_its_metric():
    unknown = {
        (where, name, label)
        for where, text in asked()
        for name, matchers in SELECTOR.findall(text)
        for label in MATCHER.findall(matchers)
        if label not in KNOWN[name]
    }

    assert set() == unknown


def test_every_label_that_is_grouped_shown_or_linked_is_one_of_its_metrics():
    unknown = set()
    for one in queries():
        has = set().union(*(KNOWN[name] for name in names(one.expression)))
        grouped = ",".join(LIST.findall(one.expression)).split(",")
        shown = {word.strip() for word in grouped}
        for label in (shown | set(LEGEND.findall(one.legend))) - {""} - has:
            unknown.add((one.board, one.panel, label))

    assert set() == unknown


def test_links_are_told_by_labels_that_the_series_have():
    unknown = set()
    for name, board in BOARDS.items():
        for panel in board["panels"]:
            series = [NAME.findall(one["expr"]) for one in panel.get("targets", ())]
            has = set().union(*(KNOWN[each] for found in series for each in found))
            for link in panel.get("fieldConfig", {}).get("defaults", {}).get("links", ()):
                for label in set(CELL.findall(link["url"])) - has:
                    unknown.add((name, panel["title"], label))

    assert set() == unknown


def test_every_exported_metric_is_shown_or_left_out_for_a_reason():
    shown = {name for _, text in asked() for name in names(text)}
    whole = {
        name
        for name, metric in EVERY.items()
        if any(one.name in shown for one in (metric, *metric.parts))
    }
    left_out = {name for name, metric in EVERY.items() if metric.unshown is not None}

    assert sorted(EVERY.keys() - whole) == sorted(left_out)
