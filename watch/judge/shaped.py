"""Trees of JSON as dataclasses again: other types, and numbers that cannot be, are refused.

A file of ours may be torn, edited, or of another version. A number out of its range in it would
open a finding on every node, or end the next start.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from lockstep.collector.contract.metric_rows.ranges import CLOCK, RELATION, SECONDS_COUNTED, Range

T = TypeVar("T")

PROBABILITY = Range(0, 1, "a probability")
QUANTITY = Range(0, SECONDS_COUNTED.high, "a count, or a duration")
WHOLE = Range(-1, 2.0**63, "a number of something; -1 = none")
OF_FIELDS: Mapping[str, Range] = {
    **dict.fromkeys(
        ("onset", "first_seen", "opened", "seen", "closed", "counted", "learnt", "since", "hour",
         "begun", "when", "noticed", "until", "ended", "paged"), CLOCK,
    ),
    "confidence": PROBABILITY, "place_confidence": PROBABILITY,
    "slowdown": RELATION, "reading": RELATION,
}  # fmt: skip
"""By the name of a field; of all others QUANTITY and WHOLE."""
ROUNDING = 1e-9
"""Ten times what a sum of a million doubles can lose; the relative tolerance is the same."""


class ShapeError(ValueError):
    """A tree is not what its type says; the message says where."""


def shaped(kind: type[T], tree: object) -> T:
    """A dataclass from the tree that `dataclasses.asdict` made of it; keys beyond it are ignored.

    Raises:
        ShapeError: A value is missing, of another type, or out of its range.
    """
    made: T = _value(kind, tree, kind.__name__, "")
    return made


def number(value: object, within: Range, name: str) -> float:
    """A number that can be; a sum or product that rounding put beyond an end is that end.

    Raises:
        ShapeError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ShapeError(f"{name} is no number")
    if not within.low <= value <= within.high:
        for end in (within.low, within.high):
            if isinstance(value, float) and math.isclose(value, end, abs_tol=ROUNDING):
                return float(end)
        raise ShapeError(f"{name} is {value:g}; it can be {within.low:g} to {within.high:g}")
    return float(value)


def moment(value: object) -> float:
    """Unix seconds that a clock can show.

    Raises:
        ShapeError: They are none.
    """
    return number(value, CLOCK, "a time")


@lru_cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _value(kind: Any, tree: object, where: str, name: str) -> Any:
    origin = get_origin(kind)
    if kind is Any or kind is object:
        return tree
    if origin in (Union, UnionType):
        return _of_union(kind, tree, where, name)
    if origin is not None:
        return _of_many(origin, get_args(kind), tree, where, name)
    if is_dataclass(kind):
        return _of_dataclass(kind, tree, where)
    if kind is float:
        return number(tree, OF_FIELDS.get(name, QUANTITY), where)
    if kind is int:
        if isinstance(tree, float):
            raise ShapeError(f"{where} is no whole number")
        number(tree, WHOLE, where)
        return tree
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(tree)
        except ValueError:
            raise ShapeError(f"{where} is no {kind.__name__}") from None
    if not isinstance(tree, kind):
        raise ShapeError(f"{where} is of another type")
    return tree


def _of_union(kind: Any, tree: object, where: str, name: str) -> Any:
    *others, last = [each for each in get_args(kind) if each is not NoneType]
    if tree is None and NoneType in get_args(kind):
        return None
    for each in others:
        try:
            return _value(each, tree, where, name)
        except ShapeError:
            continue
    return _value(last, tree, where, name)


def _of_many(origin: Any, kinds: tuple[Any, ...], tree: object, where: str, name: str) -> Any:
    if issubclass(origin, Mapping):
        if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
            raise ShapeError(f"{where} is no object")
        return {key: _value(kinds[1], value, f"{where}.{key}", name) for key, value in tree.items()}
    if not isinstance(tree, list | tuple):
        raise ShapeError(f"{where} is no list")
    make: Callable[[Any], Any] = origin
    return make(_value(kinds[0], value, where, name) for value in tree)


def _of_dataclass(kind: Any, tree: object, where: str) -> Any:
    if not isinstance(tree, dict):
        raise ShapeError(f"{where} is no object")
    found = {}
    for field in fields(kind):
        if field.name in tree:
            found[field.name] = _value(
                _hints(kind)[field.name], tree[field.name], f"{where}.{field.name}", field.name
            )
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ShapeError(f"{where} has no {field.name}")
    return kind(**found)
