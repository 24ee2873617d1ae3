"""Numbers, times and durations as people read them; what is not known is a dash, never "nan"."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from lockstep.analyzer.shapes import wording

UNKNOWN = "–"
TEXTUAL = ("", "time")
"""Units of cells that are read as words; the others stand right-aligned."""


def cell(value: Any, unit: str) -> str:
    """A value as text.

    Args:
        value: Text, a number in base units, or None.
        unit: Empty (as it stands), or one of the units below.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and unit:
        return _UNITS[unit](float(value))
    return str(value)


def seconds(value: float) -> str:
    """A duration: "41.2 ms", "3.44 s", "12 min 30 s", "2.3 h"."""
    size = abs(value)
    if size == 0.0:
        return "0 s"
    if size < 1.0:
        return f"{value * 1e3:.1f} ms"
    if size < 10.0:
        return f"{value:.2f} s"
    if size < 120.0:
        return f"{value:.1f} s"
    if size < 3 * 3600.0:
        return f"{value // 60:.0f} min {value % 60:.0f} s"
    return f"{value / 3600:.1f} h"


def utc(value: float) -> str:
    """Unix seconds as UTC."""
    return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(value: float) -> str:
    """Unix seconds as RFC 3339, for machines."""
    return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%dT%H:%M:%S}Z"


def prefixed(value: float) -> str:
    """Three significant digits and a decimal prefix: "92.9 G", "512 "."""
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "


_UNITS: dict[str, Callable[[float], str]] = {
    "seconds": seconds,
    "ratio": wording.ratio,
    "share": lambda value: f"{value * 100:.0f} %",
    "time": utc,
    "since": lambda value: f"t{'-' if value < 0 else '+'}{seconds(abs(value))}",
    "celsius": lambda value: f"{value:.1f} °C",
    "hertz": lambda value: f"{value / 1e6:.0f} MHz",
    "watts": lambda value: f"{value:.0f} W",
    "nats": lambda value: f"{value:.3f} nats",
    "per second": lambda value: f"{value:,.0f} /s",
    "flops": lambda value: f"{prefixed(value)}FLOP/s",
    "bytes": lambda value: f"{prefixed(value)}B",
    "percentage": lambda value: f"{value * 100:+.1f} %",
    "gpu hours": wording.hours,
    "rank hours": lambda value: wording.hours(value, "rank"),
    "money": lambda value: f"{value:,.2f}",
    "count": lambda value: f"{value:,.0f}",
    "confidence": lambda value: f"{value:.2f}",
    "score": lambda value: f"{value:.1f}",
}
