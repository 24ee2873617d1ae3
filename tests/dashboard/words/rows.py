"""Findings and runs, as sources give them."""

import dataclasses
from typing import Any

import numpy as np

from lockstep.dashboard.shapes import (
    FLEET_METRICS,
    Answer,
    FindingRow,
    FleetSnapshot,
    RunRow,
    Severity,
    Span,
)

START = 1.7e9
SPAN = Span(START, START + 1000.0)
FOUND = FindingRow(
    "f-1", Severity.CRITICAL, True, "gpt-a", "node-1", 0, 2, "", "thermal", 0.97, 1.5,
    START + 500.0, None, "Rank 2 is too hot.",
)  # fmt: skip
RUN = RunRow("gpt-a", "running", SPAN, nodes=2, ranks=4, status="healthy",
             sentence="Healthy: no rank holds the run back.", slowdown=1.0,
             lost_gpu_hours=0.0)  # fmt: skip
LIVE = Answer("http://prometheus:9090", True, START + 993.0, START + 1000.0, 15.0, (100, 100))
ARCHIVE = Answer("runs/", False, START + 1000.0, START + 1000.0, 1.0, (2, 2))


def told(*runs: str, unknown: int = 0) -> FleetSnapshot:
    """Own times of four ranks on CPU of each run; of the first of them they are not known."""
    count = 4 * len(runs)
    values = np.ones(count, np.float32)
    values[:unknown] = np.nan
    ranks = np.arange(count, dtype=np.int32) % 4
    return FleetSnapshot(
        FLEET_METRICS[0], START + 993.0, np.array([f"node-{rank // 2}" for rank in ranks]),
        np.full(count, -1, np.int32), ranks, np.repeat(np.array(runs, np.str_), 4), values,
    )  # fmt: skip


def found(**changes: Any) -> FindingRow:
    """FOUND with some parts changed."""
    return dataclasses.replace(FOUND, **changes)


def run(name: str = "gpt-a", **changes: Any) -> RunRow:
    """RUN with some parts changed."""
    return dataclasses.replace(RUN, run=name, **changes)
