"""Where texts of alerts point to, as this environment says."""

import re
from collections.abc import Mapping

from analyzer.alert_rules.shape import PLACEHOLDERS, Addresses
from collector.contract.words import ExitCode
from lockstep.output import fail

RUNBOOKS_VARIABLE = "LOCKSTEP_RUNBOOKS_URL"
"""Where deploy/runbooks/ is served."""
DASHBOARD_VARIABLE = "LOCKSTEP_DASHBOARD_URL"
"""Where `lockstep dashboard` is served."""
GRAFANA_VARIABLE = "LOCKSTEP_GRAFANA_URL"
"""Where Grafana shows its dashboards."""
_PARENT = re.compile(r"https?://[\w.~:/%@!$&'()*+,;=\[\]-]+", re.ASCII)
"""An address that a name can be put after: no query, and no braces, which are templates there."""


def addresses(environment: Mapping[str, str]) -> Addresses:
    """Those of the environment; placeholders where it says nothing.

    Raises:
        CommandError: 64, one is no address of a folder.
    """
    return Addresses(
        runbooks=_parent(environment, RUNBOOKS_VARIABLE, PLACEHOLDERS.runbooks),
        dashboard=_parent(environment, DASHBOARD_VARIABLE, PLACEHOLDERS.dashboard),
        grafana=_parent(environment, GRAFANA_VARIABLE, PLACEHOLDERS.grafana),
    )


def _parent(environment: Mapping[str, str], variable: str, otherwise: str) -> str:
    told = environment.get(variable, "") or otherwise
    if not _PARENT.fullmatch(told):
        fail(
            ExitCode.USAGE,
            f"{variable} is {told!r}; it must be an http:// or https:// address without ? and #,"
            f" as {otherwise}",
        )
    return told.rstrip("/")
