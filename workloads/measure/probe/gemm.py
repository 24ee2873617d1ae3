"""How fast each rank multiplies matrices by itself: a slow host is no slow link."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import torch
import torch.distributed as dist

from lockstep.collector.contract.robust import MAD_TO_SIGMA
from lockstep.workloads.parallel.comm import Comm

REPETITIONS = 7
LEAST_SECONDS = 0.020
"""Of one product: a thousand times what reading a thread's CPU clock costs."""
TRIED_ROWS, MOST_ROWS = 512, 16384
"""Rows of the square matrices; DLRover's node check takes 16384 on a GPU."""
ROWS_MULTIPLE = 64
SLOW = 1.2
LEAST_DEVIATIONS = 5.0
LEAST_SPREAD = 0.01
"""Of log seconds: healthy ranks are never more alike than that."""


@dataclass(frozen=True, slots=True)
class Speed:
    """One rank's matrix products; medians of REPETITIONS.

    Attributes:
        busy_seconds: The thread's own CPU time of one product, so that a rank which was not
            scheduled does not look slow; on a GPU the wall time.
        wall_seconds: Wall time of one.
    """

    rank: int
    busy_seconds: float
    wall_seconds: float


def slow_ranks(speeds: Sequence[Speed]) -> list[int]:
    """Ranks that are 20 % and 5 robust deviations slower than the median of all.

    Below 3 ranks there is no majority, and nobody is named. Robust z-score: Iglewicz and Hoaglin,
    How to Detect and Handle Outliers, 1993.
    """
    if len(speeds) < 3:
        return []
    usual = median(speed.busy_seconds for speed in speeds)
    off = [abs(speed.busy_seconds / usual - 1.0) for speed in speeds]
    spread = max(LEAST_SPREAD, MAD_TO_SIGMA * median(off))
    least = max(SLOW, 1.0 + LEAST_DEVIATIONS * spread)
    return [speed.rank for speed in speeds if speed.busy_seconds > least * usual]


class Gemm:
    """Every rank's products, at the same time; all ranks call."""

    def __init__(self, comm: Comm, rank: int, device: torch.device) -> None:
        self._place = comm.collective("world-all-reduce", "world", "probe.gemm")
        self._rank, self._device = rank, device

    def measure(self) -> tuple[int, list[Speed]]:
        """Rows of the matrices, and every rank's speed, the same on every rank.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        asked = torch.tensor([_rows(self._device)], dtype=torch.int64, device=self._device)
        self._place.all_reduce(asked, dist.ReduceOp.MAX)
        rows = int(asked)
        product = _product(rows, self._device)
        product()
        times = [_timed(product, self._device) for _ in range(REPETITIONS)]
        table = torch.zeros(self._place.size, 2, dtype=torch.float64, device=self._device)
        table[self._rank] = torch.tensor([median(column) for column in zip(*times, strict=True)])
        self._place.all_reduce(table)
        return rows, [Speed(rank, *row) for rank, row in enumerate(table.tolist())]


def to_dict(rows: int, speeds: Sequence[Speed]) -> dict[str, Any]:
    """The result as JSON types, FLOP/s beside the seconds."""
    slow = slow_ranks(speeds)
    words = ", ".join(f"rank {rank}" for rank in slow)
    return {
        "rows": rows,
        "ranks": [
            {**asdict(speed), "flops": 2.0 * rows**3 / speed.busy_seconds} for speed in speeds
        ],
        "slow": slow,
        "text": f"{words}: matrix products take {SLOW:g}x and more of the usual time"
        if slow
        else "no rank multiplies matrices slower than its peers",
    }


def _rows(device: torch.device) -> int:
    """Rows of a product that takes LEAST_SECONDS here: the work grows with their third power."""
    product = _product(TRIED_ROWS, device)
    product()
    tried = min(_timed(product, device)[0] for _ in range(3))
    wanted = TRIED_ROWS * math.cbrt(LEAST_SECONDS / max(tried, 1e-6))
    return min(MOST_ROWS, math.ceil(wanted / ROWS_MULTIPLE) * ROWS_MULTIPLE)


def _product(rows: int, device: torch.device) -> Callable[[], None]:
    one, other = (torch.rand(rows, rows, device=device) for _ in range(2))
    result = torch.empty(rows, rows, device=device)

    def multiply() -> None:
        torch.mm(one, other, out=result)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return multiply


def _timed(product: Callable[[], None], device: torch.device) -> tuple[float, float]:
    """(busy, wall) seconds of one product."""
    wall, cpu = perf_counter(), thread_time()
    product()
    busy, taken = thread_time() - cpu, perf_counter() - wall
    return (taken if device.type == "cuda" else busy), taken
