"""What a report is made of: sections of text, callouts, tables, charts and commands.

Blocks are plain JSON trees with values in base units; the renderers know blocks and nothing else.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

Block = dict[str, Any]


def section(name: str, title: str, blocks: Sequence[Block | None]) -> Block:
    """A titled part of the report; blocks that are None are left out."""
    return {"name": name, "title": title, "blocks": [block for block in blocks if block]}


def text(words: str) -> Block:
    """A paragraph."""
    return {"block": "text", "text": words}


def links(named: Mapping[str, str]) -> Block | None:
    """Words -> https address, to follow; or None without any."""
    if not named:
        return None
    return {
        "block": "links",
        "links": [{"text": words, "url": url} for words, url in named.items()],
    }


def human(name: str, words: str) -> Block:
    """What people wrote (report.human): it survives a new rendering of the report."""
    return {"block": "human", "name": name, "text": words}


def callout(label: str, words: str) -> Block:
    """A boxed remark that must not be overlooked; the label is one word."""
    return {"block": "callout", "label": label, "text": words}


def code(words: str) -> Block:
    """Commands to copy."""
    return {"block": "code", "text": words}


def table(
    title: str,
    columns: Mapping[str, str],
    rows: Sequence[Sequence[Any]],
    *,
    collapsed: bool = False,
    source: str = "",
) -> Block | None:
    """A table, or None without rows.

    Args:
        title: What the rows are.
        columns: Heading -> unit (see figures.cell).
        rows: Values in base units, None = not known.
        collapsed: For the twin of a chart: closed at first on a page, left out of Markdown.
        source: Where the numbers come from (report.queries); empty where the rows say it.
    """
    if not rows:
        return None
    return {
        "block": "table",
        "title": title,
        "columns": [{"name": name, "unit": unit} for name, unit in columns.items()],
        "rows": [[_plain(value) for value in row] for row in rows],
        "collapsed": collapsed,
        "source": source,
    }


def _plain(value: Any) -> Any:
    """The JSON type of a cell; NaN, "not known", is None."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def line(label: str, role: str, x: Sequence[int], y: Sequence[float | None]) -> Block:
    """A line of a chart; `role` is culprit, peers or reference and decides its colour."""
    return {"label": label, "role": role, "x": list(x), "y": list(y)}


def lines(
    title: str,
    alt: str,
    unit: str,
    drawn: Sequence[Block],
    *,
    band: Block | None = None,
    marks: Sequence[Mapping[str, Any]] = (),
    source: str = "",
) -> Block:
    """A chart of values over steps.

    Args:
        title: What is drawn.
        alt: The chart in words, for those who cannot see it.
        unit: Unit of the values (see figures.cell).
        drawn: From `line`.
        band: `label, x, low, high`: the range of the peers.
        marks: `step, label` of vertical marks.
        source: As for `table`.
    """
    return {
        "block": "lines",
        "title": title,
        "alt": alt,
        "unit": unit,
        "lines": list(drawn),
        "band": band,
        "marks": [dict(mark) for mark in marks],
        "source": source,
    }


def bars(
    title: str,
    alt: str,
    unit: str,
    series: Mapping[str, str],
    rows: Mapping[str, Sequence[float | None]],
    *,
    source: str = "",
) -> Block | None:
    """A chart of horizontal bars, or None without rows.

    Args:
        title: What is drawn.
        alt: The chart in words.
        unit: Unit of the values.
        series: Name -> role of each bar of a row.
        rows: Label -> one value a series.
        source: As for `table`.
    """
    if not rows:
        return None
    return {
        "block": "bars",
        "title": title,
        "alt": alt,
        "unit": unit,
        "series": [{"label": label, "role": role} for label, role in series.items()],
        "rows": [{"label": label, "values": list(values)} for label, values in rows.items()],
        "source": source,
    }


def cells(
    title: str,
    alt: str,
    unit: str,
    rows: Mapping[str, Sequence[float | None]],
    columns: Sequence[str],
    *,
    across: str,
    marked: Sequence[tuple[int, int]] = (),
    source: str = "",
) -> Block:
    """A heat map.

    Args:
        title: What is drawn.
        alt: The map in words.
        unit: Unit of the values.
        rows: Label -> one value a column, None = nobody there.
        columns: Labels of the columns.
        across: What the columns are.
        marked: (row, column) of cells to outline.
        source: As for `table`.
    """
    return {
        "block": "cells",
        "title": title,
        "alt": alt,
        "unit": unit,
        "rows": [{"label": label, "values": list(values)} for label, values in rows.items()],
        "columns": list(columns),
        "across": across,
        "marked": [list(cell) for cell in marked],
        "source": source,
    }
