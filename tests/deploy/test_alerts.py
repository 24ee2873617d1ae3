"""Every alert by Prometheus' own tool: it fires, is silent, knows its threshold, and clears."""

import re
from pathlib import Path

import pytest

from lockstep.analyzer.rules.alert_rules.groups import ALERTS, WRITTEN, alerts
from lockstep.analyzer.rules.alert_rules.shape import BY_TIER, Alert, Recording, Severity
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import EVERY, PENDING, Metric
from tests.deploy.cases import CASES
from tests.deploy.cases.shape import Case, moments
from tests.deploy.promtool import verdicts

ROOT = Path(__file__).parents[2]
ALWAYS = "Watchdog"
TARGET = {"node", "job", "instance"}
"""Labels that Prometheus adds to a series."""
RECORDED = {
    rule.name: rule.expression
    for group in WRITTEN
    for rule in group.rules
    if isinstance(rule, Recording)
}
EVERY_ALERT = alerts(WRITTEN)
EXPRESSIONS = {alert.name: alert.expression for alert in EVERY_ALERT} | RECORDED
_SERIES = re.compile(r"\b([a-z_]+:[\w:]+|lockstep_\w+)(?:\{([^}]*)\})?")
_LISTS = re.compile(r"\b(?:by|on|group_left|group_right|ignoring|without) \(([^)]*)\)")


def test_every_alert_has_its_tests_and_no_test_is_of_none() -> None:
    assert {alert.name for alert in EVERY_ALERT} == {case.alert for case in CASES}
    assert len(EVERY_ALERT) == len({alert.name for alert in EVERY_ALERT})


def exported() -> set[str]:
    """Metrics of the contract that a program other than the contract and the rules names.

    The contract itself counts what becomes of its threads.
    """
    rows = {row.name: name for name, row in vars(metrics).items() if isinstance(row, Metric)}
    words = {
        word
        for folder in ("analyzer", "bench", "collector", "lockstep", "watch")
        for path in (ROOT / folder).rglob("*.py")
        if not {"contract", "alert_rules"} & set(path.parts) or path.name == "threads.py"
        for word in re.findall(r"\b[A-Z][A-Z0-9_]+\b", path.read_text("utf-8"))
    }
    return {name for name, row in rows.items() if row in words}


def test_a_rule_is_rendered_if_all_its_series_are_exported_and_only_then() -> None:
    of_rules = set().union(*(alert.needs for alert in EVERY_ALERT))
    nobody = of_rules - exported()
    never = {"lockstep_node_quarantined"}  # exported, as 0, while nothing taints

    assert nobody | never == of_rules & PENDING.keys()
    assert {alert.name for alert in EVERY_ALERT if alert.needs & (nobody | never)} == {
        alert.name for alert in EVERY_ALERT if alert not in ALERTS
    }
    assert {"ReferenceRunFailed", "ReferenceBusbwLow", "QuarantineStuck"} == {
        alert.name for alert in EVERY_ALERT if alert not in ALERTS
    }


@pytest.mark.parametrize("case", [one for one in CASES if one.alert != ALWAYS], ids=lambda c: c.key)
def test_the_four_tests_of_an_alert_kill_what_always_or_never_fires(case: Case) -> None:
    seen = {
        kind: [[fires for _, fires in moments(probe)] for probe in getattr(case, kind)]
        for kind in ("fires", "silent", "boundary", "clears")
    }

    assert all(any(one) for one in seen["fires"])
    assert seen["silent"]
    assert not any(any(one) for one in seen["silent"])
    assert {True, False} == {fires for one in seen["boundary"] for fires in one}
    assert all(one[0] and not one[-1] for one in seen["clears"])
    assert seen["clears"]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_metric_and_label_of_an_expression_is_in_the_contract(name: str) -> None:
    expression = EXPRESSIONS[name]
    series = _SERIES.findall(expression)
    known = {metric: set(EVERY[metric].labels) | TARGET for metric in EVERY}
    known |= {name: set(name.split(":")[0].split("_")) for name in RECORDED}
    labels = {word.strip() for words in _LISTS.findall(expression) for word in words.split(",")}

    assert {metric for metric, _ in series} <= known.keys()
    for metric, matchers in series:
        assert set(re.findall(r"(\w+)=", matchers)) <= known[metric]
    assert labels - {""} <= set().union(*(known[metric] for metric, _ in series))


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_no_expression_asks_for_a_job_by_its_name(name: str) -> None:
    assert "job=" not in EXPRESSIONS[name]


@pytest.mark.parametrize("alert", EVERY_ALERT, ids=lambda alert: alert.name)
def test_an_alert_says_whom_it_is_about_and_where_to_read_on(alert: Alert) -> None:
    case = next(one for one in CASES if one.alert == alert.name)
    links = f"{alert.page_path} {alert.grafana_path}"
    texts = f"{alert.summary} {alert.description} {links} {alert.severity}"
    told = set(re.findall(r"\$labels\.(\w+)", texts))
    lists = re.findall(r"by \(([^)]*)\)", " ".join([alert.expression, *RECORDED.values()]))

    assert told <= {word.strip() for words in lists for word in words.split(",")}
    assert case.labels.keys() & {"node", "gpu", "run"} <= set(
        re.findall(r"\$labels\.(\w+)", alert.summary)
    )
    assert "humanize" not in texts  # it prints 0.2 as 200m
    assert alert.source
    assert bool(alert.action) == (alert.name not in ("Finding", ALWAYS))
    assert alert.severity in (*Severity, BY_TIER)


COMMAND = re.compile(
    r"(?:^|[.:;,] )(?:then |and )?(?:call|check|clean|cordon|drain|have|look|move|reboot|replace"
    r"|reset|restart|route|run(?! \{\{)|see|stop|take|wait)\b",
    re.IGNORECASE,
)
"""A clause that commands: its first word is a verb of the runbooks."""


@pytest.mark.parametrize("alert", EVERY_ALERT, ids=lambda alert: alert.name)
def test_texts_of_an_alert_state_what_is_so_and_command_nothing(alert: Alert) -> None:
    assert [] == COMMAND.findall(alert.summary) + COMMAND.findall(alert.description)


@pytest.mark.parametrize("text", ["It is hot. Look at its fans.", "It fails: have it replaced."])
def test_a_text_that_commands_is_seen(text: str) -> None:
    assert COMMAND.search(text)


@pytest.mark.prometheus
@pytest.mark.slow
def test_every_alert_passes_its_tests(tmp_path: Path) -> None:
    wrong = verdicts(tmp_path, CASES)

    assert {} == {key: words for key, words in wrong.items() if words}
