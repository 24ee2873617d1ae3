"""What the page says of a started run, in one sentence. Pure."""

from lockstep.collector.contract.words import ExitCode
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.starting.process import Snapshot, Stage
from lockstep.dashboard.starting.progress import Progress


def sentence(shown: Snapshot, progress: Progress) -> tuple[str, Severity]:
    """Where a started run is, or how it ended; plain text."""
    match shown.stage:
        case Stage.QUEUED:
            behind = f" behind {shown.behind}" if shown.behind else ""
            return f"{shown.name} waits{behind}; it begins once that is over.", Severity.NOTE
        case Stage.RUNNING:
            return f"{shown.name} is running: {_where(progress)}.", Severity.NOTE
        case Stage.STOPPING:
            return f"{shown.name} is being stopped; its archive is being closed.", Severity.NOTE
        case Stage.ANALYZING:
            return f"{shown.name} has ended; now it is analyzed.", Severity.NOTE
        case Stage.REPORTING:
            return f"{shown.name} was analyzed; now its report is written.", Severity.NOTE
        case Stage.OVER:
            return _ending(shown)


def duration(seconds: float) -> str:
    """`48 s`, `3 min 05 s`, `1 h 02 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left:02} min" if hours else f"{minutes} min {rest:02} s"


def _where(progress: Progress) -> str:
    if progress.stage != "training":
        return progress.stage or "its processes are being started"
    text = f"step {progress.step:,} of {progress.steps:,}"
    text += f", loss {progress.loss:.3f}" if progress.loss is not None else ""
    return text + (f", {progress.left} left" if progress.left else "")


def _ending(shown: Snapshot) -> tuple[str, Severity]:
    after = f" after {duration(shown.seconds)}"
    if shown.code is None:
        return f"{shown.name} was not started. {shown.trouble}".strip(), Severity.CRITICAL
    if shown.stopped and shown.code == ExitCode.OK:
        words = f"{shown.name} ended as it should{after}; what follows a run was stopped."
        return words, Severity.NOTE
    if shown.stopped:
        killed = shown.code < 0
        closed = (
            "it had to be killed, and its archive ends where it was"
            if killed
            else "what it had recorded is in its archive"
        )
        return f"{shown.name} was stopped{after}; {closed}.", Severity.NOTE
    if shown.code == ExitCode.OK:
        trouble = f" {shown.trouble}" if shown.trouble else ""
        return (
            f"{shown.name} ended as it should{after}.{trouble}",
            Severity.WARNING if trouble else Severity.OK,
        )
    if shown.code < 0:
        return f"{shown.name} was killed by signal {-shown.code}{after}.", Severity.CRITICAL
    return (
        f"{shown.name} failed with code {shown.code}{after}; the log says why.",
        Severity.CRITICAL,
    )
