"""Charts and lines that are 0 all the time, folded into one line of words."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dashboard.figures.traces import LONGEST_NAME
from dashboard.shapes import Floats, Lines

QUIET = (
    "disk", "network", "errors", "throttle", "ecc", "replays", "pcie_traffic", "nvlink",
    "nvlink_errors", "nvlink_traffic",
)  # fmt: skip
"""Keys of charts whose 0 a word says as well as a line; that of a loss or a throughput is news."""


def folded(charts: Sequence[Lines]) -> tuple[list[Lines], str]:
    """Those that are drawn, and a sentence on what is left out because it is 0 throughout.

    Args:
        charts: With values; where every one of them would go, none does.
    """
    drawn: list[Lines] = []
    said: list[str] = []
    for chart in charts:
        zeros = [name for name, values in chart.values.items() if _is_zero(values)]
        told = [name for name, values in chart.values.items() if np.isfinite(values).any()]
        if chart.key not in QUIET or not zeros or chart.band:
            drawn.append(chart)
        elif len(zeros) == len(told):
            said.append(chart.title)
        else:
            kept = {name: line for name, line in chart.values.items() if name not in zeros}
            drawn.append(replace(chart, values=kept))
            said.append(f"of {chart.title} {', '.join(each[:LONGEST_NAME] for each in zeros)}")
    if not drawn:
        return list(charts), ""
    return drawn, f"All 0: {'; '.join(said)}." if said else ""


def _is_zero(values: Floats) -> bool:
    told = values[np.isfinite(values)]
    return bool(len(told)) and not told.any()
