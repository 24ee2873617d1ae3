"""Where texts of alerts point to, as this environment says."""

import re
from collections.abc import Mapping

from lockstep.analyzer.rules.alert_rules.shape import PLACEHOLDERS, Addresses
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail

RUNBOOKS_VARIABLE = "LOCKSTEP_RUNBOOKS_URL"
"""Where deploy/runbooks/ is served."""
DASHBOARD_VARIABLE = "LOCKSTEP_DASHBOARD_URL"
"""Where `lockstep dashboard` is served."""
GRAFANA_VARIABLE = "LOCKSTEP_GRAFANA_URL"
"""Where Grafana shows its dashboards."""
WATCH_VARIABLE = "LOCKSTEP_WATCH_URL"
"""Where people reach `lockstep watch`, which serves runbooks and the reports of its findings."""
PROMETHEUS_VARIABLE = "LOCKSTEP_PROMETHEUS_URL"
"""Where people reach the Prometheus that watch asks."""
_PARENT = re.compile(r"https?://[\w.~:/%@!$&'()*+,;=\[\]-]+", re.ASCII)
"""An address that a name can be put after: no query, and no braces, which are templates there."""


def addresses(environment: Mapping[str, str]) -> Addresses:
    """Those of the environment; placeholders where it says nothing.

    Raises:
        CommandError: 64, one is no address of a folder, or has a name and password.
    """
    watch = _parent(environment, WATCH_VARIABLE, "")
    runbooks = f"{watch}/runbooks" if watch else PLACEHOLDERS.runbooks
    return Addresses(
        runbooks=_parent(environment, RUNBOOKS_VARIABLE, runbooks),
        dashboard=_parent(environment, DASHBOARD_VARIABLE, PLACEHOLDERS.dashboard),
        grafana=_parent(environment, GRAFANA_VARIABLE, PLACEHOLDERS.grafana),
        reports=f"{watch}/findings" if watch else "",
        prometheus=_parent(environment, PROMETHEUS_VARIABLE, ""),
    )


def _parent(environment: Mapping[str, str], variable: str, otherwise: str) -> str:
    told = environment.get(variable, "") or otherwise
    if "@" in told.partition("://")[2].partition("/")[0]:
        fail(
            ExitCode.USAGE,
            f"{variable} has an @ before its path: links are sent to people; give it without name"
            " and password",
        )
    if told and not _PARENT.fullmatch(told):
        fail(
            ExitCode.USAGE,
            f"{variable} is {told!r}; it must be an http:// or https:// address without ? and #,"
            f" as {otherwise or PLACEHOLDERS.runbooks}",
        )
    return told.rstrip("/")
