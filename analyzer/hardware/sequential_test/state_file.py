"""The state of a fleet on disk: written whole or not at all, and never trusted blindly.

NumPy's zip of plain arrays with checksums, under a temporary name until it is complete. Nothing in
it is code: object arrays are refused.
"""

import lzma
import math
import os
import struct
import zipfile
import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.state import State
from lockstep.analyzer.hardware.sequential_test.streams import Streams
from lockstep.collector.contract.metric_rows.ranges import CLOCK, COUNT, HERTZ, Range

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

    Raises:
        OSError: The disk is full or not writable; the old file stays.
    """
    arrays = {field.name: getattr(state.streams, field.name) for field in fields(Streams)}
    arrays |= {f"of_{name}": getattr(state, name) for name in (*OF_GPUS, "metrics")}
    temporary = path.with_name(f".{path.name}.new")
    try:
        with temporary.open("wb") as file:
            np.savez(file, format=np.array(FORMAT), until=np.array(state.until), **arrays)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


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
