"""Panels as plain dicts. Each needs a title, a unit, queries, what to read from it, and links."""

from collections.abc import Sequence

from lockstep.grafana.settings import Json
from lockstep.grafana.targets import SOURCE

NOTHING = "Nothing was told of this in the range"
LIMIT = "orange"
"""From a limit on. The value is written beside it: no colour stands alone."""
UNKNOWN = "unknown: not told"
GREY = "#6e7077"
"""Of what nobody told."""
_HEIGHTS = {"stat": 4, "timeseries": 8, "table": 8, "heatmap": 12, "state-timeline": 8}
_LETTERS = "ABCDEFGH"


def tell(what: str, normal: str, act: str) -> str:
    """The text behind the (i) of a panel: what it is, what is normal, what to do."""
    return f"{what}\n\n**Normal:** {normal}\n\n**Otherwise:** {act}"


def _panel(
    kind: str, title: str, unit: str, queries: Sequence[Json], text: str, leads: list[Json],
    options: Json, limit: float | None, below: bool, custom: Json, nothing: str,
) -> Json:  # fmt: skip
    # Grafana's own default would be red from 80 on: no limit is said as one step.
    steps: list[Json] = [{"color": "blue", "value": None}]
    if limit is not None:
        low, high = (LIMIT, "blue") if below else ("blue", LIMIT)
        steps = [{"color": low, "value": None}, {"color": high, "value": limit}]
    defaults: Json = {
        "unit": unit, "noValue": nothing, "links": leads, "custom": custom,
        "thresholds": {"mode": "absolute", "steps": steps},
    }  # fmt: skip
    return {
        "type": kind, "title": title, "description": text, "datasource": SOURCE,
        "gridPos": {"h": _HEIGHTS[kind], "w": 24, "x": 0, "y": 0},
        "targets": [
            one | {"refId": letter} for one, letter in zip(queries, _LETTERS, strict=False)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
    }  # fmt: skip


def lines(
    title: str, unit: str, queries: Sequence[Json], text: str, leads: list[Json], *,
    stacked: bool = False, limit: float | None = None, below: bool = False,
    low: float | None = 0.0, high: float | None = None, nothing: str = NOTHING,
) -> Json:  # fmt: skip
    """Lines over time.

    Args:
        stacked: Whether they are parts of a whole.
        limit: Where it becomes bad; the text says whose limit it is.
        below: Whether it is bad below the limit.
        low, high: Ends of the axis; None = those of the data.
    """
    custom: Json = {
        "lineWidth": 1, "showPoints": "never", "spanNulls": False,
        "fillOpacity": 60 if stacked else 0,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }  # fmt: skip
    if limit is not None:
        custom["thresholdsStyle"] = {"mode": "line"}
    options: Json = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    made = _panel(
        "timeseries", title, unit, queries, text, leads, options, limit, below, custom, nothing
    )
    ends = {"min": low, "max": high}
    made["fieldConfig"]["defaults"] |= {key: end for key, end in ends.items() if end is not None}
    return made


def number(
    title: str, unit: str, queries: Sequence[Json], text: str, leads: list[Json], *,
    limit: float | None = None, below: bool = False, nothing: str = UNKNOWN,
) -> Json:  # fmt: skip
    """One number, or one a series; grey where nothing is told."""
    options: Json = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "none" if limit is None else "background", "graphMode": "none",
        "textMode": "auto", "justifyMode": "auto", "orientation": "auto",
    }  # fmt: skip
    made = _panel("stat", title, unit, queries, text, leads, options, limit, below, {}, nothing)
    # What is not told has no value, so no colour of a limit may stand for it.
    made["fieldConfig"]["defaults"]["mappings"] = [_grey(nothing)]
    return made


def _grey(words: str) -> Json:
    return {
        "type": "special",
        "options": {"match": "null+nan", "result": {"color": GREY, "text": words, "index": 0}},
    }


def rows(
    title: str, unit: str, queries: Sequence[Json], text: str, leads: list[Json], *,
    names: Sequence[str] = ("value",), units: Sequence[str] = (), sort: str = "",
    nothing: str = NOTHING,
) -> Json:  # fmt: skip
    """A table: one row a series, one column a query.

    Args:
        names: Of the columns of values, in the order of the queries.
        units: Of these columns; empty = `unit` for all.
        sort: Column by which it is sorted, the highest first.
    """
    options: Json = {
        "showHeader": True, "cellHeight": "sm",
        "footer": {"show": False, "reducer": ["sum"], "countRows": False, "fields": ""},
        "sortBy": [{"displayName": sort or names[0], "desc": True}],
    }  # fmt: skip
    made = _panel("table", title, unit, queries, text, leads, options, None, False, {}, nothing)
    values = [f"Value #{letter}" if len(queries) > 1 else "Value" for letter in _LETTERS]
    renamed = dict(zip(values, names, strict=False))
    # `merge` joins the queries on their labels; time is the same in all rows.
    made["transformations"] = [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": {"Time": True}, "indexByName": {}, "renameByName": renamed,
            },
        },
    ]  # fmt: skip
    made["fieldConfig"]["overrides"] = [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "unit", "value": one}],
        }
        for name, one in zip(names, units, strict=False)
    ]
    return made


def heat(
    title: str, unit: str, queries: Sequence[Json], text: str, leads: list[Json], *,
    low: float, high: float,
) -> Json:  # fmt: skip
    """A row a series, colour for value; cividis is read by the colour-blind too."""
    options: Json = {
        "calculate": False, "cellGap": 1,
        "color": {
            "mode": "scheme", "scheme": "Cividis", "fill": "dark-orange", "scale": "linear",
            "exponent": 0.5, "steps": 64, "reverse": False, "min": low, "max": high,
        },
        "cellValues": {"unit": unit}, "yAxis": {"axisPlacement": "left", "reverse": True},
        "legend": {"show": True}, "rowsFrame": {"layout": "auto"}, "showValue": "never",
        "exemplars": {"color": "rgba(255,0,255,0.7)"}, "filterValues": {"le": 1e-9},
        "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": True},
    }  # fmt: skip
    return _panel("heatmap", title, unit, queries, text, leads, options, None, False, {}, NOTHING)


def states(
    title: str, unit: str, queries: Sequence[Json], text: str, leads: list[Json], *,
    words: dict[str, str], nothing: str = NOTHING,
) -> Json:  # fmt: skip
    """A lane a series: what holds when. `words` says what values mean."""
    options: Json = {
        "showValue": "auto", "rowHeight": 0.8, "mergeValues": True, "alignValue": "left",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }  # fmt: skip
    custom: Json = {"lineWidth": 0, "fillOpacity": 70}
    made = _panel(
        "state-timeline", title, unit, queries, text, leads, options, 1.0, False, custom, nothing
    )
    made["fieldConfig"]["defaults"]["mappings"] = [
        {"type": "value", "options": {value: {"text": word} for value, word in words.items()}}
    ]
    return made


def index(title: str, markdown: str, text: str, leads: list[Json]) -> Json:
    """A text for readers; it shows no data."""
    return {
        "type": "text", "title": title, "description": text, "links": leads,
        "gridPos": {"h": 9, "w": 24, "x": 0, "y": 0},
        "options": {"mode": "markdown", "content": markdown},
    }  # fmt: skip


def placed(shelves: Sequence[Sequence[Json]]) -> list[Json]:
    """Panels with their places and numbers: each inner sequence stands side by side."""
    done: list[Json] = []
    top = 0
    for shelf in shelves:
        width = 24 // len(shelf)
        height = max(panel["gridPos"]["h"] for panel in shelf)
        for column, panel in enumerate(shelf):
            place = {"h": height, "w": width, "x": column * width, "y": top}
            done.append(panel | {"id": len(done) + 1, "gridPos": place})
        top += height
    return done
