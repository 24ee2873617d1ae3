"""An XID on a page: how bad it is, by its label or else by the catalogue, and what it is."""

from collections.abc import Mapping

from lockstep.collector.contract import xid
from lockstep.dashboard.shapes import Severity

_SHOWN: Mapping[str, Severity] = {
    xid.Severity.INFO: Severity.NOTE, xid.Severity.WARNING: Severity.WARNING,
    xid.Severity.FATAL: Severity.CRITICAL,
}  # fmt: skip


def severity_of(labels: Mapping[str, str]) -> Severity:
    """As the driver's line said; as the catalogue rates the number where nobody told."""
    told = labels.get("severity") or str(_row(labels).severity)
    return _SHOWN.get(told, Severity.WARNING)


def words_of(labels: Mapping[str, str]) -> str:
    """What the number means."""
    return _row(labels).text


def _row(labels: Mapping[str, str]) -> xid.Xid:
    code = labels.get("xid", "")
    return xid.describe(int(code) if code.isascii() and code.isdigit() and len(code) < 6 else 0)
