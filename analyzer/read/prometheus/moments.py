"""Moments as people write them: a date, unix seconds, or how long ago."""

import re
from datetime import UTC, datetime

from lockstep.analyzer.read.prometheus.errors import RequestError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
AGO = re.compile(r"(?:\d{1,9}[smhdw])+", re.ASCII)
PART = re.compile(r"(\d+)([smhdw])", re.ASCII)
UNIX = re.compile(r"\d{9,11}(?:\.\d+)?", re.ASCII)
LAST = 32503680000.0
"""Unix seconds of the year 3000."""


def moment(text: str, now: float, option: str) -> float:
    """Unix seconds.

    Args:
        text: `2026-11-20T10:15:00Z` (UTC where no offset is given), `1795169700`, or as long ago
            as `90m` or `1d12h`.
        now: Unix seconds.
        option: For the message, as `--since`.

    Raises:
        RequestError: It is none of these, or not a moment up to now.
    """
    found = _moment(text.strip(), now)
    if found is None or not 0 <= found <= LAST:
        raise RequestError(
            f"{option} {text!r} is no moment; it must be a date as 2026-11-20T10:15:00Z,"
            " unix seconds, or how long ago, as 90m"
        )
    if found > now:
        raise RequestError(
            f"{option} {text!r} lies in the future; Prometheus' clock says {utc(now)}"
        )
    return found


def utc(seconds: float) -> str:
    """As `2026-11-20T10:15:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(text: str, now: float) -> float | None:
    if AGO.fullmatch(text):
        return now - sum(int(count) * UNITS[unit] for count, unit in PART.findall(text))
    if UNIX.fullmatch(text):
        return float(text)
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
