"""The x axis that all charts of a stack share, and the pixels of the stack."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.dashboard.shapes import Floats, Lines

WORDS = {"time": "time", "step": "step", "relative": "since start"}
MILLISECONDS = 1000.0
_RELATIVE = ((3 * 3600.0, 3600.0, "h"), (180.0, 60.0, "min"), (0.0, 1.0, "s"))


@dataclass(frozen=True, slots=True)
class Axis:
    """Where moments stand.

    Attributes:
        kind: One of WORDS.
        title: With the unit.
        start: Unix seconds that are 0 where the axis is relative.
        scale: Seconds in its unit, where it is relative.
        times, steps: Moments whose steps are known, rising; empty where no step is needed.
        note: Why it is another one than was asked for; empty = it is not.
    """

    kind: str
    title: str
    start: float
    scale: float
    times: Floats
    steps: Floats
    note: str = ""

    def places(self, times: Floats, steps: Floats | None = None) -> Floats:
        """(T,) of (T,) unix seconds; NaN where no step is known.

        Args:
            times: Unix seconds.
            steps: Their steps, where they are told; otherwise they are found by their time.
        """
        if self.kind == "time":
            return times * MILLISECONDS
        if self.kind == "relative":
            return (times - self.start) / self.scale
        if steps is not None:
            return steps
        values: Floats = np.interp(times, self.times, self.steps, left=np.nan, right=np.nan)
        return values

    def place(self, at: float) -> float:
        """Of one moment; before the first step it is the first, after the last the last."""
        if self.kind == "step":
            return float(np.interp(at, self.times, self.steps))
        return float(self.places(np.array([at]))[0])

    def layout(self) -> dict[str, Any]:
        """What Plotly is told of it."""
        moment = {"time": "|%Y-%m-%d %H:%M:%S.%3f} UTC", "step": ":,d}", "relative": ":.4~g}"}
        unit = self.title.partition("(")[2].rstrip(")") if self.kind == "relative" else ""
        return {
            "title": {"text": self.title},
            "type": "date" if self.kind == "time" else "linear",
            "unifiedhovertitle": {"text": f"{WORDS[self.kind]} %{{x{moment[self.kind]} {unit}"},
        }


def axis(kind: str, charts: Sequence[Lines], start: float, end: float) -> Axis:
    """The axis that was asked for, or time where steps are asked for and nobody told any.

    Args:
        kind: One of WORDS; anything else is time.
        charts: Those whose steps tell where a moment stands.
        start: Unix seconds that are 0 where it is relative.
        end: Unix seconds of the last moment.
    """
    nothing = np.empty(0)
    if kind == "relative":
        scale, unit = next(
            (scale, unit) for least, scale, unit in _RELATIVE if end - start >= least
        )
        return Axis(kind, f"since start ({unit})", start, scale, nothing, nothing)
    if kind == "step":
        for chart in charts:
            if chart.steps is None:
                continue
            known = np.isfinite(chart.steps) & np.isfinite(chart.times)
            if known.any():
                return Axis(kind, "step", start, 1.0, chart.times[known], chart.steps[known])
    note = "No steps were reported: shown by time." if kind == "step" else ""
    return Axis("time", "time (UTC)", start, 1.0, nothing, nothing, note)


# Where the charts of a stack stand, in pixels and in Plotly's share of the paper.

CHART = 112
GAP = 34
"""Between two charts; the title of the lower one stands in it."""
LANE_ROW = 20
TOP = 30
BOTTOM = 46
LEFT = 64
RIGHT = 118
"""For the names at the end of the lines."""
LABEL = 12
"""Height of such a name."""


@dataclass(frozen=True, slots=True)
class Room:
    """A stack from above: the lane where there is one, then the charts.

    Attributes:
        heights: Of each, in pixels.
    """

    heights: tuple[int, ...]

    @property
    def paper(self) -> int:
        """Pixels from the top of the first to the bottom of the last."""
        return sum(self.heights) + GAP * (len(self.heights) - 1)

    @property
    def height(self) -> int:
        """Of the whole figure, margins included."""
        return self.paper + TOP + BOTTOM

    def domain(self, index: int) -> tuple[float, float]:
        """From and to, of 1, from below; the first is on top."""
        above = sum(self.heights[:index]) + GAP * index
        high = 1.0 - above / self.paper
        return max(0.0, high - self.heights[index] / self.paper), high
