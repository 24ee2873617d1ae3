"""A log of tf_cnn_benchmarks -> the 14 keys that Kubebench's reports had.

The program (github.com/tensorflow/benchmarks, scripts/tf_cnn_benchmarks) prints its settings as
`Name: value` before the first step, and `total images/sec` at its end.
"""

import math
import re
from pathlib import Path

from lockstep.bench.spec import BenchError

MAX_BYTES = 64 << 20
LINES = {
    "TensorFlow": "tensorflow", "Model": "model", "Dataset": "dataset", "Mode": "mode",
    "SingleSess": "singlesess", "Batch size": "batch_size", "Num batches": "num_batches",
    "Num epochs": "num_epochs", "Data format": "data_format",
    "Layout optimizer": "layout_optimizer", "Optimizer": "optimizer", "Variables": "variables",
    "Sync": "sync", "total images/sec": "total_images/sec",
}  # fmt: skip
"""What a line begins with -> the key."""
KEYS = ("total_images/sec", *(key for key in LINES.values() if key != "total_images/sec"))
SPEED = KEYS[0]
_LINE = re.compile(rf"^\s*({'|'.join(map(re.escape, LINES))}):\s*(\S.*?)\s*$")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?(?=\s|$)", re.ASCII)
"""`64 global` is 64; `1.13.1` of a version is none."""
Value = str | float


def parsed(text: str) -> dict[str, Value]:
    """The keys that the log tells, in the order of KEYS; a line that comes again counts last.

    Raises:
        BenchError: It tells no `total images/sec`: it is another program's, or was cut off.
    """
    told: dict[str, Value] = {}
    for line in text.splitlines():
        if found := _LINE.match(line):
            told[LINES[found[1]]] = _value(LINES[found[1]], found[2])
    speed = told.get(SPEED)
    if speed is None:
        raise BenchError("no line `total images/sec`: no log of tf_cnn_benchmarks, or not whole")
    if not isinstance(speed, float):
        raise BenchError(f"total images/sec is {speed!r}; it must be a number")
    return {key: told[key] for key in KEYS if key in told}


def numbers(told: dict[str, Value]) -> dict[str, float]:
    """What can be a column of a result, under names without a slash."""
    return {
        key.replace("/", "_per_"): value for key, value in told.items() if isinstance(value, float)
    }


def read(log: Path) -> dict[str, Value]:
    """The same of a file.

    Raises:
        BenchError: It cannot be read, or is none.
    """
    try:
        with log.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BenchError(f"{log} cannot be read: {error.strerror}") from error
    if len(text) > MAX_BYTES:
        raise BenchError(f"{log} has more than {MAX_BYTES >> 20} MiB, which no such log has")
    try:
        return parsed(text.decode("utf-8", "replace"))
    except BenchError as error:
        raise BenchError(f"{log}: {error}") from None


def _value(key: str, text: str) -> Value:
    if key == "tensorflow":  # a version, though 1.13 looks like a number
        return text
    found = _NUMBER.match(text)
    value = float(found[0]) if found else math.inf
    return value if math.isfinite(value) else text
