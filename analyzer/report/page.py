"""The report tree as one self-contained page: no script, no network, light, dark and print."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from lockstep.analyzer.report.charts import chart
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
