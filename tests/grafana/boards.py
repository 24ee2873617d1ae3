"""The dashboards taken apart, and their variables filled in."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lockstep.grafana.book import book

BOARDS: dict[str, dict[str, Any]] = book()
VALUES = {
    "__rate_interval": "1m", "__interval": "15s", "__range": "1h", "run": ".*", "node": ".*",
    "gpu": ".*", "datasource": "uid", "streamlit_url": "http://127.0.0.1:8501",
}  # fmt: skip
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


class Query(NamedTuple):
    """One query and where it stands."""

    board: str
    panel: str
    expression: str
    legend: str
    instant: bool


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """(name of the file, panel)."""
    for name, board in BOARDS.items():
        for panel in board["panels"]:
            yield name, panel


def queries() -> list[Query]:
    """Of all panels, and of annotations."""
    found = [
        Query(name, panel["title"], one["expr"], one["legendFormat"], one["instant"])
        for name, panel in panels()
        for one in panel.get("targets", ())
    ]
    return found + [
        Query(name, one["name"], one["expr"], one["titleFormat"] + one["textFormat"], False)
        for name, board in BOARDS.items()
        for one in board["annotations"]["list"]
        if "expr" in one
    ]


def filled(text: str, values: Mapping[str, str] = VALUES) -> str:
    """With variables replaced; KeyError for one that no dashboard has."""
    return _VARIABLE.sub(lambda found: values[found[1]], text)


def links(panel: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of its data, or of a panel without data its own."""
    return panel.get("links") or panel["fieldConfig"]["defaults"]["links"]
