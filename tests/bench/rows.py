"""Rows of results, made by hand."""

from typing import Any


def row(**given: Any) -> dict[str, Any]:
    """A result of the benchmark `nightly`; what is given replaces or adds."""
    return {"bench": "nightly", "cell": "a", "repeat": 0, "status": "finished", **given}
