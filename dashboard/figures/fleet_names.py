"""What the map of a fleet calls its places: on the axes, and under the pointer."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dashboard.figures import escape
from dashboard.figures.folding import Folding
from dashboard.shapes import FleetSnapshot

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


def where(shown: FleetSnapshot, place: int) -> str:
    """`node-3, GPU 1, rank 7`."""
    words = [str(shown.nodes[place])]
    if shown.gpus[place] >= 0:
        words.append(f"GPU {shown.gpus[place]}")
    if shown.ranks[place] >= 0:
        words.append(f"rank {shown.ranks[place]}")
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
        names = [escape.text(name) for name in places.names] + [""] * (count - len(places.names))
        slots = [_slot(places, x % places.stride) for x in range(width)]
        texts = [[f"{names[node[y, x]]}{slots[x]}" for x in range(width)]
                 for y in range(places.rows)]  # fmt: skip
        return Hover("%{text}: ", text=texts)
    numbers = np.full(count, -1, np.int32)
    parted = _numbered(places.names)
    if parted is not None:
        before, digits, after, found = parted
        numbers[: len(found)] = found
        name = f"{escape.text(before)}%{{customdata:0{digits}d}}{escape.text(after)}"
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
        escape.text(places.names[each], 20) if each < len(places.names) else "" for each in first
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
