"""What a pass hands on to the next one: all streams, by node, uuid and metric."""

import lzma
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.streams import Streams
from lockstep.analyzer.hardware.sequential_test.telemetry import TelemetryArrays, keys
from lockstep.collector.contract.metric_rows.ranges import CLOCK, COUNT, HERTZ, Range
from lockstep.collector.contract.whole_file import replacing

KEEP = 7 * 86_400.0
"""Seconds for which a GPU that does not answer is remembered, and expected among its peers."""


@dataclass(frozen=True, slots=True)
class State:
    """All streams, of the GPUs of now and of the last days.

    Attributes:
        node, uuid, gpu, stratum: (G,) as in arrays.TelemetryArrays.
        seen: (G,) unix seconds at which each GPU last reported something.
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
    known = {key: index for index, key in enumerate(keys(state.node, state.uuid).tolist())}
    here_now = keys(fleet.node, fleet.uuid).tolist()
    positions = np.array([known.get(key, -1) for key in here_now], dtype=np.intp)
    now = float(fleet.times[-1]) if len(fleet.times) else state.until
    gone = np.setdiff1d(np.flatnonzero(now - state.seen <= KEEP), positions)
    rows = {name: row for row, name in enumerate(state.metrics.tolist())}
    names = [metric.name for metric in fleet.metrics]
    streams = state.streams.taken(
        np.array([rows.get(name, -1) for name in names], dtype=np.intp),
        np.concatenate([positions, gone]),
    )
    here = np.flatnonzero(positions >= 0)
    moved = here[state.stratum[positions[here]] != fleet.stratum[here]]
    streams.forget(moved)
    seen = np.full(len(positions), now)
    seen[here] = state.seen[positions[here]]
    new_state = State(
        node=np.concatenate([fleet.node, state.node[gone]]),
        uuid=np.concatenate([fleet.uuid, state.uuid[gone]]),
        gpu=np.concatenate([fleet.gpu, state.gpu[gone]]),
        stratum=np.concatenate([fleet.stratum, state.stratum[gone]]),
        seen=np.concatenate([seen, state.seen[gone]]),
        metrics=np.array(names, dtype=np.str_),
        until=state.until,
        streams=streams,
    )
    new = len(positions) - len(here) if len(state.node) else 0
    counts = {
        "are new and learn what is normal": new,
        "have other peers than before and learn what is normal": len(moved),
        "were there in the last days and are no longer reported": len(gone),
    }
    return new_state, tuple(f"GPUs that {what}: {count}" for what, count in counts.items() if count)


FORMAT = "lockstep fleet state 1"
OF_GPUS = ("node", "uuid", "gpu", "stratum", "seen")
TORN = (
    OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, struct.error,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip
"""What NumPy and zipfile raise over a file of wrong bytes; RuntimeError where it seems encrypted or
written by a later zip."""


RESIDUAL = Range(-HERTZ.high, HERTZ.high, "between two readings of a GPU; clocks are the largest")
SQUARE = Range(0, HERTZ.high**2, "the square of that")
PRODUCT = Range(-SQUARE.high, SQUARE.high, "of two of them")
EVIDENCE = Range(-1e12, 1e12, "nats; an alarm needs some dozens")
SAMPLES = Range(0, COUNT.high, "of one stream")
SUM = Range(-SQUARE.high, SQUARE.high, "of residuals")
WITHIN = {
    "centre": RESIDUAL,
    "scale": SQUARE,
    "lag": PRODUCT,
    "power": SQUARE,
    "last": RESIDUAL,
    "count": SAMPLES,
    "evidence": EVIDENCE,
    "length": SAMPLES,
    "excess": SUM,
    "onset": CLOCK,
    "alarmed": CLOCK,
}
"""What each array of Streams can hold: beyond it every GPU would be reported at once."""


class StateError(ValueError):
    """A file is not a state; the message says why."""


def save(state: State, path: Path) -> None:
    """Write the state; a reader sees the old file or the whole new one.

    NumPy's zip of plain arrays with checksums, under a temporary name until it is complete. Nothing
    in it is code: object arrays are refused.

    Raises:
        OSError: The disk is full or not writable; the old file stays.
    """
    arrays = {field.name: getattr(state.streams, field.name) for field in fields(Streams)}
    arrays |= {f"of_{name}": getattr(state, name) for name in (*OF_GPUS, "metrics")}
    with replacing(path, sync=True) as file:
        np.savez(file, format=np.array(FORMAT), until=np.array(state.until), **arrays)


def restore(path: Path) -> tuple[State, str | None]:
    """The state in a file; an empty one, and why in a sentence, where that is none."""
    try:
        return _read(path), None
    except FileNotFoundError:
        return State.new(), f"{path} is not there yet; every stream learns what is normal"
    except TORN as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        return State.new(), (
            f"{path} is no whole state of a fleet ({why}); every stream learns again what is normal"
        )


def _read(path: Path) -> State:
    with path.open("rb") as opened:
        if not zipfile.is_zipfile(opened):
            raise StateError("it is torn, or of another kind")
    with np.load(path, allow_pickle=False) as file:
        if "format" not in file:
            raise StateError(f"it does not say {FORMAT}")
        if str(file["format"]) != FORMAT:
            raise StateError(f"it says {file['format']}, not {FORMAT}")
        streams = Streams(**{field.name: file[field.name] for field in fields(Streams)})
        of = {name: file[f"of_{name}"] for name in (*OF_GPUS, "metrics")}
        state = State(**of, until=float(file["until"]), streams=streams)
    # Minus infinity is the time of a state that has judged nothing.
    if state.until != -math.inf and not _can_be(np.array(state.until), CLOCK):
        raise StateError(f"it is of the time {state.until}")
    if state.metrics.ndim != 1:
        raise StateError("metrics is no list of names")
    _check_streams(state)
    _check_names(of, len(state.node))
    return state


def _can_be(values: NDArray[Any], within: Range) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        return np.asarray((values >= within.low) & (values <= within.high))


def _check_streams(state: State) -> None:
    right = Streams.new(len(state.metrics), len(state.node))
    for field in fields(Streams):
        found, expected = getattr(state.streams, field.name), getattr(right, field.name)
        if found.shape != expected.shape or found.dtype != expected.dtype:
            raise StateError(
                f"{field.name} is {found.dtype} of {found.shape};"
                f" it must be {expected.dtype} of {expected.shape}"
            )
        absent = np.isnan(found) if field.name in ("last", "onset", "alarmed") else False
        if not (_can_be(found, WITHIN[field.name]) | absent).all():
            raise StateError(f"{field.name} has values that cannot be")


def _check_names(of: dict[str, NDArray[np.generic]], gpus: int) -> None:
    for name in OF_GPUS:
        if of[name].shape != (gpus,):
            raise StateError(f"{name} is not of {gpus} GPUs")
        if (of[name].dtype.kind == "U") != (name in ("node", "uuid", "stratum")):
            raise StateError(f"{name} is of the type {of[name].dtype}")
    if not _can_be(of["seen"], CLOCK).all():
        raise StateError("seen has times that cannot be")
