"""Which lines of a log are of the loop that trains: hypotheses, until one moves as steps do.

A hypothesis is one loop: a form with the word and the total that stand by its number. Numbers that
are no steps (milliseconds, batch sizes) fall and rise by any amounts, and are never believed.
"""

import math
from dataclasses import dataclass, field, replace

from lockstep.workloads.launch.external_program.patterns import (
    MICRO,
    STEP,
    SURE,
    Form,
    Said,
    batch_size,
    compiled,
    is_mlperf,
    known_forms,
    loss_alone,
    said_of_samples,
)

MOST_STEPS = 10_000
"""Between two lines; more is another number than a step."""
EVEN_MOVES = 2
"""In a row, of the same size: a number by hand that no loss is told with is a step then."""
UNEVEN_MOVES = 4
"""In a row, upward: likewise, where lines come by time."""
SILENT_MOVES = 3
"""Of another loop, while nothing is heard of the one that was believed: the program has gone on."""
ECHO_STRIDES = 2
"""So far behind, a line is another rank's of the same step: several may write into one log."""
HELD_MOVES = 64
"""For so many a counter that may be of parts of a step waits for a better one of its line to move:
gradients are hardly accumulated over more."""
NESTED_MOVES = 3
"""In a row, each over the same number of moves, two or more, of the loop that was believed: it
counts parts of these steps."""
MOST_LOOPS = 64
"""Watched side by side; of more, the one that was not heard of for longest is forgotten."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A line about a step, and when it was read: CLOCK_MONOTONIC, nanoseconds."""

    said: Said
    when: int


@dataclass(slots=True)
class _Loop:
    """One hypothesis.

    Attributes:
        heard: Its lines that were not counted yet, one a step.
        stride: By how much it last rose.
        rises, even: Moves upward in a row, and those of them that were of the same size.
        meanwhile: Moves since the loop that is believed was last heard of.
        tells_loss: Whether its lines tell a loss, or lines of their own do as it moves.
        rank: Of its counter (Said.rank).
        better: A counter of a higher rank that stands in the same lines.
        moved_in_all: By how much it has risen so far.
        seen_of_taken: What that was of the loop that is believed, when this one moved last.
        parts, nested: Moves of that loop in one of this, and how often in a row it was so.
        over: The loop that counts parts of its steps.
    """

    sure: bool
    heard: list[Heard] = field(default_factory=list)
    last: Said | None = None
    stride: int = 0
    rises: int = 0
    even: int = 0
    meanwhile: int = 0
    tells_loss: bool = False
    rank: int = STEP
    better: "_Loop | None" = None
    moved_in_all: int = 0
    seen_of_taken: int = 0
    parts: int = 0
    nested: int = 0
    over: "_Loop | None" = None

    @property
    def held(self) -> bool:
        """Whether it may count parts of a step, and the counter of the steps is still to move."""
        waits = self.rank == MICRO or (self.better is not None and not self.better.believed)
        return waits and self.rises < HELD_MOVES

    @property
    def believed(self) -> bool:
        """Whether it has moved by whole steps."""
        if self.sure or self.tells_loss:
            return self.rises > 0
        return self.even >= EVEN_MOVES or self.rises >= UNEVEN_MOVES

    @property
    def may_be_over(self) -> bool:
        """Whether no further step of it is to be expected, as far as it says."""
        return self.last is None or self.last.total is None or self.last.step >= self.last.total

    def hear(self, heard: Heard) -> bool:
        """Take a line of it.

        Returns:
            Whether the number has moved; not where a bar is drawn again, nor by an echo.
        """
        said, before = heard.said, self.last
        self.tells_loss = self.tells_loss or said.tells_loss
        move = 0 if before is None else said.step - before.step
        echo = -ECHO_STRIDES * self.stride <= move < 0 and not begins_anew(said.step, self.stride)
        if before is not None and (move == 0 or echo):
            return False
        self.last = said
        if 0 < move <= MOST_STEPS:
            self.rises += 1
            self.even = self.even + 1 if move == self.stride else 1
            self.stride = move
            self.moved_in_all += move
        elif before is not None and not begins_anew(said.step, self.stride):
            self.rises = self.even = 0
            self.heard.clear()
        self.heard.append(heard)
        kept = HELD_MOVES if self.rank == MICRO or self.better is not None else UNEVEN_MOVES
        del self.heard[: -kept - 1]
        self.meanwhile += before is not None
        return before is not None


def begins_anew(step: int, stride: int) -> bool:
    """Whether a number that has fallen is the first of an epoch: no more than one stride."""
    return step <= max(1, stride)


class Choice:
    """Believes one loop of a log at a time, so that other numbers in it are not taken for steps.

    A loop that tells no loss (a bar may be of anything) gives way to one that does; any gives way
    to another of its kind that moves once it is over.

    Args:
        expression: The user's own, taken at once; None = the known forms.
    """

    def __init__(self, expression: str | None = None) -> None:
        self._own = None if expression is None else Form("", compiled(expression))
        self._forms = known_forms()
        self._loops: dict[tuple[str, str, int | None], _Loop] = {}
        self._taken: _Loop | None = None
        self._moved: _Loop | None = None
        self._began = False
        self._losses: list[float] = []
        self._batch: int | None = None

    def find(self, line: str, when: int) -> list[Heard]:
        """What the line adds to the count of steps: nothing, itself, or with lines before it.

        Lines before it come along where this one shows that they were about steps. A step comes a
        second time where its loss stood on a line of its own: Hugging Face's Trainer draws the bar,
        writes the loss of that step, and draws the bar again (trainer.py, on_step_end before
        on_log; tqdm.write clears the bars and draws them anew).
        """
        if self._own is not None:
            said = self._own.find(line)
            return [] if said is None else [Heard(said, when)]
        moved: list[_Loop] = []
        counted: list[Heard] = []
        told = self._told(line)
        if not told and (loss := loss_alone(line)) is not None:
            self._losses = [*self._losses[-1:], loss]  # whether it is one or several matters
            if self._moved is not None:
                self._moved.tells_loss = True
            return []
        loops = [self._loop(said) for said in told]
        by_hand = [loop for loop in loops if not loop.sure]
        for loop in by_hand:
            better = max(by_hand, key=lambda one: one.rank)
            loop.better = better if better.rank > loop.rank else loop.better
        for said, loop in zip(told, loops, strict=True):
            again = loop.last is not None and loop.last.step == said.step
            alone = self._loss_before(loop) if not said.tells_loss else math.nan
            heard = Heard(said if math.isnan(alone) else replace(said, loss=alone), when)
            if loop.hear(heard):
                self._compare_with_taken(loop)
                moved.append(loop)
                self._moved = loop
                if loop is self._taken:
                    counted.append(heard)
            elif again and not math.isnan(alone):
                if loop is self._taken:
                    counted.append(heard)
                elif loop.heard:
                    loop.heard[-1] = replace(heard, when=loop.heard[-1].when)
            if loop is self._taken:
                self._heard_of_taken()
        return self._judged(moved, counted)

    def _told(self, line: str) -> list[Said]:
        """What the known forms find; samples of MLPerf's log as steps, by the batch it told."""
        self._batch = batch_size(line) or self._batch
        if is_mlperf(line):
            said = None if self._batch is None else said_of_samples(line, self._batch)
            return [] if said is None else [said]
        return [said for form in self._forms for said in form.find_all(line)]

    def _compare_with_taken(self, loop: _Loop) -> None:
        """Note by how much the loop that is believed has moved since this one moved last."""
        taken = self._taken
        if taken is None or loop is taken:
            return
        over, loop.seen_of_taken = taken.moved_in_all - loop.seen_of_taken, taken.moved_in_all
        move = max(loop.stride, 1)
        parts = over // move if over % move == 0 else 0
        loop.nested = loop.nested + 1 if parts >= 2 and parts == loop.parts else int(parts >= 2)
        loop.parts = parts

    def _judged(self, moved: list[_Loop], counted: list[Heard]) -> list[Heard]:
        """What counts of a line, after the loops that it is about have taken it."""
        if self._taken is not None and not self._taken.believed:
            self._taken = None  # it has moved as no step does: it must show itself anew
            return counted
        for loop in sorted(moved, key=lambda one: (not one.sure, -one.rank)):
            if loop is self._taken or not loop.believed or loop.held:
                continue
            if not self._yields_to(loop):
                continue
            self._taken = loop
            self._heard_of_taken()
            # After another loop the count begins here: its steps took the time before.
            counted = loop.heard[-1:] if self._began else list(loop.heard)
            self._began = True
            break
        if counted and self._taken is not None:
            self._taken.heard.clear()
        return counted

    def _loss_before(self, loop: _Loop) -> float:
        """The loss that stood alone right before this line of the loop that trains; NaN: none.

        Of several without a line between them nobody knows whose they are: they came late.
        """
        if self._taken is not None and loop is not self._taken:
            return math.nan
        losses, self._losses = self._losses, []
        return losses[0] if len(losses) == 1 else math.nan

    def _yields_to(self, other: _Loop) -> bool:
        taken = self._taken
        if taken is None:
            return True
        if taken.tells_loss != other.tells_loss:
            return other.tells_loss
        if taken.over is other or (other.rank == MICRO and taken.rank > MICRO):
            return False
        nested = other.nested >= NESTED_MOVES and not other.sure and other.rank >= STEP
        if nested or taken.better is other or (taken.rank == MICRO and other.rank > MICRO):
            other.over = taken
            return True
        silent = other.meanwhile >= SILENT_MOVES
        return silent and (taken.tells_loss or taken.may_be_over)

    def _loop(self, said: Said) -> _Loop:
        loop = self._loops.pop(said.loop, None) or _Loop(said.form in SURE, rank=said.rank)
        self._loops[said.loop] = loop
        if len(self._loops) > MOST_LOOPS:
            del self._loops[next(iter(self._loops))]
        return loop

    def _heard_of_taken(self) -> None:
        for loop in self._loops.values():
            loop.meanwhile = 0
