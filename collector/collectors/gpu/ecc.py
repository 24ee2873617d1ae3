"""Memory errors and the spare rows and pages that are left."""

from collections.abc import Callable

from collector.contract import metrics as m
from collector.zero_series_folding import OTHER

METRICS = (
    m.GPU_ECC_ERRORS,
    m.GPU_ECC_LOCATION_ERRORS,
    m.GPU_ECC_MODE,
    m.GPU_SRAM_THRESHOLD,
    m.GPU_REMAPPED_ROWS,
    m.GPU_ROW_REMAP_PENDING,
    m.GPU_ROW_REMAP_FAILED,
    m.GPU_ROW_REMAP_BANKS,
    m.GPU_RETIRED_PAGES,
    m.GPU_RETIRED_PENDING,
)
"""Counts by type and place, and what waits for a reset."""


def _elsewhere(labels: str) -> str:
    """`type/counter/location` without the location."""
    return f"{labels.rpartition('/')[0]}/{OTHER}"


QUIET: dict[str, Callable[[str], str]] = {m.GPU_ECC_LOCATION_ERRORS.name: _elsewhere}
"""Under what labels is told what never counted, by name of the metric."""
