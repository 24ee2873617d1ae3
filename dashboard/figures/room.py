"""Where the charts of a stack stand, in pixels and in Plotly's share of the paper."""

from dataclasses import dataclass

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

    def domain(self, place: int) -> tuple[float, float]:
        """From and to, of 1, from below; the first is on top."""
        above = sum(self.heights[:place]) + GAP * place
        high = 1.0 - above / self.paper
        return max(0.0, high - self.heights[place] / self.paper), high
