"""Which range a number is of: the verdict counts from the onset, charts take what is shown."""

from collections.abc import Mapping
from typing import Any

from lockstep.dashboard.address import moment, utc
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.trouble import TroubleError
from lockstep.dashboard.words import verdict
from lockstep.dashboard.words.reading import number, records, text, whole

NEAR = 0.02
"""Of the range: an onset so near to its left edge is the edge."""


def onset(told: Mapping[str, Any] | None, span: Span) -> float | None:
    """Unix seconds from which the first culprit is slow, where a range begins before it."""
    culprits = records((told or {}).get("culprits"))
    if not culprits or not text(culprits[0].get("since")):
        return None
    try:
        since = moment(text(culprits[0].get("since")), span.end)
    except TroubleError:
        return None
    return since if span.start + NEAR * span.seconds < since < span.end else None


def measured(told: Mapping[str, Any] | None, span: Span) -> str:
    """What the map, the charts and the table of ranks are taken over, and what the verdict is."""
    words = (
        f"Measured from {utc(span.start)} to {utc(span.end)}: the table has medians over all of"
        " it, the map and the boxes values by window."
    )
    since = onset(told, span)
    if since is None:
        return words
    first = records((told or {}).get("culprits"))[0]
    slower, step = number(first.get("slowdown")), whole(first.get("from_step"))
    times = "" if slower is None else f": {slower:.2f}×"
    at = utc(since) if step is None else f"step {step} ({utc(since)})"
    return (
        f"{words} The verdict counts {verdict.who(first)} from {at} on{times}; medians that"
        " include the time before are lower."
    )
