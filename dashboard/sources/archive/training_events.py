"""What happened to the training: checkpoints, evaluations, restarts."""

import numpy as np
from numpy.typing import NDArray

from lockstep.dashboard.shapes import Event, Severity
from lockstep.dashboard.sources.archive.summary import Summary

SHOWN = {"checkpoint": "checkpoint", "eval": "evaluation"}
MOST = 500
"""Of a kind; a run that evaluates at each step has no events of it, but a habit."""


def events(steps: Summary, run: str) -> list[Event]:
    """Each stretch of tagged steps, and each restart.

    Args:
        steps: Of the run.
        run: Its id.
    """
    found: list[Event] = []
    ends = steps.start + np.nan_to_num(steps.wall)
    for tag, words in SHOWN.items():
        stretches = _stretches(steps.tags[tag])
        for begin, end in stretches[:MOST]:
            at, until = float(steps.start[begin]), float(ends[end - 1])
            text = f"{words} at step {steps.steps[begin]}"
            found.append(Event(at, until, tag, Severity.NOTE, text, run))
    for place in np.flatnonzero(np.diff(np.maximum.accumulate(steps.attempts)) > 0) + 1:
        text = f"restart: attempt {steps.attempts[place]} from step {steps.steps[place]}"
        found.append(Event(float(steps.start[place]), None, "restart", Severity.WARNING, text, run))
    return found


def _stretches(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
