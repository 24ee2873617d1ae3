"""The map of a fleet: one cell a GPU, and marks on the worst ones that can be clicked.

Measured for 10,000 GPUs (tests/benchmarks/dashboard_heatmap.py): values go out as float32 with
so many bits as the digits need that the hover tells. Plotly's heat maps
answer no click; the markers over them do.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.dashboard import palette
from lockstep.dashboard.figures import colours, deviation
from lockstep.dashboard.figures.picture import Picture, escaped, nothing
from lockstep.dashboard.figures.units import COUNT, SHARE, TIMES, quantity, unit_name, unit_of
from lockstep.dashboard.shapes import FleetSnapshot

# Where each GPU lies in the map of a fleet: a node is a short row, and rows stand in columns.

FLAT_NODES = 32
"""Up to so many nodes, each has a row of its own with its name beside it."""
WIDE = 1.8
"""Width over height that a folded map aims at: that of the room on a page."""


@dataclass(frozen=True, slots=True)
class Folding:
    """The places of a map.

    Attributes:
        names: (N,) nodes in the order of the map, those that do not answer included.
        slots: Places of a node.
        columns: Nodes beside each other.
        node: (G,) index into `names` of each GPU.
        slot: (G,) its place within its node.
        gpus: (slots,) index that the GPU in each place has; -1 where nodes differ.
    """

    names: tuple[str, ...]
    slots: int
    columns: int
    node: NDArray[np.int64]
    slot: NDArray[np.int64]
    gpus: NDArray[np.int32]

    @property
    def rows(self) -> int:
        """Of the map."""
        return math.ceil(len(self.names) / self.columns)

    @property
    def stride(self) -> int:
        """From one node to the one beside it: its places and, in a folded map, a gap."""
        return self.slots + (self.columns > 1)

    def x(self, node: NDArray[np.int64], slot: NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns of places: nodes follow each other down the first column, then the next."""
        return node // self.rows * self.stride + slot

    def y(self, node: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of nodes, from the top."""
        return node % self.rows

    def grid(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """(rows, columns) of one value a GPU; NaN where there is none."""
        cells = np.full((self.rows, self.columns * self.stride), np.nan, np.float32)
        cells[self.y(self.node), self.x(self.node, self.slot)] = values
        return cells


def folded(fleet: FleetSnapshot) -> Folding:
    """Lays a fleet out: nodes in its order, then those that are silent and have no value."""
    node, names = pd.factorize(fleet.nodes.astype(object))
    node = node.astype(np.int64)
    every = dict.fromkeys([*map(str, names), *fleet.silent])
    order = np.argsort(node, kind="stable")
    counts = np.bincount(node, minlength=max(len(names), 1))
    begins = np.cumsum(counts) - counts
    slot = np.empty(len(node), np.int64)
    slot[order] = np.arange(len(node)) - begins[node[order]]
    slots = int(counts.max()) if len(node) else 1
    gpus = np.full(slots, -1, np.int32)
    for index in range(slots):
        there = np.unique(fleet.gpus[slot == index])
        gpus[index] = there[0] if len(there) == 1 else -1
    count = max(len(every), 1)
    columns = 1
    if count > FLAT_NODES:
        columns = max(1, round(math.sqrt(WIDE * count / (slots + 1))))
    return Folding(tuple(every), slots, columns, node, slot, gpus)


MOST_MARKS = 200
"""Markers that a chart can have and still be read, and be clicked."""
HOVERS = {
    SHARE: (".1f", " %"),
    TIMES: (".2f", "×"),
    COUNT: (",d", ""),
    "celsius": (".1f", " °C"),
}
"""d3 format and unit under the pointer and on the colour bar."""
BITS, MOST_BITS = {TIMES: 10}, 13
"""Of a value, its first one included: a ratio is told to 0.01, everything else to 1 in 1,000."""
BAR_PIXELS = 72
"""Room for the colour bar and its words."""
BAR_FORMATS = {SHARE: ".0f", TIMES: ".2~f", "celsius": ".0f"}
CELL_SHARE = 0.09
"""Of the page's width that a place takes at most: some 90 pixels on a desk, 25 on a telephone."""
FEW_PIXELS, MOST_PIXELS = 26, 560


def fleet(shown: FleetSnapshot, order: str = "place", *, select: bool = True) -> Picture:
    """One value a GPU as colours, the worst marked, silent nodes crossed out.

    Args:
        shown: The values.
        order: `place`: as the fleet has them, by rack and node; `run`: by run first.
        select: Whether places that do not deviate can be clicked too, where there are at most 200:
            in a larger map nobody could tell which ones.

    Returns:
        Its markers carry `[node, gpu, rank]` as `customdata`.
    """
    unit = unit_of(shown.metric)
    title = f"{shown.metric.title} ({unit_name(unit)})"
    if order == "run":
        shown = sorted_by_run(shown)
    if not len(shown.values) and not shown.silent:
        return nothing(title, "No GPU reported anything at this time.", shown.metric.help)
    places = folded(shown)
    away = deviation.of_fleet(shown)
    worst = deviation.worst(shown.metric, shown.values, MOST_MARKS)
    loud, quiet = worst[away[worst]], worst[~away[worst]]
    data = [_cells(shown, places, unit), _marks(shown, places, loud, "far from its peers")]
    if select and len(shown.values) <= MOST_MARKS:
        data.append(_marks(shown, places, quiet, ""))
    if shown.silent:
        data.append(_silent(shown, places))
    table = ranked(shown)
    return Picture(
        title, {"data": data, "layout": _layout(places)}, table,
        _text(shown, away, worst), _note(shown, away, places), shown.metric.help,
    )  # fmt: skip


def sorted_by_run(shown: FleetSnapshot) -> FleetSnapshot:
    """It with the GPUs of a run beside each other, by rank; those without one come last."""
    order = np.lexsort((shown.ranks, shown.runs, shown.runs == ""))
    return _chosen(shown, order)


def only_run(shown: FleetSnapshot, run: str) -> FleetSnapshot:
    """Its GPUs on which a run is."""
    return _chosen(shown, np.flatnonzero(shown.runs == run), silent=())


def line(shown: FleetSnapshot, index: int) -> str:
    """A place with its value: `node-3, GPU 1, rank 7: 1.52×`."""
    value = quantity(float(shown.values[index]), unit_of(shown.metric))
    return f"{where(shown, index)}: {value}"


def ranked(shown: FleetSnapshot, most: int | None = None) -> pd.DataFrame:
    """GPUs as a table, the worst first, those that told nothing last.

    Args:
        shown: The values.
        most: So many of those that told something; None = all.
    """
    unit = unit_of(shown.metric)
    bad = deviation.badness(shown.metric, shown.values)
    order = np.argsort(np.where(np.isnan(bad), np.inf, -bad), kind="stable")
    if most is not None:
        order = order[: min(most, int(np.isfinite(bad).sum()))]
    away = deviation.of_fleet(shown)
    values = shown.values[order].astype(np.float64)
    return pd.DataFrame({
        "node": shown.nodes[order],
        "gpu": _known(shown.gpus[order]),
        "rank": _known(shown.ranks[order]),
        f"{shown.metric.title} ({unit_name(unit)})": values * (100.0 if unit == SHARE else 1.0),
        "far from its peers": np.where(away[order], "yes", ""),
        "run": shown.runs[order],
    })  # fmt: skip


def _known(numbers: NDArray[np.int32]) -> Any:
    """Whole numbers with nothing in the place of -1."""
    return pd.arrays.IntegerArray(numbers.copy(), numbers < 0)


def _chosen(
    shown: FleetSnapshot, order: NDArray[np.int64], silent: tuple[str, ...] | None = None
) -> FleetSnapshot:
    return FleetSnapshot(
        shown.metric, shown.at, shown.nodes[order], shown.gpus[order], shown.ranks[order],
        shown.runs[order], shown.values[order], shown.silent if silent is None else silent,
        shown.simulated,
    )  # fmt: skip


def _cells(shown: FleetSnapshot, places: Folding, unit: str) -> dict[str, Any]:
    metric = shown.metric
    factor = 100.0 if unit == SHARE else 1.0
    low, high = (None if end is None else end * factor for end in (metric.low, metric.high))
    values = _shortened(shown.values * np.float32(factor), BITS.get(unit, MOST_BITS))
    named = hover(places)
    form, suffix = HOVERS.get(unit, (".3~s", f" {unit_name(unit)}"))
    return {
        "type": "heatmap",
        "z": places.grid(values),
        "x0": 0, "dx": 1, "y0": 0, "dy": 1,
        "hoverongaps": False,
        "xgap": 1 if places.columns == 1 else 0,
        "ygap": 1 if places.columns == 1 else 0,
        "hovertemplate": f"{named.template}%{{z:{form}}}{suffix}<extra></extra>",
        "customdata": named.cells,
        "text": named.text,
        "colorbar": {"thickness": 12, "x": _share(places) + 0.02, "xanchor": "left",
                     "tickformat": BAR_FORMATS.get(unit, form), "ticksuffix": suffix},
        **colours.rising(values, low, high, bad_is_low=metric.higher is False),
    }  # fmt: skip


def _shortened(values: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """Values rounded to more than the digits shown, and a fifth less on the wire.

    Plotly escapes every `/` of the base64 into six characters; zeros at the end have none.
    """
    left_out = 24 - bits
    whole = np.ascontiguousarray(values).view(np.uint32)
    half = np.uint32(1 << (left_out - 1))
    return ((whole + half) & np.uint32(2**32 - (1 << left_out))).view(np.float32)


def _marks(
    shown: FleetSnapshot, places: Folding, chosen: NDArray[np.int64], name: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": places.x(places.node[chosen], places.slot[chosen]),
        "y": places.y(places.node[chosen]),
        "customdata": [
            [str(shown.nodes[each]), int(shown.gpus[each]), int(shown.ranks[each])]
            for each in chosen
        ],
        "text": [escaped(line(shown, int(each))) for each in chosen],
        "hovertemplate": "%{text}<extra></extra>",
        # A place that is as its peers can be clicked as well, and shows no marker.
        "marker": colours.MARKER if name else colours.MARKER | {"size": 12, "opacity": 0},
        "showlegend": False,
    }


def _silent(shown: FleetSnapshot, places: Folding) -> dict[str, Any]:
    number = {name: index for index, name in enumerate(places.names)}
    nodes = np.array([number[name] for name in shown.silent[:MOST_MARKS]], np.int64)
    middle = np.full(len(nodes), places.slots // 2)
    return {
        "type": "scatter",
        "mode": "markers+text" if len(nodes) <= 8 and places.columns == 1 else "markers",
        "name": "no answer",
        "x": places.x(nodes, middle),
        "y": places.y(nodes),
        "text": ["no answer"] * len(nodes),
        "textposition": "middle right",
        "customdata": [[name, -1, -1] for name in shown.silent[:MOST_MARKS]],
        "hovertext": [escaped(f"{name}: no answer") for name in shown.silent[:MOST_MARKS]],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": {"symbol": "x-thin", "size": 9, "line": {"color": palette.SILENT, "width": 2}},
        "showlegend": False,
    }


def _layout(places: Folding) -> dict[str, Any]:
    flat = places.columns == 1 and len(places.names) <= FLAT_NODES
    rows = places.rows
    xaxis = across(places)
    xaxis["range"] = [-0.6, places.columns * places.stride - 0.4]
    xaxis["domain"] = [0.0, _share(places)]
    yaxis: dict[str, Any] = {"range": [rows - 0.4, -0.6], "showgrid": False, "zeroline": False}
    margin: dict[str, Any] = {"l": 8, "r": 8, "t": 32, "b": 36}
    if flat:
        named = [f"{escaped(name, 32)} " for name in places.names]
        yaxis |= {"tickvals": list(range(rows)), "ticktext": named, "automargin": True}
    else:
        yaxis |= {"showticklabels": False, "ticks": ""}
        # Else the colour bar pushes the margin, and Plotly draws every cell twice.
        margin |= {"r": BAR_PIXELS, "b": 48, "autoexpand": False}
    return {
        "height": min(FEW_PIXELS * rows + 90, MOST_PIXELS),
        "margin": margin,
        "xaxis": xaxis, "yaxis": yaxis, "hovermode": "closest",
    }  # fmt: skip


def _share(places: Folding) -> float:
    """Of the width: a map of few places is as wide as they are, not as the page."""
    return min(1.0, places.columns * places.stride * CELL_SHARE) if places.columns == 1 else 1.0


def _text(shown: FleetSnapshot, away: Any, worst: Any) -> str:
    known = int(np.isfinite(shown.values).sum())
    things = "GPUs" if (shown.gpus >= 0).any() else "ranks"
    count = len(shown.silent)
    silent = f" {count:,} node{'s do' if count > 1 else ' does'} not answer." if count else ""
    if not known:
        return f"None of {len(shown.values):,} {things} reported this.{silent}"
    return (
        f"{int(away.sum()):,} of {known:,} {things} far from their peers; the worst is "
        f"{line(shown, int(worst[0]))}.{silent}"
    )


def _note(shown: FleetSnapshot, away: Any, places: Folding) -> str:
    words = []
    if places.columns > 1:
        words.append(
            f"Each row of {places.slots} cells is a node; nodes follow each other down a column."
        )
    if away.any():
        marked = min(int(away.sum()), MOST_MARKS)
        which = f"{marked} worst places" if marked > 1 else "place"
        verb = "are far from their peers carry" if marked > 1 else "is far from its peers carries"
        words.append(f"The {which} that {verb} a diamond.")
    if unknown := int(np.isnan(shown.values).sum()):
        are = (
            "1 place reported nothing and is"
            if unknown == 1
            else f"{unknown:,} places reported nothing and are"
        )
        words.append(f"{are} empty: that is no 0.")
    if shown.silent:
        words.append("A cross is a node that does not answer.")
    return " ".join(words)


MOST_TEXTS = 2_000
"""Cells that carry their name as text; more of them would be most of what goes over the wire."""
_NUMBERED = re.compile(r"(.*?)(\d{1,6})(\D*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Hover:
    """How cells are named under the pointer.

    Attributes:
        template: Plotly's hovertemplate up to the value.
        cells: (rows, columns) `customdata`, or None.
        text: (rows, columns) texts, or None.
    """

    template: str
    cells: NDArray[np.int16] | NDArray[np.int32] | None = None
    text: list[list[str]] | None = None


def where(shown: FleetSnapshot, index: int) -> str:
    """`node-3, GPU 1, rank 7`."""
    words = [str(shown.nodes[index])]
    if shown.gpus[index] >= 0:
        words.append(f"GPU {shown.gpus[index]}")
    if shown.ranks[index] >= 0:
        words.append(f"rank {shown.ranks[index]}")
    return ", ".join(words)


def hover(places: Folding) -> Hover:
    """Names of all cells, as small as they can be told.

    Few cells carry their names. Of many, nodes that are numbered (`n0001` …) carry the number;
    others are found by the table and the marks, and the cell says which node in order it is.
    """
    count = places.rows * places.columns
    width = places.columns * places.stride
    node = (
        np.arange(width)[None, :] // places.stride * places.rows + np.arange(places.rows)[:, None]
    )
    if places.rows * width <= MOST_TEXTS:
        names = [escaped(name) for name in places.names] + [""] * (count - len(places.names))
        slots = [_slot(places, x % places.stride) for x in range(width)]
        texts = [[f"{names[node[y, x]]}{slots[x]}" for x in range(width)]
                 for y in range(places.rows)]  # fmt: skip
        return Hover("%{text}: ", text=texts)
    numbers = np.full(count, -1, np.int32)
    parted = _numbered(places.names)
    if parted is not None:
        before, digits, after, found = parted
        numbers[: len(found)] = found
        name = f"{escaped(before)}%{{customdata:0{digits}d}}{escaped(after)}"
    else:
        numbers[: len(places.names)] = np.arange(1, len(places.names) + 1)
        name = "node %{customdata} of the map"
    return Hover(f"{name}: ", cells=_small(numbers)[node])


def across(places: Folding) -> dict[str, Any]:
    """Plotly's x axis: which GPU, or which node heads a column."""
    axis: dict[str, Any] = {"showgrid": False, "zeroline": False}
    if places.columns == 1:
        known = bool((places.gpus >= 0).all())
        axis["tickvals"] = list(range(places.slots))
        axis["ticktext"] = [str(each) for each in (places.gpus if known else range(places.slots))]
        return axis | {"title": {"text": "GPU" if known else "rank of the node"}}
    step = max(1, places.columns // 8)
    heads = range(0, places.columns, step)
    axis["tickvals"] = [column * places.stride + (places.slots - 1) / 2 for column in heads]
    first = [column * places.rows for column in heads]
    axis["ticktext"] = [
        escaped(places.names[each], 20) if each < len(places.names) else "" for each in first
    ]
    return axis | {"title": {"text": "first node of the column"}, "tickangle": 0}


def _slot(places: Folding, slot: int) -> str:
    if slot >= places.slots or places.gpus[slot] < 0:
        return ""
    return f", GPU {places.gpus[slot]}"


def _small(numbers: NDArray[np.int32]) -> NDArray[np.int16] | NDArray[np.int32]:
    return numbers.astype(np.int16) if numbers.max() < 2**15 else numbers


def _numbered(names: tuple[str, ...]) -> tuple[str, int, str, list[int]] | None:
    """(before, digits, after, numbers) of names that differ in one number of fixed width only."""
    parts = [_NUMBERED.fullmatch(name) for name in names]
    heads = {(part[1], len(part[2]), part[3]) for part in parts if part}
    if None in parts or len(heads) != 1 or any("%" in word for word in names[0]):
        return None
    before, digits, after = heads.pop()
    return before, digits, after, [int(part[2]) for part in parts if part]
