"""An op trace in one Parquet file, judged; what goes wrong as a sentence and an exit code."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.operations import Trace
    from lockstep.analyzer.shapes.run import Verdict


def diagnose_trace(
    path: Path,
    layout: str | None = None,
    meta: Path | None = None,
    gpu_hour_price: float | None = None,
) -> "Verdict":
    """Loads and judges a trace.

    Args:
        path: The Parquet file.
        layout: As `dp=4,pp=4,tp=4`; None with `meta` or as the rows show.
        meta: The trace's meta file.
        gpu_hour_price: Money per GPU-hour, in any currency; None = cost in hours only.

    Raises:
        CommandError: 64, the layout or price is none; 65, the file is no such trace.
    """
    if gpu_hour_price is not None and not math.isfinite(gpu_hour_price):
        fail(ExitCode.USAGE, f"--gpu-hour-price {gpu_hour_price} is not a price; give a number")
    from lockstep.analyzer.verdict.pipeline import diagnose

    return diagnose(read_trace(path, layout, meta), gpu_hour_price=gpu_hour_price).verdict


def read_trace(path: Path, layout: str | None = None, meta: Path | None = None) -> "Trace":
    """Loads a trace; arguments and errors as `diagnose_trace`."""
    from lockstep.analyzer.read.optrace.load import load_trace, parse_layout, read_meta
    from lockstep.analyzer.shapes.run import LoadError

    try:
        told = None if layout is None else parse_layout(layout)
    except LoadError as error:
        fail(ExitCode.USAGE, str(error))
    try:
        told = told if meta is None else read_meta(meta)
        return load_trace(path, told)
    except LoadError as error:
        fail(ExitCode.BAD_INPUT, str(error))
