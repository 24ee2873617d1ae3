"""Names at the end of lines, so that no legend must be matched by colour."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from dashboard.figures.escape import text
from dashboard.figures.room import LABEL

LONGEST = 16
"""Letters that the margin has room for."""
ALIKE = 3
"""Lines that end in one place from which they have one name together."""


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
    ends = together(ends)
    named = short([name for name, _ in ends])
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
            "text": text(named[place], LONGEST),
            "font": {"size": 11},
        }
        for pixel, (_, place) in zip(pixels, ranked, strict=True)
    ]


def together(ends: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The same ends, those of many lines in one place as one: `5 lines at 0`."""
    counts = Counter(value for _, value in ends)
    kept = [(name, value) for name, value in ends if counts[value] < ALIKE]
    return kept + [
        (f"{count} lines at 0" if value == 0 else f"{count} lines alike", value)
        for value, count in counts.items()
        if count >= ALIKE
    ]


def short(names: Sequence[str]) -> list[str]:
    """Names that the margin has room for; those that would look alike keep their last words."""
    cut = Counter(name[: LONGEST - 1] for name in names)
    return [
        name if len(name) <= LONGEST or cut[name[: LONGEST - 1]] == 1 else _tail(name)
        for name in names
    ]


def _tail(name: str) -> str:
    words = name.split() or [name]
    found = words[-1]
    for word in words[-2::-1]:
        if len(word) + len(found) + 2 > LONGEST:
            break
        found = f"{word} {found}"
    return f"…{found[-(LONGEST - 1) :]}"


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
