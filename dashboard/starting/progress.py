"""How far a run is, read from what `lockstep run` says. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

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
