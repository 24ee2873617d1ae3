"""All groups of alert rules, in the order of the file; a rule file and a PrometheusRule of them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lockstep.analyzer.rules.alert_rules import gpu, kernel_log, links, monitor, ports, training
from lockstep.analyzer.rules.alert_rules.shape import (
    PLACEHOLDERS,
    Addresses,
    Alert,
    Group,
    Recording,
)
from lockstep.collector.contract.metrics import PENDING

WRITTEN = (
    Group("lockstep-gpu", (*kernel_log.XID, *gpu.STATE, *gpu.MEMORY)),
    Group("lockstep-links", (*links.NVLINK, *links.PCIE, *ports.PORT)),
    # They read half a day and more: once a minute is enough, and a fifteenth of the cost.
    Group("lockstep-day", (*kernel_log.DAY, *ports.FLAPPING), interval="1m"),
    Group("lockstep-kernel", kernel_log.KERNEL),
    Group("lockstep-training", training.TRAINING),
    Group("lockstep-monitor", monitor.MONITOR),
)
"""Every rule, with those whose series this version does not export."""


def rendered(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups without alerts that can never fire: they need a series that is pending."""
    return tuple(
        replace(
            group,
            rules=tuple(
                rule
                for rule in group.rules
                if isinstance(rule, Recording) or rule.needs.isdisjoint(PENDING)
            ),
        )
        for group in groups
    )


def alerts(groups: tuple[Group, ...]) -> tuple[Alert, ...]:
    """The alerts of groups."""
    return tuple(rule for group in groups for rule in group.rules if isinstance(rule, Alert))


GROUPS = rendered(WRITTEN)
"""What is in the rule files."""
ALERTS = alerts(GROUPS)
"""Every alert that Prometheus raises."""


# YAML is written by hand and in order: the same for every version of every YAML library, and none
# needed. JSON's strings are strings of YAML.

SELECTED_BY = {"release": "kube-prometheus-stack"}
"""The Prometheus operator takes the objects with these labels."""


def plain(groups: Iterable[Group], head: str = "", addresses: Addresses = PLACEHOLDERS) -> str:
    """A rule file; `head` says what it is, in lines of comment."""
    lines = [line for group in groups for line in _group(group, addresses)]
    return f"{head}groups:\n" + "".join(f"{line}\n" for line in lines)


def prometheus_rule(name: str, rule_file: str) -> str:
    """The object of the Prometheus operator with the groups of a rule file, and its comments."""
    head, _, groups = rule_file.partition("groups:\n")
    labels = "".join(f"    {key}: {value}\n" for key, value in SELECTED_BY.items())
    return (
        f"{head}apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n"
        f"metadata:\n  name: {name}\n  labels:\n{labels}"
        "spec:\n  groups:\n" + "".join(f"  {line}\n" for line in groups.splitlines())
    )


def _group(group: Group, addresses: Addresses) -> Iterator[str]:
    yield f"- name: {group.name}"
    if group.interval:
        yield f"  interval: {group.interval}"
    yield "  rules:"
    for rule in group.rules:
        yield from _recording(rule) if isinstance(rule, Recording) else _alert(rule, addresses)


def _recording(rule: Recording) -> Iterator[str]:
    yield f"  - record: {rule.name}"
    yield from _expression(rule.expression)


def _alert(rule: Alert, addresses: Addresses) -> Iterator[str]:
    yield f"  - alert: {rule.full_name}"
    yield from _expression(rule.expression)
    if rule.wait:
        yield f"    for: {rule.wait}"
    if rule.keep:
        yield f"    keep_firing_for: {rule.keep}"
    parts = {"labels": labels(rule), "annotations": annotations(rule, addresses)}
    for title, words in parts.items():
        yield f"    {title}:"
        for name, text in words.items():
            yield f"      {name}: {json.dumps(text, ensure_ascii=False)}"


def _expression(expression: str) -> Iterator[str]:
    yield "    expr: |-"
    for line in expression.splitlines():
        yield f"      {line}"


def labels(alert: Alert) -> dict[str, str]:
    """What the rule adds to the labels of the series."""
    added = {"severity": str(alert.severity), "action": alert.action}
    return {name: text for name, text in added.items() if text}


def annotations(alert: Alert, addresses: Addresses = PLACEHOLDERS) -> dict[str, str]:
    """What people read of it; templates."""
    return {
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": addresses.runbook(alert.full_name),
        "dashboard_url": f"{addresses.dashboard}/{alert.page_path}",
        "grafana_url": f"{addresses.grafana}/{alert.grafana_path}",
        "threshold_source": alert.source,
    }
