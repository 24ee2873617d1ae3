"""The report tree as one self-contained page: no script, no network, light, dark and print.

Charts are inline SVG in the page's colours, the same on every run.
"""

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import matplotlib as mpl
import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from lockstep.analyzer.report.figures import TEXTUAL, cell
from lockstep.collector.contract.visible import visible

BADGES = {"healthy": "✓", "degraded": "▲", "unknown": "?"}
"""Severity is an icon and a word, never a colour alone."""

COSTS = ("slowdown of the run", "lost")
"""Facts that stand in the table of costs already."""


def page(tree: Mapping[str, Any]) -> str:
    """The report as HTML."""
    here = files("lockstep.analyzer.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=_shown,
    )  # fmt: skip
    environment.filters["cell"] = cell
    environment.globals["textual"] = TEXTUAL
    template = environment.from_string((here / "page.html.j2").read_text("utf-8"))
    # The style sheet and the charts are made here, not input: they alone are not escaped.
    return template.render(
        tree=tree,
        style=Markup((here / "page.css").read_text("utf-8")),  # noqa: S704
        badge=BADGES.get(tree["status"], "?"),
        charts=_charts(tree),
        ground=_ground(tree),
    )


def _ground(tree: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The facts that the first screen has not: what was looked at, in a line."""
    return [fact for fact in tree["facts"] if fact["name"] not in COSTS]


def _shown(value: Any) -> Any:
    """Text in the order in which it is stored, whatever direction a name asks for."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _charts(tree: Mapping[str, Any]) -> dict[tuple[int, int], tuple[Markup, Markup]]:
    """(section, block) -> SVG for a wide page, and for a telephone; the style sheet shows one."""
    return {
        (i, j): (
            Markup(chart(block, f"chart-{i}-{j}")),  # noqa: S704
            Markup(chart(block, f"narrow-{i}-{j}", narrow=True)),  # noqa: S704
        )
        for i, section in enumerate(tree["sections"])
        for j, block in enumerate(section["blocks"])
        if block["block"] in ("lines", "bars", "cells")
    }


COLOURS = {"culprit": "#D55E00", "peers": "#0072B2", "reference": "#009E73", "other": "#CC79A7"}
"""Okabe-Ito colours that reach 3:1 on white; never the only difference between two things."""
HATCHES = {"culprit": "", "peers": "////", "reference": "\\\\\\\\", "other": "xxxx"}
MARKERS = "os^D"
"""Of the culprits' lines: they tell them apart, and from the peers, without colours."""
DASHES = {"culprit": "-", "peers": "-", "reference": "--", "other": ":"}
INK = "#010203"
"""Stands for the page's text colour, which differs between light and dark."""
WIDTH_INCHES = 8.6
NARROW_INCHES = 4.0
"""Of the drawing for telephones: at 390 px its letters are as large as on a wide page."""
BULK, OUTLIER = 0.95, 1.6
"""An axis is cut when its highest value is OUTLIER times the BULK quantile."""

CELLS_WITH_FIGURES = 64
COLOURS_OF_CELLS = 16
TICKS = 16

_STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "savefig.facecolor": "none",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}


def chart(block: Mapping[str, Any], name: str, *, narrow: bool = False) -> str:
    """A chart block as an `<svg>` element with its text alternative.

    Args:
        block: From blocks.lines or blocks.bars.
        name: Unique on the page; the prefix of the element's ids.
        narrow: For a telephone: half as wide, the legend below.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        width = NARROW_INCHES if narrow else WIDTH_INCHES
        figure = Figure(figsize=(width, _height(block)), layout="constrained")
        axes = figure.add_subplot()
        _DRAWN[block["block"]](axes, block, narrow)
        drawn = io.StringIO()
        figure.savefig(
            drawn,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return _inline(drawn.getvalue(), f"{block['title']}. {block['alt']}", name)


def _height(block: Mapping[str, Any]) -> float:
    """Inches."""
    rows = len(block.get("rows", ()))
    if block["block"] == "lines":
        return 2.9
    if block["block"] == "bars":
        return 0.55 + 0.24 * max(rows * len(block["series"]), 2)
    return 0.9 + min(0.3 * rows, 6.0)


def _draw_lines(axes: Axes, block: Mapping[str, Any], narrow: bool) -> None:
    if band := block["band"]:
        axes.fill_between(
            band["x"], _numbers(band["low"]), _numbers(band["high"]),
            step="mid" if len(band["x"]) > 1 else None,
            color=COLOURS["peers"], alpha=0.22, linewidth=0, label=band["label"],
        )  # fmt: skip
    for number, line in enumerate(block["lines"]):
        role = line["role"]
        guilty = role == "culprit"
        axes.plot(
            line["x"], _numbers(line["y"]), color=COLOURS[role], linestyle=DASHES[role],
            linewidth=1.8 if guilty else 1.1, label=line["label"], zorder=3 if guilty else 2,
            marker=MARKERS[number % len(MARKERS)] if guilty else "", markersize=4.5,
            markevery=max(1, len(line["x"]) // 12),
        )  # fmt: skip
    for mark in block["marks"]:
        axes.axvline(mark["step"], color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        # Words that begin in the right half would end outside.
        late = mark["step"] > (block["lines"][0]["x"] or [0])[-1] / 2
        axes.annotate(
            f" {mark['label']}: step {mark['step']} ", (mark["step"], 1.0), (0, 2),
            xycoords=("data", "axes fraction"), textcoords="offset points",
            va="bottom", ha="right" if late else "left", fontsize=9,
        )  # fmt: skip
    drawn = [line["y"] for line in block["lines"]] + ([band["high"]] if band else [])
    beyond = _cut(axes, [value for values in drawn for value in values], block["unit"])
    axes.set_xlabel(f"step{beyond}")
    axes.xaxis.set_major_locator(MaxNLocator(4 if narrow else 8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    unit = block["unit"]
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: cell(float(value), unit)))
    axes.grid(axis="y", color=INK, alpha=0.15, linewidth=0.6)
    _draw_legend(axes, narrow)


def _draw_legend(axes: Axes, narrow: bool) -> None:
    """Below the axis and in columns where there is no room beside it."""
    style: Any = {"frameon": False, "fontsize": 9, "handlelength": 1.5}
    if not narrow:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), **style)
        return
    assert axes.figure is not None
    figure: Any = axes.figure
    figure.legend(loc="outside lower center", ncols=2, columnspacing=1.2, **style)


def _cut(axes: Axes, values: list[float | None], unit: str) -> str:
    """Ends the axis where a few outliers would flatten all else; returns what to say about it."""
    known = np.array([value for value in values if value is not None])
    if not known.size:
        return ""
    most = float(np.quantile(known, BULK))
    if known.max() <= OUTLIER * most:
        return ""
    top = 1.25 * most
    axes.set_ylim(top=top)
    count = int((known > top).sum())
    return f" ({count} above the axis, up to {cell(float(known.max()), unit)})"


def _draw_bars(axes: Axes, block: Mapping[str, Any], narrow: bool) -> None:
    rows, series = block["rows"], block["series"]
    thickness = 0.8 / len(series)
    for index, one in enumerate(series):
        values = _numbers([row["values"][index] for row in rows])
        places = np.arange(len(rows)) + (index - (len(series) - 1) / 2) * thickness
        bars = axes.barh(
            places, values, thickness * 0.9, color=COLOURS[one["role"]], label=one["label"],
            hatch=HATCHES[one["role"]], edgecolor="white", linewidth=0,
        )  # fmt: skip
        labels = [cell(row["values"][index], block["unit"]) for row in rows]
        axes.bar_label(bars, labels=labels, padding=3, fontsize=8.5)
    axes.set_yticks(np.arange(len(rows)), [row["label"].replace("_", " ") for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    _draw_legend(axes, narrow)


def _draw_cells(axes: Axes, block: Mapping[str, Any], narrow: bool) -> None:
    values = np.array([_numbers(row["values"]) for row in block["rows"]], dtype=float)
    unit = block["unit"]
    low, high = min(1.0, float(np.nanmin(values))), max(1.1, float(np.nanmax(values)))
    # Few colours, so that matplotlib draws the bar beside the map and embeds no image.
    colours = mpl.colormaps["cividis"].resampled(COLOURS_OF_CELLS)
    drawn = axes.pcolormesh(values, cmap=colours, vmin=low, vmax=high, linewidth=0)
    for row, column in block["marked"]:
        # Black in white: seen on every colour of the map.
        for colour, width in (("#ffffff", 3.2), ("#000000", 1.4)):
            axes.add_patch(
                Rectangle((column, row), 1, 1, fill=False, edgecolor=colour, linewidth=width)
            )
    if values.size <= CELLS_WITH_FIGURES:
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                dark = value < low + 0.6 * (high - low)
                axes.text(column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center",
                          fontsize=8, color="#ffffff" if dark else "#000000")  # fmt: skip
    axes.invert_yaxis()
    _ticks(axes.xaxis, block["columns"], TICKS // 2 if narrow else TICKS)
    _ticks(axes.yaxis, [row["label"] for row in block["rows"]], TICKS)
    axes.set_xlabel(block["across"])
    axes.tick_params(length=0)
    assert axes.figure is not None
    bar = axes.figure.colorbar(drawn, ax=axes, aspect=12, pad=0.02)
    bar.formatter = FuncFormatter(lambda value, _: cell(float(value), unit))
    bar.outline.set_visible(False)


def _ticks(axis: Axis, labels: Sequence[str], most: int) -> None:
    """At most `most` of them, in the middle of their cells."""
    every = -(-len(labels) // most)
    places = range(0, len(labels), every)
    axis.set_ticks([place + 0.5 for place in places], [labels[place] for place in places])


def _numbers(values: list[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]


_DRAWN = {"lines": _draw_lines, "bars": _draw_bars, "cells": _draw_cells}


def _inline(svg: str, alternative: str, name: str) -> str:
    """The bare element: ids made unique, colours of the page, the alternative as its name."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{name}-", svg)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', "", svg, count=1)
    label = escape(alternative, quote=True)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
