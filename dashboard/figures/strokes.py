"""How lines are told apart: colour, dash and pattern together, never by colour alone.

Colours are the theme's own, by the names that Streamlit's theme for Plotly gives them: the browser
puts the colours of `theme.chartCategoricalColors` in their place, light and dark
(streamlit/elements/lib/streamlit_plotly_theme.py).
"""

from lockstep.dashboard.palette import CATEGORICAL

COLOURS = len(CATEGORICAL["light"])
DASHES = ("solid", "dot", "dashdot", "longdash", "longdashdot")
BASELINE = "dash"
"""Of lines of another run only."""
PATTERNS = ("", "/", "x", "-", "\\", "|", "+", ".")
BAND_OPACITY = 0.4
EDGE_OPACITY = 0.7


def colour(index: int) -> str:
    """The theme's colour of a line, by its place in the chart."""
    return f"#{index % COLOURS + 1:06d}"


def dash(index: int) -> str:
    """The dash of a line, by its place in the chart."""
    return DASHES[index % len(DASHES)]


def pattern(index: int) -> str:
    """The pattern of an area, by its place in the chart."""
    return PATTERNS[index % len(PATTERNS)]
