"""Every colour of the dashboard; tests hold their contrast and how far apart they look.

No colour ever stands alone: a line has its dash and its name at the end, a severity its icon and
its word, a map its table of the worst places.
"""

from dataclasses import dataclass

from lockstep.dashboard.shapes import Severity

LIGHT_BACKGROUND = "#ffffff"
DARK_BACKGROUND = "#0e1117"
CATEGORICAL = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#aa3f7c", "#5b5b5b", "#6e4d00"),
    "dark": ("#56b4e9", "#e69f00", "#2ac49a", "#e08fbd", "#c3c3c3", "#f0e442"),
}
"""Lines, in the order in which they are taken.

SOURCE of the hues: Okabe and Ito, "Color Universal Design" (2008); those that are too faint on
white are darkened, those too dark on black are lightened.
"""

SEQUENTIAL = (
    "#00224e", "#123570", "#3b496c", "#575d6d", "#707173",
    "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838",
)  # fmt: skip
"""Cividis at ten even steps. SOURCE: Nuñez, Anderton and Renslow, PLOS ONE 13(7), 2018."""

DIVERGING = (
    "#08519c", "#2f7ebc", "#6aaed6", "#a9cee5", "#e3eef6",
    "#fdeedd", "#fdca9a", "#f79a52", "#dd6a1a", "#a63c03",
)  # fmt: skip
"""Blue over white to orange: for ratios with the white at 1."""

SILENT = "#858b91"
"""A place of a map that did not answer; it carries a mark as well."""


@dataclass(frozen=True, slots=True)
class Shade:
    """How a severity looks: never by its colour alone.

    Attributes:
        word: Stands beside the icon.
        icon: Of Streamlit, a Material symbol.
        mark: A character, where there is no Markdown (tables, figures).
        light, dark: Its colour on each ground.
        symbol: Of Plotly, for markers.
    """

    word: str
    icon: str
    mark: str
    light: str
    dark: str
    symbol: str


SEVERITY = {
    Severity.OK: Shade("ok", ":material/check_circle:", "✓", "#007a52", "#2ac49a", "circle"),
    Severity.NOTE: Shade("note", ":material/info:", "i", "#0062a0", "#7cc4ee", "circle-open"),
    Severity.WARNING: Shade(
        "warning", ":material/warning:", "▲", "#966000", "#f0b73c", "triangle-up"
    ),
    Severity.CRITICAL: Shade("critical", ":material/error:", "✖", "#9c1c14", "#ff8a75", "x"),
    Severity.UNKNOWN: Shade(
        "unknown", ":material/help:", "?", "#5a5a68", "#b8bcc4", "diamond-open"
    ),
}


def severity_word(severity: Severity) -> str:
    """A severity for a table: its mark and its word."""
    shade = SEVERITY[severity]
    return f"{shade.mark} {shade.word}"


def scale(colours: tuple[str, ...]) -> list[tuple[float, str]]:
    """A list of colours as Plotly's colour scale: even steps from 0 to 1."""
    last = len(colours) - 1
    return [(index / last, colour) for index, colour in enumerate(colours)]
