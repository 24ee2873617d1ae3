"""Parts of a report tree, by the names of their section and table."""

from typing import Any


def section(tree: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in tree["sections"] if each["name"] == name)


def table(tree: dict[str, Any], name: str, title: str) -> dict[str, Any]:
    """The first table of a section whose title has these words."""
    tables = [block for block in section(tree, name)["blocks"] if block["block"] == "table"]
    return next(block for block in tables if title in block["title"])


def rows(tree: dict[str, Any], name: str, title: str) -> list[list[Any]]:
    return table(tree, name, title)["rows"]
