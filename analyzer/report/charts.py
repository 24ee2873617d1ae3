"""Chart blocks as inline SVG that follows the page's colours and is the same on every run."""

import io
import re
from collections.abc import Mapping
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analyzer.report.figures import cell

COLOURS = {"culprit": "#D55E00", "peers": "#0072B2", "reference": "#009E73", "other": "#CC79A7"}
"""Okabe-Ito colours that reach 3:1 on white; never the only difference between two things."""
DASHES = {"culprit": "-", "peers": "-", "reference": "--", "other": ":"}
INK = "#010203"
"""Stands for the page's text colour, which differs between light and dark."""
WIDTH_INCHES = 8.6
BULK, OUTLIER = 0.95, 1.6
"""An axis is cut when its highest value is OUTLIER times the BULK quantile."""

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


def chart(block: Mapping[str, Any], name: str) -> str:
    """A chart block as an `<svg>` element with its text alternative.

    Args:
        block: From blocks.lines or blocks.bars.
        name: Unique on the page; the prefix of the element's ids.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        rows = len(block.get("rows", ())) * len(block.get("series", ()))
        height = 2.9 if block["block"] == "lines" else 0.55 + 0.24 * max(rows, 2)
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        axes = figure.add_subplot()
        if block["block"] == "lines":
            _lines(axes, block)
        else:
            _bars(axes, block)
        drawn = io.StringIO()
        figure.savefig(
            drawn,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return _inline(drawn.getvalue(), f"{block['title']}. {block['alt']}", name)


def _lines(axes: Axes, block: Mapping[str, Any]) -> None:
    if band := block["band"]:
        axes.fill_between(
            band["x"], _numbers(band["low"]), _numbers(band["high"]),
            step="mid" if len(band["x"]) > 1 else None,
            color=COLOURS["peers"], alpha=0.22, linewidth=0, label=band["label"],
        )  # fmt: skip
    for line in block["lines"]:
        role = line["role"]
        axes.plot(
            line["x"], _numbers(line["y"]), color=COLOURS[role], linestyle=DASHES[role],
            linewidth=1.6 if role == "culprit" else 1.2, label=line["label"],
            zorder=3 if role == "culprit" else 2,
        )  # fmt: skip
    for mark in block["marks"]:
        axes.axvline(mark["step"], color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.annotate(
            f" {mark['label']}: step {mark['step']}", (mark["step"], 1.0), (0, 2),
            xycoords=("data", "axes fraction"), textcoords="offset points",
            va="bottom", ha="left", fontsize=9,
        )  # fmt: skip
    beyond = _cut(axes, [value for line in block["lines"] for value in line["y"]], block["unit"])
    axes.set_xlabel(f"step{beyond}")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    unit = block["unit"]
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: cell(float(value), unit)))
    axes.grid(axis="y", color=INK, alpha=0.15, linewidth=0.6)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9, handlelength=1.6
    )


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
    return f" ({count} values above the axis, up to {cell(float(known.max()), unit)})"


def _bars(axes: Axes, block: Mapping[str, Any]) -> None:
    rows, series = block["rows"], block["series"]
    thickness = 0.8 / len(series)
    for index, one in enumerate(series):
        values = _numbers([row["values"][index] for row in rows])
        places = np.arange(len(rows)) + (index - (len(series) - 1) / 2) * thickness
        bars = axes.barh(
            places, values, thickness * 0.9, color=COLOURS[one["role"]], label=one["label"],
            hatch="" if one["role"] == "culprit" else "////", edgecolor="white", linewidth=0,
        )  # fmt: skip
        labels = [cell(row["values"][index], block["unit"]) for row in rows]
        axes.bar_label(bars, labels=labels, padding=3, fontsize=8.5)
    axes.set_yticks(np.arange(len(rows)), [row["label"].replace("_", " ") for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9, handlelength=1.2
    )


def _numbers(values: list[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]


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
