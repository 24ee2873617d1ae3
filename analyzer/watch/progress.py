"""Whether runs go on, and how fast they go beside their best: a few numbers a run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

HOUR = 3600.0
STALL_SECONDS = 60.0
STALL_STEPS = 10.0
"""A run without a step for the longer of both stands still (reference 8, RunStalled)."""
FORGET_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What is remembered of a run.

    Attributes:
        steps: The most that any rank has done.
        since: Unix seconds of the check at which that was first seen.
        step_seconds: The last that was known.
        best: Steps per second of its best whole hour without a finding; None = none yet.
        hour: Unix seconds at which the hour under way began.
        total, count: Sum and number of steps per second told in that hour.
        seen: Unix seconds of the last check.
    """

    steps: float
    since: float
    step_seconds: float | None = None
    best: float | None = None
    hour: float = 0.0
    total: float = 0.0
    count: int = 0
    seen: float = 0.0

    def stalled(self, now: float) -> bool:
        """Whether no step came for too long; a run that is yet to begin may take its time."""
        if self.step_seconds is None:
            return False
        return now - self.since >= max(STALL_SECONDS, STALL_STEPS * self.step_seconds)

    def ratio(self, given: float | None) -> float | None:
        """Steps per second over a baseline's, or over the own best hour's; None = neither."""
        usual = self.best if given is None else given
        if usual is None or not self.step_seconds:
            return None
        return 1.0 / self.step_seconds / usual


def advanced(
    known: Progress | None, steps: float, step_seconds: float | None, healthy: bool, now: float
) -> Progress:
    """One check.

    Args:
        known: What was remembered.
        steps: The most that any rank has done.
        step_seconds: Of the last minutes; None = no step was told.
        healthy: Whether no finding about the run is open.
        now: Unix seconds.
    """
    if known is None:
        known = Progress(steps, now, hour=now)
    # A resumed run counts from less; and the clock may have been put back.
    if steps < known.steps:
        known = replace(known, step_seconds=None)
    if steps != known.steps or known.since > now:
        known = replace(known, steps=steps, since=now)
    if step_seconds is not None:
        known = replace(known, step_seconds=step_seconds)
    if not healthy or now < known.hour:
        known = replace(known, hour=now, total=0.0, count=0)
    elif now - known.hour >= HOUR:
        mean = known.total / known.count if known.count else 0.0
        best = max(mean, known.best or 0.0) or None
        known = replace(known, best=best, hour=now, total=0.0, count=0)
    if healthy and step_seconds:
        known = replace(known, total=known.total + 1.0 / step_seconds, count=known.count + 1)
    return replace(known, seen=now)


def remembered(runs: Mapping[str, Progress], now: float) -> dict[str, Progress]:
    """Without the runs that nobody has told of for a day."""
    return {run: one for run, one in runs.items() if now - one.seen < FORGET_SECONDS}
