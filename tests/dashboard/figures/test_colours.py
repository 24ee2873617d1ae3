"""Every trace of every figure names a colour: the theme's own or one of the palette."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lockstep.dashboard import figures, palette
from lockstep.dashboard.figures import (
    deviation,
    heatmap,
    layout_map,
    ledger,
    lines,
    matrix,
    operations,
    phases,
    picture,
)
from lockstep.dashboard.figures.charts import Other
from lockstep.dashboard.figures.colours import COLOURS
from lockstep.dashboard.figures.colours import colour as of_theme
from lockstep.dashboard.figures.picture import Picture
from lockstep.dashboard.shapes import Matrix
from tests.dashboard.fakes import SPAN, TIMES, Fake
from tests.dashboard.figures.fleets import fleet

# Those of the theme are held on both grounds by test_palette, and so is SILENT; the two grounds
# stand beside each other in marks on maps.
KNOWN = {of_theme(place) for place in range(COLOURS)} | {
    palette.SILENT,
    palette.LIGHT_BACKGROUND,
    palette.DARK_BACKGROUND,
}
SOURCE = Fake()
CHARTS = SOURCE.run_lines("gpt-1", SPAN)
EVENTS = SOURCE.events(SPAN)
OPERATIONS = pd.DataFrame({
    "op": ["a", "a", "b"], "group": ["dp", "dp", "tp"], "count": [1, 1, 1],
    "bytes": [1e3, 1e6, 1e6], "total_seconds": [1.0, 2.0, 3.0], "busbw": [1e7, 1e8, 1e8],
})  # fmt: skip
OWN = Matrix("Own time", "ratio", ("rank 0", "rank 1"), TIMES, None,
             np.ones((2, 60)) * np.array([[1.0], [1.4]]))  # fmt: skip
BESIDE = pd.DataFrame({"phase": ["data"], "a": [1.0], "b": [2.0], "difference": [1.0],
                       "change": [1.0]})  # fmt: skip
SLOW = fleet(2, values=[1.0] * 15 + [1.4], silent=("n0009",))
DRAWN: dict[Any, Callable[[], Picture]] = {
    operations.busbw: lambda: operations.busbw(OPERATIONS),
    operations.gantt: lambda: operations.gantt(SOURCE.operations("gpt-1", 0, SPAN)),
    heatmap.fleet: lambda: heatmap.fleet(SLOW),
    deviation.histogram: lambda: deviation.histogram(SLOW),
    matrix.lateness: lambda: matrix.lateness(OWN, [1]),
    layout_map.layout_map: lambda: layout_map.layout_map({"S_w": [[1.0], [1.4]]}, [(1, 0)]),
    ledger.ledger: lambda: ledger.ledger(SOURCE.ledgers(SPAN)),
    lines.stack: lambda: lines.stack(
        CHARTS, EVENTS, SPAN, "relative", Other(CHARTS, "b", SPAN.start)
    ),
    matrix.matrix: lambda: matrix.matrix(OWN),
    picture.nothing: lambda: picture.nothing("Nothing", "Nobody told."),
    phases.phases: lambda: phases.phases(SOURCE.ranks("gpt-1", SPAN), [1]),
    phases.phases_beside: lambda: phases.phases_beside(BESIDE),
    operations.shares: lambda: operations.shares(OPERATIONS),
}


def colour(trace: dict[str, Any]) -> str:
    """Of its marks or line; of a map that it has a scale of its own."""
    if trace["type"] == "heatmap":
        return palette.SILENT if "colorscale" in trace else "no scale"
    marker, line = trace.get("marker", {}), trace.get("line", {})
    if str(marker.get("symbol", "")).endswith("-thin"):  # drawn by its edge alone
        return str(marker["line"].get("color", "none"))
    return str(marker.get("color", line.get("color", "none")))


@pytest.mark.sweep
@pytest.mark.parametrize("draw", DRAWN.values(), ids=[each.__name__ for each in DRAWN])
def test_every_trace_names_a_colour_that_both_themes_can_show(draw: Callable[[], Picture]) -> None:
    told = [(trace.get("name"), colour(trace)) for trace in draw().figure["data"]]
    assert [] == [one for one in told if one[1] not in KNOWN]


def test_no_figure_is_left_out() -> None:
    modules = [importlib.import_module(f"{figures.__name__}.{each.name}")
               for each in pkgutil.iter_modules(figures.__path__)]  # fmt: skip
    makers = {
        function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and function.__module__ == module.__name__
        and inspect.signature(function).return_annotation is Picture
    }  # fmt: skip
    assert set() == makers - set(DRAWN)


def test_a_phase_has_its_colour_whatever_else_is_told() -> None:
    ranks = SOURCE.ranks("gpt-1", SPAN)
    few = ranks.drop(columns="data_seconds")
    colours = [
        {bar["name"]: bar["marker"]["color"] for bar in phases.phases(each).figure["data"]}
        for each in (ranks, few)
    ]
    assert {name: colours[0][name] for name in colours[1]} == colours[1]
