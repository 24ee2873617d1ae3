"""Where a run is, in one line: steps, loss, tokens a second, and the time left."""

from pathlib import Path
from time import monotonic

from lockstep.terminal.output import Progress as Show
from lockstep.workloads.launch.launcher import Progress
from lockstep.workloads.loop.resume import about
from lockstep.workloads.spec import RunSpec
from lockstep.workloads.tasks.registry import find

BAR_CELLS = 20
UNSEEN = (
    "; the program goes on, and is watched by its hardware and for hangs alone: --step-pattern says"
    " how its log tells steps"
)


class TrainingProgress:
    """Shows each progress of a run; on a terminal as a bar."""

    def __init__(self, spec: RunSpec, show: Show) -> None:
        self._show = show
        task, resume = find(spec.workload), spec.training.resume
        self._sample, self._per_step = task.sample, task.per_step(spec)
        self._started_at = 0 if resume is None else about(Path(resume)).step
        self._first: tuple[int, float] | None = None

    def __call__(self, progress: Progress) -> None:
        """Show it."""
        if progress.unseen_seconds is not None:
            self._show("watching", f"no step was seen for {progress.unseen_seconds:.0f} s{UNSEEN}")
            return
        parts = [f"step {progress.step} of {progress.steps or '?'}"]
        if self._show.terminal and progress.steps:
            share = progress.step / progress.steps
            parts = [f"{bar(share)} {progress.step}/{progress.steps}"]
        if progress.loss is not None:
            parts.append(f"loss {progress.loss:.3f}")
        rate = self._steps_per_second(progress.step, monotonic())
        if rate is not None:
            parts.append(f"{rate * self._per_step:,.0f} {self._sample}/s")
            if progress.steps:
                parts.append(f"{clock((progress.steps - progress.step) / rate)} left")
        self._show("training", ", ".join(parts))

    def _steps_per_second(self, step: int, now: float) -> float | None:
        """Since the first step that was seen to end: before it, the ranks were starting."""
        if self._first is None:
            self._first = (step, now) if step > self._started_at else None
            return None
        begin, since = self._first
        return (step - begin) / (now - since) if now > since else None


def bar(share: float) -> str:
    """A bar that is filled to a share of 0 to 1."""
    full = round(BAR_CELLS * min(1.0, max(0.0, share)))
    return f"[{'#' * full}{'.' * (BAR_CELLS - full)}]"


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss, or m:ss below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
