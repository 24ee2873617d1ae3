"""Two maps that are compared have the same colours for the same values."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lockstep.dashboard.figures.picture import Picture


def same_range(one: Picture, other: Picture) -> tuple[Picture, Picture]:
    """Both pictures, the colours of their heat maps reaching over the values of both."""
    maps = [*_maps(one), *_maps(other)]
    if not maps:
        return one, other
    ends = {"zmin": min(each["zmin"] for each in maps), "zmax": max(each["zmax"] for each in maps)}
    return _with(one, ends), _with(other, ends)


def _maps(shown: Picture) -> Iterator[dict[str, Any]]:
    return (each for each in shown.figure["data"] if each.get("zmin") is not None)


def _with(shown: Picture, ends: dict[str, float]) -> Picture:
    data = [each | ends if "zmin" in each else each for each in shown.figure["data"]]
    return replace(shown, figure=shown.figure | {"data": data})
