"""finding.json (`lockstep watch`): when a finding was seen, opened, alerted and received."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that matched the finding; unix seconds, None = not told."""

    name: str
    fired: float | None
    received: float | None


@dataclass(frozen=True, slots=True)
class FindingTimes:
    """What people were told, and the moments of a finding; unix seconds, None = not told."""

    onset: float | None
    first_seen: float | None
    opened: float | None
    closed: float | None
    alerts: tuple[Alert, ...]
    sentence: str = ""


def finding_times(finding: Mapping[str, Any]) -> FindingTimes:
    """The moments of finding.json; what has another type is not told."""
    alerts = finding.get("alerts")
    told = alerts if isinstance(alerts, list) else []
    return FindingTimes(
        onset=moment(finding.get("onset")),
        first_seen=moment(finding.get("first_seen")),
        opened=moment(finding.get("opened")),
        closed=moment(finding.get("closed")),
        alerts=tuple(_alert(each) for each in told if isinstance(each, Mapping)),
        sentence=str(finding.get("sentence") or ""),
    )


def moment(value: Any) -> float | None:
    """Unix seconds from a number or RFC 3339 text; None where it is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) and 0 < value < 32503680000 else None
    if not isinstance(value, str):
        return None
    try:
        told = datetime.fromisoformat(value)
    except ValueError:
        return None
    told = told if told.tzinfo else told.replace(tzinfo=UTC)
    return told.timestamp() if 1970 < told.year < 3000 else None


def _alert(told: Mapping[str, Any]) -> Alert:
    name = told.get("name") or "an alert"
    return Alert(str(name), moment(told.get("starts_at")), moment(told.get("received")))
