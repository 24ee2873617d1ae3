"""What a pass hands on to the next one: all streams, by node, uuid and metric."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.arrays import TelemetryArrays, keys
from lockstep.analyzer.hardware.sequential_test.streams import Streams

KEEP = 7 * 86_400.0
"""Seconds for which a GPU that does not answer is remembered, and expected among its peers."""


@dataclass(frozen=True, slots=True)
class State:
    """All streams, of the GPUs of now and of the last days.

    Attributes:
        node, uuid, gpu, stratum: (G,) as in arrays.TelemetryArrays.
        seen: (G,) unix seconds at which each GPU last told something.
        metrics: (M,) names.
        until: Unix seconds of the last check; nothing up to it is judged again.
        streams: Over (M, G).
    """

    node: NDArray[np.str_]
    uuid: NDArray[np.str_]
    gpu: NDArray[np.int64]
    stratum: NDArray[np.str_]
    seen: NDArray[np.float64]
    metrics: NDArray[np.str_]
    until: float
    streams: Streams

    @classmethod
    def new(cls) -> "State":
        """Nothing is known."""
        none = np.array([], dtype=np.str_)
        return cls(
            node=none,
            uuid=none,
            gpu=np.array([], dtype=np.int64),
            stratum=none,
            seen=np.array([]),
            metrics=none,
            until=float("-inf"),
            streams=Streams.new(0, 0),
        )


def aligned(state: State, fleet: TelemetryArrays) -> tuple[State, tuple[str, ...]]:
    """A copy whose first columns are a fleet's GPUs and whose rows are its metrics.

    Known GPUs go on, also after a gap; the others begin anew. A GPU is its node and its uuid:
    another card in the slot begins anew, and so does a node under another name. So does a GPU with
    another stratum, because it has other peers. GPUs that the fleet no longer has follow after its
    own for KEEP seconds: they are still expected.

    Returns:
        The state, and what is new or gone in words.
    """
    known = {key: place for place, key in enumerate(keys(state.node, state.uuid).tolist())}
    told = keys(fleet.node, fleet.uuid).tolist()
    place = np.array([known.get(key, -1) for key in told], dtype=np.intp)
    now = float(fleet.times[-1]) if len(fleet.times) else state.until
    gone = np.setdiff1d(np.flatnonzero(now - state.seen <= KEEP), place)
    rows = {name: row for row, name in enumerate(state.metrics.tolist())}
    names = [metric.name for metric in fleet.metrics]
    streams = state.streams.taken(
        np.array([rows.get(name, -1) for name in names], dtype=np.intp),
        np.concatenate([place, gone]),
    )
    here = np.flatnonzero(place >= 0)
    moved = here[state.stratum[place[here]] != fleet.stratum[here]]
    streams.forget(moved)
    seen = np.full(len(place), now)
    seen[here] = state.seen[place[here]]
    found = State(
        node=np.concatenate([fleet.node, state.node[gone]]),
        uuid=np.concatenate([fleet.uuid, state.uuid[gone]]),
        gpu=np.concatenate([fleet.gpu, state.gpu[gone]]),
        stratum=np.concatenate([fleet.stratum, state.stratum[gone]]),
        seen=np.concatenate([seen, state.seen[gone]]),
        metrics=np.array(names, dtype=np.str_),
        until=state.until,
        streams=streams,
    )
    new = len(place) - len(here) if len(state.node) else 0
    counts = {
        "are new and learn what is normal": new,
        "have other peers than before and learn what is normal": len(moved),
        "were there in the last days and are no longer told of": len(gone),
    }
    return found, tuple(f"GPUs that {what}: {count}" for what, count in counts.items() if count)
