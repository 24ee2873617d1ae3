"""The operations of a finding's steps, fetched from the collectors before they are overwritten."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from lockstep.collector.recorder.follow import Follower
from lockstep.collector.recorder.parts import Row
from lockstep.collector.recorder.rows import rank_answers
from lockstep.watch.loop.asking import ask

SECONDS = 5.0
"""For all collectors together."""
MAX_BYTES = 64 << 20
"""Of all collectors together, 2 MB a rank; Python needs three times as much while it reads them."""
AT_ONCE = 8
"""Collectors that are asked at the same time; who comes first has the bytes."""


@dataclass(frozen=True, slots=True)
class Operations:
    """What the collectors gave.

    Attributes:
        steps, ops: Rows of contract.archive.STEPS and OPS.
        silent: Address -> why it gave nothing.
        asked: How many were asked.
    """

    steps: Sequence[Row] = ()
    ops: Sequence[Row] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    asked: int = 0


def fetch(
    pages: Sequence[str],
    run: str,
    from_step: int,
    seconds: float = SECONDS,
    most: int = MAX_BYTES,
) -> Operations:
    """Ask some collectors at a time, until the deadline; never raises for what one does.

    Args:
        pages: Addresses of their pages, as Prometheus scrapes them, the most important first.
        run: The run's id.
        from_step: The first step that is wanted.
        seconds: For all.
        most: Bytes of all answers together.
    """
    question = f"/ops?run={quote(run, safe='')}&from_step={max(0, from_step)}"
    given, silent = ask(
        pages, question, lambda body: rank_answers(body, run), seconds, most, AT_ONCE
    )
    answers = [answer for some in given.values() for answer in some]
    steps, ops = Follower().take(answers, 0, 0.0, last=True) if answers else ([], [])
    return Operations(steps, ops, silent, len(set(pages)))
