"""Figures as words: verdict, page, report and alert word them alike."""

from collections.abc import Sequence
from datetime import UTC, datetime

TOLD = 0.7
"""Below this confidence in the place it only may be this one."""
CERTAINTY = ((0.9, "high"), (TOLD, "fair"), (0.0, "low"))
"""From this probability on -> the word for it; choices of ours."""
ACCUSED = 3
"""Culprits that a sentence names in full; of more it gives the number."""
MINUTE, HOUR = 60.0, 3600.0
"""Seconds."""
HOURS_FROM = 0.1
"""Less is written in seconds: as hours it would be mostly zeros."""

ENDS = " -- "
"""Between the nodes of a link in its name."""
NAMED = 8
"""Ranks or nodes that are listed one by one; of more only the number is given."""


def listed(names: Sequence[object]) -> str:
    """The first few of some names, and how many more: "3, 5 and 7 more"."""
    more = len(names) - NAMED
    return ", ".join(map(str, names[:NAMED])) + (f" and {more} more" if more > 0 else "")


def milliseconds(seconds: float) -> str:
    """A part of a step: "12.3 ms"."""
    return f"{seconds * 1e3:.1f} ms"


def megahertz(hertz: float) -> str:
    """A clock: "1980 MHz"."""
    return f"{hertz / 1e6:.0f} MHz"


def megabytes(value: float) -> str:
    """An amount of bytes: "1.25 MB"."""
    return f"{value / 1e6:.2f} MB"


def ratio(value: float) -> str:
    """How many times as long: "1.48x"."""
    return f"{value:.2f}x"


def certainty(confidence: float) -> str:
    """A probability as a word and its figure: "high (0.93)"."""
    word = next((word for least, word in CERTAINTY if confidence >= least), CERTAINTY[-1][1])
    return f"{word} ({confidence:.2f})"


def hours(value: float, unit: str = "GPU") -> str:
    """Hours of a GPU, or of a rank where there is none: "0.60 GPU-hours", "44 GPU-seconds"."""
    if abs(value) >= HOURS_FROM:
        return f"{value:.2f} {unit}-hours"
    return f"{value * HOUR:.0f} {unit}-seconds"


def utc(seconds: float) -> str:
    """A moment, unix seconds, as RFC 3339 with milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(seconds: float) -> str:
    """A span for people: "45 s", "12 min", "3 h 05 min", "2 days 4 h"."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours_ = round(seconds / HOUR)
    return f"{hours_ // 24} days {hours_ % 24} h"
