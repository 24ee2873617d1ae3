"""The checklist of the hardware: what each check saw, where, and whether that is right."""

from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.causes.symptoms.network_counters import standing
from lockstep.analyzer.report import blocks, figures
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.queries import samples
from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import Metric

PASSED, FAILED, SILENT = "✓ ok", "▲ look", "? no data"
THROTTLED_SHARE = 0.1
"""Of the run's time; as the alert LockstepGpuThermalViolation."""
NAMED_AT_MOST = 4
_VOLATILE = 'counter="volatile",'


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the list.

    Attributes:
        what: What is checked.
        metric: The series.
        label: What must stand in its labels: pairs, or a part of `reason`; empty = any.
        unit: Of the value (figures.cell).
        counts: A counter: its increase over the run is judged; else the highest gauge.
        limit: The most that is right.
        share: The limit is a share of the run's time.
    """

    what: str
    metric: Metric
    label: str = ""
    unit: str = "count"
    counts: bool = True
    limit: float = 0.0
    share: bool = False


CHECKS: tuple[Check, ...] = (
    Check("XID errors", metrics.GPU_XID_ERRORS),
    Check("uncorrected memory errors", metrics.GPU_ECC_ERRORS, _VOLATILE + 'type="uncorrected"'),
    Check("corrected memory errors", metrics.GPU_ECC_ERRORS, _VOLATILE + 'type="corrected"',
          limit=100.0),
    Check("row remap pending", metrics.GPU_ROW_REMAP_PENDING, counts=False),
    Check("row remap failed", metrics.GPU_ROW_REMAP_FAILED, counts=False),
    Check("throttled by heat", metrics.GPU_CLOCK_EVENT_SECONDS, "thermal", "seconds",
          limit=THROTTLED_SHARE, share=True),
    Check("throttled by power", metrics.GPU_CLOCK_EVENT_SECONDS, "power", "seconds",
          limit=THROTTLED_SHARE, share=True),
    Check("PCIe replays", metrics.GPU_PCIE_REPLAY, limit=10.0),
    Check("NVLink errors", metrics.GPU_NVLINK_ERRORS),
    Check("InfiniBand port errors", metrics.IB_ERRORS, limit=10.0),
    Check("network errors", metrics.NET_ERRORS, limit=10.0),
    Check("network drops", metrics.NET_DROPS, limit=100.0),
    Check("processes killed for memory", metrics.OOM_KILLS),
    Check("held back by the CPU quota", metrics.RANK_THROTTLED, "", "seconds",
          limit=THROTTLED_SHARE, share=True),
)  # fmt: skip
"""Limits of more than 0 are ours: healthy parts count a few of these a day."""


def checks(grid: Grid) -> list[Block | None]:
    """The list, and software that differs between the nodes."""
    rows = [_row(grid, check) for check in CHECKS]
    columns = {"check": "", "state": "", "highest": "", "where": "", "query": ""}
    return [blocks.table("Checks over the whole run", columns, rows,
                         source="samples.parquet, rows of the metric in the query"),
            _software(grid)]  # fmt: skip


def _row(grid: Grid, check: Check) -> list[str]:
    reason = f'reason=~".*{check.label}.*"' if check.label else ""
    source = samples(
        check.metric, check.label if "=" in check.label else reason,
        over="increase" if check.counts else "max_over_time",
    )  # fmt: skip
    told = _value_of_each_rank(grid, check)
    if told is None:
        return [check.what, SILENT, figures.UNKNOWN, "", source]
    limit = check.limit * _lasted(grid) if check.share else check.limit
    bad = np.flatnonzero(np.nan_to_num(told) > limit)
    highest = figures.cell(float(np.nanmax(told)), check.unit)
    if not bad.size and (stand := standing(grid, (check.metric.name,))):
        unknown = "; ".join(stand[check.metric.name])
        return [check.what, SILENT, highest, f"at their maximum: {unknown}", source]
    if not bad.size:
        return [check.what, PASSED, highest, "", source]
    worst = bad[np.argsort(-told[bad], kind="stable")]
    names = list(dict.fromkeys(_place(grid, int(column)) for column in worst))
    more = len(names) - NAMED_AT_MOST
    where = ", ".join(names[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
    return [check.what, FAILED, highest, where, source]


def _value_of_each_rank(grid: Grid, check: Check) -> FloatGrid | None:
    """(R,) increase or highest value of each rank's part; None where nobody told."""
    found = [
        values
        for key, values in grid.signals.items()
        if key.partition("{")[0] == check.metric.name and check.label in key
    ]
    found = [values for values in found if np.isfinite(values).any()]
    if not found:
        return None
    lengths = (grid.end - grid.start)[:, np.newaxis]
    parts = [
        np.nansum(values * lengths, axis=0)
        if check.counts
        else np.where(np.isnan(values), -np.inf, values).max(axis=0)
        for values in found
    ]
    total: FloatGrid = np.sum(parts, axis=0) if check.counts else np.max(parts, axis=0)
    silent = np.all([np.isnan(values).all(axis=0) for values in found], axis=0)
    return np.where(silent, np.nan, total)


def _lasted(grid: Grid) -> float:
    lengths = grid.end - grid.start
    return float(lengths[np.isfinite(lengths)].sum())


def _place(grid: Grid, column: int) -> str:
    info = grid.ranks[column]
    return info.node if info.gpu is None else f"{info.node} GPU {info.gpu}"


def _software(grid: Grid) -> Block | None:
    """Versions that not all ranks share at the end of the run."""
    rows = []
    for what, told in grid.versions.items():
        codes = told.codes[-1]
        present = sorted(set(codes[codes >= 0].tolist()))
        for code in present if len(present) > 1 else ():
            nodes = sorted({info.node for info, mine in zip(grid.ranks, codes, strict=True)
                            if mine == code})  # fmt: skip
            more = len(nodes) - NAMED_AT_MOST
            where = ", ".join(nodes[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
            rows.append([what, told.words[code], len(nodes), where])
    columns = {"what": "", "version": "", "nodes": "count", "which": ""}
    source = "samples.parquet: lockstep_gpu_info, lockstep_node_info"
    return blocks.table("Software that differs between nodes", columns, rows, source=source)
