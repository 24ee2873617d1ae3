"""Whether runs go on, and how fast they go beside their best: a few numbers a run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

HOUR = 3600.0
STALL_SECONDS = 60.0
STALL_STEPS = 10.0
"""A run without a step for the longer of both stands still
(deploy/runbooks/LockstepRunStalled.md)."""
PAUSES = 1.5
"""Or for so many times its longest pause before: a checkpoint, an evaluation."""
LONGEST_PAUSE_SECONDS = 600.0
"""What lasts longer teaches nothing: NCCL's watchdog ends by default what hangs for ten minutes
(torch.distributed.init_process_group, timeout)."""
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
        begun: Unix seconds of the first check that told of it; 0 = it was there before.
        longest: Seconds of its longest pause between two steps that it ended by itself.
        silence: Seconds of its longest time in which no rank began or ended anything, likewise.
        went_on: Unix seconds of the check before the last that saw more steps than the one before
            it: two of them prove that it moves, as pages are told of one after the other; 0 = not
            known.
    """

    steps: float
    since: float
    step_seconds: float | None = None
    best: float | None = None
    hour: float = 0.0
    total: float = 0.0
    count: int = 0
    seen: float = 0.0
    begun: float = 0.0
    longest: float = 0.0
    silence: float = 0.0
    went_on: float = 0.0

    def stands(self, now: float, times: float = 1.0) -> bool:
        """Whether no step came for (so many times) longer than a pause of it may take."""
        usual = STALL_STEPS * (self.step_seconds or 0.0)
        return now - self.since >= times * max(STALL_SECONDS, usual, PAUSES * self.longest)

    def stalled(self, now: float, times: float = 1.0) -> bool:
        """Whether it stands; a run that is yet to begin may take its time."""
        return self.step_seconds is not None and self.stands(now, times)

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
        known = Progress(steps, now, hour=now, begun=now)
    # A resumed run counts from less; and the clock may have been put back.
    if steps < known.steps:
        known = replace(known, step_seconds=None)
    elif steps > known.steps and known.step_seconds is not None:
        # Up to the last check that saw it stand: nobody knows of the time in which none was made.
        pause = min(known.seen - known.since, LONGEST_PAUSE_SECONDS)
        known = replace(known, longest=max(pause, known.longest))
    if steps != known.steps or known.since > now:
        before = known.since if known.steps < steps and known.since <= now else 0.0
        known = replace(known, steps=steps, since=now, went_on=before)
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


def with_silences(
    runs: Mapping[str, Progress], longest: Mapping[str, float]
) -> dict[str, Progress]:
    """With the longest silences of runs, seconds."""
    return {
        run: replace(one, silence=max(one.silence, longest.get(run, 0.0)))
        for run, one in runs.items()
    }


def remembered(runs: Mapping[str, Progress], now: float) -> dict[str, Progress]:
    """Without the runs that nobody has told of for a day."""
    return {run: one for run, one in runs.items() if now - one.seen < FORGET_SECONDS}
