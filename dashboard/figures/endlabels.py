"""Names at the end of lines, so that no legend must be matched by colour."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dashboard.figures.escape import text
from dashboard.figures.room import LABEL
from dashboard.figures.traces import LONGEST_NAME

LONGEST = 16
"""Letters that the margin has room for."""


def labels(
    ends: Sequence[tuple[str, float]],
    scale: tuple[float, float],
    domain: tuple[float, float],
    height: int,
) -> list[dict[str, Any]]:
    """A name beside the end of each line, pushed apart where they would overlap.

    Args:
        ends: Name and value at the end; a chart's lines.
        scale: Ends of its y axis.
        domain: Where the chart stands on the paper, from below.
        height: Its pixels.
    """
    low, high = scale
    ranked = sorted((value, place) for place, (_, value) in enumerate(ends))
    wanted = [height * (value - low) / (high - low) for value, _ in ranked]
    pixels = apart(wanted, LABEL, height)
    share = (domain[1] - domain[0]) / height
    return [
        {
            "xref": "paper",
            "yref": "paper",
            "x": 1.0,
            "y": domain[0] + pixel * share,
            "xanchor": "left",
            "yanchor": "middle",
            "xshift": 5,
            "showarrow": False,
            "text": text(ends[place][0], min(LONGEST, LONGEST_NAME)),
            "font": {"size": 11},
        }
        for pixel, (_, place) in zip(pixels, ranked, strict=True)
    ]


def apart(wanted: Sequence[float], least: float, height: float) -> list[float]:
    """Rising places at least so far apart, as near to the wanted ones as one pass finds.

    Args:
        wanted: Rising.
        least: Between two.
        height: Where there is room, they stay in 0 to it.
    """
    count = len(wanted)
    step = np.arange(count) * least
    free = np.maximum.accumulate(np.asarray(wanted, float) - step)
    top = max(height - (count - 1) * least, 0.0)
    return [float(each) for each in np.clip(free, 0.0, top) + step]
