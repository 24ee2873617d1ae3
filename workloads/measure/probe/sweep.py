"""The all-reduce sweep: what it measures and the table of it; formulas of nccl-tests.

MLBench's task 0a is `--sizes 4:400M:80 --repetitions 100`: np.logspace(0, 8, 80) elements of fp32.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.collector.contract.bandwidth import algorithm_bandwidth, bus_bandwidth
from lockstep.workloads.spec import SpecError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
DTYPES: dict[str, tuple[int, int]] = {
    "float32": (4, 1 << 24),
    "float16": (2, 1 << 11),
    "bfloat16": (2, 1 << 8),
}
"""Bytes of an element, and the largest whole number up to which all of them are exact."""
MOST_BYTES = 1 << 30
MOST_SIZES = 100
MOST_REPETITIONS = 1000
PATTERN = 5
"""Element i of rank r is i · (r + 1) mod 5: whole numbers, so that the sum has one right value."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What to measure.

    Attributes:
        sizes: Bytes of each all-reduce, ascending, whole elements.
        repetitions: Timed all-reduces of a size in one pass; one more before them is not timed.
        dtype: A name of DTYPES.
    """

    sizes: tuple[int, ...]
    repetitions: int
    dtype: str

    def elements(self, size: int) -> int:
        """Elements of that many bytes."""
        return size // DTYPES[self.dtype][0]


def planned(sizes: str, repetitions: int, dtype: str, ranks: int) -> Sweep:
    """The sweep of `lockstep run allreduce --sizes MIN:MAX:COUNT --repetitions N --dtype D`.

    Args:
        sizes: COUNT sizes from MIN to MAX bytes, each the same factor above the one before; K, M
            and G are 1024-fold. Sizes that round to the same number of elements count once.

    Raises:
        SpecError: With the setting that is wrong and what would be right.
    """
    if dtype not in DTYPES:
        raise SpecError(f"--dtype {dtype} is unknown; one of {', '.join(DTYPES)}")
    if not 1 <= repetitions <= MOST_REPETITIONS:
        raise SpecError(f"--repetitions {repetitions} must be from 1 to {MOST_REPETITIONS}")
    width, exact = DTYPES[dtype]
    if (PATTERN - 1) * ranks > exact:
        raise SpecError(
            f"--dtype {dtype} has exact sums for at most {exact // (PATTERN - 1)} ranks, not"
            f" {ranks}; give --dtype float32"
        )
    least, most, count = _range(sizes, width)
    spaced = np.geomspace(least, most, count) if count > 1 else np.array([least])
    elements = sorted({max(1, round(size / width)) for size in spaced.tolist()})
    return Sweep(tuple(count * width for count in elements), repetitions, dtype)


def expected(ranks: int) -> list[int]:
    """The sum over the ranks of the PATTERN elements, which repeat."""
    return [sum(pattern(rank)[index] for rank in range(ranks)) for index in range(PATTERN)]


def pattern(rank: int) -> list[int]:
    """The first PATTERN elements of a rank."""
    return [index * (rank + 1) % PATTERN for index in range(PATTERN)]


def table(
    sweep: Sweep, ranks: int, seconds: NDArray[np.float64], wrong: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """One row a size, as JSON types; seconds, and bytes a second.

    The bandwidths are of the mean time, as nccl-tests has it (doc/PERFORMANCE.md). The bus
    bandwidth of one rank is null: nothing goes over a bus.

    Args:
        seconds: (sizes, repetitions), each the mean over the ranks of arrival to completion
            (nccl-tests' default, `-a 1`).
        wrong: (sizes,) elements that were not the sum.
    """
    rows: list[dict[str, Any]] = []
    for size, times, errors in zip(sweep.sizes, seconds, wrong.tolist(), strict=True):
        mean = float(times.mean())
        rows.append(
            {
                "bytes": size,
                "elements": sweep.elements(size),
                "dtype": sweep.dtype,
                "repetitions": len(times),
                "mean_seconds": mean,
                "median_seconds": float(np.median(times)),
                "least_seconds": float(times.min()),
                "p95_seconds": float(np.quantile(times, 0.95)),
                "algorithm_bandwidth": algorithm_bandwidth("all_reduce", size, ranks, mean),
                "bus_bandwidth": bus_bandwidth("all_reduce", size, ranks, mean)
                if ranks > 1
                else None,
                "wrong": errors,
            }
        )
    return rows


def _range(text: str, width: int) -> tuple[int, int, int]:
    """MIN, MAX and COUNT."""
    parts = text.split(":")
    if len(parts) != 3:
        raise SpecError(f"--sizes {text!r} is not MIN:MAX:COUNT, as 1K:1M:6")
    least, most = (_bytes(text, part) for part in parts[:2])
    if not (parts[2].isascii() and parts[2].isdigit() and 1 <= int(parts[2]) <= MOST_SIZES):
        raise SpecError(f"--sizes {text!r}: COUNT {parts[2]!r} must be from 1 to {MOST_SIZES}")
    count = int(parts[2])
    if not width <= least <= most <= MOST_BYTES:
        raise SpecError(
            f"--sizes {text!r}: MIN must be at least {width} bytes, MAX at least MIN and at most"
            f" {MOST_BYTES >> 30}G"
        )
    if count == 1 and least != most:
        raise SpecError(f"--sizes {text!r}: one size has MIN equal to MAX")
    return least, most, count


def _bytes(text: str, word: str) -> int:
    match = re.fullmatch(r"([0-9]{1,12})([KMG]?)", word.upper())
    if match is None:
        raise SpecError(f"--sizes {text!r}: {word!r} is not a number of bytes, as 64, 4K or 1M")
    return int(match[1]) * UNITS[match[2]]
