"""GPU time as people say it: the unit stands in the label, so that the number is short."""

from lockstep.analyzer.report.figures import UNKNOWN

HOUR = 3600.0
SHORT = 0.1
"""GPU-hours below which seconds are told."""


def lost(hours: float | None) -> tuple[str, str]:
    """Label and value of what a run lost.

    Args:
        hours: GPU-hours; None = not known.
    """
    if hours is None:
        return "Lost GPU time", UNKNOWN
    if hours < SHORT:
        return "Lost (GPU-s)", f"{hours * HOUR:.3g}"
    return "Lost (GPU-h)", f"{hours:,.3g}" if hours < 1000 else f"{hours:,.0f}"
