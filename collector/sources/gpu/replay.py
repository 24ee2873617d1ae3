"""GPUs as a capture of a real machine told them; everything made from it says replay."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import METRICS
from lockstep.collector.files.opening import read_lines
from lockstep.collector.readings.gpu import PROCESSES, RAW, Gpu, GpuReading
from lockstep.collector.readings.source import SourceError

# A capture on disk: one JSON line that says where it comes from, then one a reading.

FILE = "gpus.jsonl"
SCHEMA_VERSION = 1
LIMIT = 64 << 20
MAX_GPUS = 256
PREFIX = "lockstep_gpu_"
"""Left out of the names of metrics in the file."""

_INFO = set(m.GPU_INFO.labels) | set(m.MIG_INFO.labels)


@dataclass(frozen=True, slots=True)
class Capture:
    """What a machine's GPUs told, reading by reading.

    Attributes:
        origin: Where the values come from, in a sentence.
        readings: (seconds since the first, reading), in the order of time.
    """

    origin: str
    readings: tuple[tuple[float, GpuReading], ...]

    def at(self, seconds: float) -> GpuReading:
        """The last reading that is not later; the first one before that."""
        due = [reading for at, reading in self.readings if at <= seconds]
        return due[-1] if due else self.readings[0][1]


def load(folder: Path) -> Capture:
    """The capture in a folder.

    Raises:
        SourceError: It cannot be read, or is not a capture.
    """
    path = folder / FILE
    try:
        header, *rows = [bounded_json.loads(line) for line in read_lines(path, LIMIT)]
        if header["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version is not {SCHEMA_VERSION}")
        readings = tuple((_finite(row["seconds"]), _reading(row)) for row in rows)
        if not readings or list(readings) != sorted(readings, key=lambda one: one[0]):
            raise ValueError("there is no reading, or they are not in the order of time")
        return Capture(str(header["origin"]), readings)
    except (
        ValueError, KeyError, TypeError, AttributeError, OverflowError,
    ) as error:  # fmt: skip
        raise SourceError("content", f"{path} is not a capture: {error!r}") from error


def lines(origin: str, readings: Iterable[tuple[float, GpuReading]]) -> list[str]:
    """A capture's lines; `load` gives the readings back, without what was rejected."""
    rows: list[dict[str, Any]] = [{"schema_version": SCHEMA_VERSION, "origin": origin}]
    rows += [
        {
            "seconds": round(seconds, 3),
            "expected": reading.expected,
            "present": reading.present,
            "gpus": [_written(gpu) for gpu in reading.gpus],
        }
        for seconds, reading in readings
    ]
    return [json.dumps(row) for row in rows]


def _written(gpu: Gpu) -> dict[str, Any]:
    values = {
        name.removeprefix(PREFIX): dict(labelled)
        for name, labelled in gpu.values.items()
        if name != PROCESSES
    }
    return {
        "index": gpu.index, "uuid": gpu.uuid, "up": gpu.up, "stalled": gpu.stalled,
        "info": dict(gpu.info), "values": values,
    }  # fmt: skip


def _reading(row: Mapping[str, Any]) -> GpuReading:
    gpus = tuple(_gpu(gpu) for gpu in row["gpus"][:MAX_GPUS])
    expected, present = row.get("expected"), row.get("present")
    if not all(count is None or type(count) is int for count in (expected, present)):
        raise ValueError("expected and present are whole numbers")
    return GpuReading(gpus, expected=expected, present=present)


def _gpu(tree: Mapping[str, Any]) -> Gpu:
    if type(tree["index"]) is not int or type(tree["uuid"]) is not str:
        raise ValueError("a GPU has an index and a uuid")
    info = {str(label): str(text) for label, text in tree["info"].items()}
    if not info.keys() <= _INFO:
        raise ValueError(f"GPU {tree['index']}: unknown in info: {sorted(info.keys() - _INFO)}")
    values = {
        _name(word): {_labels(word, key): _finite(number) for key, number in told.items()}
        for word, told in tree["values"].items()
    }
    up, stalled = bool(tree.get("up", True)), bool(tree.get("stalled", False))
    return Gpu(tree["index"], tree["uuid"], up, stalled, info, values)


def _name(word: str) -> str:
    name = word if word in RAW else PREFIX + word
    if name not in METRICS and name not in RAW:
        raise ValueError(f"{word} is neither a metric of GPUs nor one of {', '.join(RAW)}")
    return name


def _labels(word: str, key: str) -> str:
    wanted = 0 if word in RAW else len(METRICS[PREFIX + word].labels) - 2
    if (len(key.split("/")) if key else 0) != wanted:
        raise ValueError(f"{word} has {wanted} further labels, not {key!r}")
    return key


def _finite(number: Any) -> float:
    if type(number) not in (int, float) or not math.isfinite(number):
        raise ValueError(f"{number!r} is not a finite number")
    value: float = number
    return value


class Replay:
    """Source of GpuReading: each reading of the capture at its time, the last one for ever.

    Args:
        path: The capture's folder, or None: off.
    """

    name = "replay"

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._began: float | None = None
        self._capture: Capture | None = None

    def available(self) -> bool:
        """Whether a capture was configured."""
        return self._path is not None

    def why_not(self) -> str:
        """What is missing."""
        return "collector.replay, the folder of a capture, is not set"

    def read(self) -> GpuReading:
        """The reading of the capture whose time has come.

        Raises:
            SourceError: The capture cannot be read or is not one.
        """
        if self._path is None:
            raise SourceError("missing", "no capture is configured")
        if self._capture is None:
            self._capture = load(self._path)
        now = self._clock.monotonic()
        if self._began is None:
            self._began = now
        reading = self._capture.at(now - self._began)
        return replace(reading, gpus=tuple(_labelled(gpu) for gpu in reading.gpus))


def _labelled(gpu: Gpu) -> Gpu:
    return gpu if gpu.is_mig else replace(gpu, info={**gpu.info, "simulated": "replay"})
