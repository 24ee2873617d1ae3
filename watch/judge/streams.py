"""The sequential test's memory between cycles: what it need not keep, and when time went back."""

from dataclasses import replace

import numpy as np

from lockstep.analyzer.hardware.sequential_test.state import State

FORGET_SECONDS = 3600.0
"""A rank that is not told of for an hour is of a run that ended: the next one has other peers."""


def kept(state: State, now: float) -> State:
    """Without the ranks of runs that ended."""
    recent = state.seen > now - FORGET_SECONDS
    if recent.all():
        return state
    places = np.flatnonzero(recent)
    return replace(
        state,
        node=state.node[places],
        uuid=state.uuid[places],
        gpu=state.gpu[places],
        stratum=state.stratum[places],
        seen=state.seen[places],
        streams=state.streams.taken(np.arange(len(state.metrics)), places),
    )


def rewound(state: State, now: float) -> State:
    """For a clock that was put back: nothing later than now has been judged."""
    return replace(state, until=min(state.until, now), seen=np.minimum(state.seen, now))
