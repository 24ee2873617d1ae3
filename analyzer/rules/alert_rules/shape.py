"""The parts of an alert, and the addresses in its texts."""

import re
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "Lockstep"
"""Begins the name of every alert."""
GPU = "GPU {{ $labels.gpu }} ({{ $labels.uuid }}) on {{ $labels.node }}"
"""A GPU in a text."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where texts of alerts point to, without a slash at the end.

    Attributes:
        runbooks: Where deploy/runbooks/ is served; a runbook is `<alert>.md` there.
        dashboard: Where `lockstep dashboard` is served; `<page>?<label>=<value>` there.
        grafana: Where Grafana shows its dashboards; `<uid>?var-<label>=<value>` there.
        reports: Where `lockstep watch` serves the folders of findings; empty = nowhere.
        prometheus: Where people reach the Prometheus that was asked; empty = not known.
    """

    runbooks: str
    dashboard: str
    grafana: str
    reports: str = ""
    prometheus: str = ""

    def runbook(self, alert: str) -> str:
        """The runbook of an alert, by its full name."""
        return f"{self.runbooks}/{alert}.md"


PLACEHOLDERS = Addresses(
    runbooks="https://lockstep.example/runbooks",
    dashboard="https://dashboard.lockstep.example",
    grafana="https://grafana.lockstep.example/d",
)
"""Of a user who named none: nothing is there."""


class Severity(StrEnum):
    """Who is notified: critical wakes someone, warning is for working hours, info is a record."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    NONE = "none"


BY_TIER = '{{ if eq $labels.tier "page" }}critical{{ else }}warning{{ end }}'
"""Severity of a finding, as a template: what is reported over the API says the same."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: Without the prefix.
        expression: PromQL.
        severity: A Severity, or BY_TIER.
        action: What a machine may do about it, or who is to look; empty = nothing.
        summary: One line, with node and GPU where there are such; a template.
        description: What is so and what it means, true also once the alert is over; what to do is
            in the runbook. A template.
        source: Where the threshold comes from.
        wait: How long the expression must hold (`for`).
        keep: How long it goes on after the expression held last (`keep_firing_for`).
        dashboard: Which of grafana/dashboards shows it: node, run or self.
    """

    name: str
    expression: str
    severity: str
    action: str
    summary: str
    description: str
    source: str
    wait: str = ""
    keep: str = ""
    dashboard: str = "node"

    @property
    def needs(self) -> frozenset[str]:
        """The series of the contract that the expression reads itself."""
        return frozenset(re.findall(r"(?<![\w:])lockstep_\w+(?![\w:])", self.expression))

    @property
    def full_name(self) -> str:
        """As it is called everywhere."""
        return PREFIX + self.name

    @property
    def grafana_path(self) -> str:
        """Where to look at it, below Addresses.grafana; a template."""
        told = _TOLD.get(self.dashboard, "")
        return f"lockstep-{self.dashboard}" + (f"?var-{told}" if told else "")

    @property
    def page_path(self) -> str:
        """Where to look at it, below Addresses.dashboard; a template."""
        told = _TOLD.get(self.dashboard)
        return f"{self.dashboard}?{told}&from=now-{LOOK_BACK}" if told else "health"


_TOLD = {label: f"{label}={{{{ $labels.{label} | urlquery }}}}" for label in ("node", "run")}
"""What a dashboard is given: names may hold anything, and are quoted for a URL."""
LOOK_BACK = "3h"
"""How far a page looks back: a rule does not know when its alert began, and few wait for longer."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that alerts behind it in the same group read."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other; by default in Prometheus' own interval."""

    name: str
    rules: tuple[Alert | Recording, ...]
    interval: str = ""
