"""Names of columns for people: what it is and its unit, instead of the name that a frame has."""

import pandas as pd

from lockstep.collector.contract.words import PHASES

NAMES = {
    "gpu": "GPU", "uuid": "UUID", "dp": "replica (dp)", "pp": "stage (pp)", "tp": "shard (tp)",
    "wall_seconds": "step (s)", "own_seconds": "own time per step (s)",
    "slowdown": "own time over its stage (×)", "wait_share": "in collectives",
    "op": "operation", "bytes": "size", "seconds": "took (s)", "sequence": "number",
    "median_seconds": "median (s)", "p95_seconds": "95 % below (s)", "total_seconds": "in sum (s)",
    "busbw": "bus bandwidth (per s)", "late_rank": "last most often: rank",
    "late_seconds": "it was late by (s)",
    "up": "answers", "age_seconds": "age (s)", "scrape_seconds": "reading took (s)",
} | {f"{phase}_seconds": f"{phase} (s)" for phase in PHASES}  # fmt: skip
TIME = "time (UTC)"
"""Of the numbers of a chart of lines: its other columns have the names of the lines."""
UNITS = ("(s)", "(ms)", "(×)")
"""Of columns whose numbers are shown with four digits."""


def worded(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows; columns that are not known keep their names, and so do lines over time."""
    if TIME in frame:
        return frame
    return frame.rename(columns=NAMES)


def measured(frame: pd.DataFrame) -> list[str]:
    """Names of the columns that hold times or ratios."""
    return [str(name) for name in frame.columns if str(name).endswith(UNITS)]
