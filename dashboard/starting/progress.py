"""How far a started run is, read from the output of `lockstep run`, and the sentence about it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lockstep.collector.contract.words import ExitCode
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.starting.process import Snapshot, Stage

LINES_AT_MOST = 200
CHARACTERS_AT_MOST = 500
_TRAINING = re.compile(r"training: step (\d{1,9}) of (\d{1,9})(?:, loss (-?\d+\.\d+))?")
_LEFT = re.compile(r"(\d[\d:]*) left$")
_STAGE = re.compile(r"(starting|preparing data)(?:: (.*))?")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is.

    Attributes:
        stage: `starting`, `preparing data`, `training`; empty = it said nothing yet.
        step: The last that all ranks completed.
        steps: How many it will take; 0 = not told yet.
        loss: After that step; None = not told.
        left: Time that is left, as h:mm:ss; empty = not told.
    """

    stage: str = ""
    step: int = 0
    steps: int = 0
    loss: float | None = None
    left: str = ""

    @property
    def share(self) -> float:
        """Of its steps, 0 to 1."""
        return min(1.0, self.step / self.steps) if self.steps else 0.0


def lines(raw: bytes) -> tuple[str, ...]:
    """The last lines of a log, bounded, without what would steer a terminal."""
    text = raw.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    kept = text.splitlines()[-LINES_AT_MOST:]
    return tuple(_cut(_CONTROL.sub("", line)) for line in kept)


def progress(log: Sequence[str]) -> Progress:
    """The newest that lines of lockstep.runs.observe tell; other lines tell nothing."""
    for line in reversed(log):
        if found := _TRAINING.match(line):
            step, steps, loss = found.groups()
            left = _LEFT.search(line)
            return Progress(
                "training", int(step), int(steps), None if loss is None else float(loss),
                left.group(1) if left else "",
            )  # fmt: skip
        if stage := _STAGE.match(line):
            return Progress(stage.group(1))
    return Progress()


def _cut(line: str) -> str:
    return line if len(line) <= CHARACTERS_AT_MOST else f"{line[:CHARACTERS_AT_MOST]} …"


def headline(shown: Snapshot, progress: Progress) -> tuple[str, Severity]:
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
