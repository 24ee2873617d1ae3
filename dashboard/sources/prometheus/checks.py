"""What was looked at on a node: the check table, read as PromQL."""

from lockstep.analyzer.read.prometheus.promql import lasting, quoted, series
from lockstep.analyzer.report.sections.checks import Check as Limit
from lockstep.dashboard.shapes import Check, Severity
from lockstep.dashboard.sources.check_table import LIVE, Live, State
from lockstep.dashboard.sources.prometheus.asking import Asking

COUNTED, SHARED = 3600.0, 300.0
"""Seconds over which a counter, and a share of time, is judged; LockstepGpuThermalViolation of
alert_rules/gpu.py waits longer."""


def checks(asking: Asking, pages: str, at: float) -> tuple[Check, ...]:
    """The list for one node; `pages` are matchers of its pages."""
    return tuple(_check(asking, one, pages, at) for one in LIVE)


def _check(asking: Asking, one: Live, pages: str, at: float) -> Check:
    rows = asking.instant(_query(one.check, pages), at)
    if not rows:
        return Check(one.name, Severity.UNKNOWN, "Nobody tells.", "")
    value, most = rows[0][1], 0.0 if isinstance(one.check, State) else one.check.limit
    if value > most + 1e-9:
        return Check(one.name, one.severity, one.bad.format(value), one.next_step)
    return Check(one.name, Severity.OK, one.good)


def _query(check: Limit | State, pages: str) -> str:
    """Of a state how many are not well; of a limit what is compared with it."""
    if isinstance(check, State):
        told = series(check.metric, pages)
        return f"count({told} == 0) or 0 * count({told})"
    label = check.label if "=" in check.label else f"reason=~{quoted(f'.*{check.label}.*')}"
    told = series(check.metric.name, f"{pages},{label}" if check.label else pages)
    if check.share:
        return f"max(rate({told}[{lasting(SHARED)}]))"
    return f"sum(increase({told}[{lasting(COUNTED)}]))"
