"""JSON types to dataclasses, by their annotations; the other way is dataclasses.asdict."""

from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class ShapeError(ValueError):
    """A JSON value does not have the shape that was asked for."""


def built(kind: type[T], value: object, where: str) -> T:
    """An instance of a dataclass from a JSON object; left-out fields take their defaults.

    Args:
        where: Name of the value, for the sentence about what is wrong with it.

    Raises:
        ShapeError: A name is unknown or missing, a value of another type, or refused by the
            dataclass itself.
    """
    if not isinstance(value, dict):
        raise ShapeError(f"{where} is {_shown(value)}; it must be an object")
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type] # a dataclass
    for name in value:
        if name not in known:
            raise ShapeError(f"{where} has the unknown name {name!r}; one of {', '.join(known)}")
    for name, field in known.items():
        needed = field.default is MISSING and field.default_factory is MISSING
        if needed and name not in value:
            raise ShapeError(f"{where} lacks {name!r}")
    hints = get_type_hints(kind)
    given = {name: _value(hints[name], one, f"{where}.{name}") for name, one in value.items()}
    try:
        return kind(**given)
    except ShapeError:
        raise
    except ValueError as error:
        raise ShapeError(f"{where}: {error}") from None


def _value(kind: Any, value: object, where: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return built(kind, value, where)
    if get_origin(kind) in (Union, UnionType):
        if value is None and NoneType in get_args(kind):
            return None
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
        return _value(kind, value, where)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise ShapeError(f"{where} is {_shown(value)}; it must be a list")
        return tuple(
            _value(get_args(kind)[0], one, f"{where}[{index}]") for index, one in enumerate(value)
        )
    return _scalar(kind, value, where)


def _scalar(kind: type, value: object, where: str) -> Any:
    if issubclass(kind, Enum):
        known = [one.value for one in kind]
        if value not in known:
            raise ShapeError(f"{where} is {_shown(value)}; one of {', '.join(map(str, known))}")
        return kind(value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise ShapeError(f"{where} is {_shown(value)}; it must be of type {kind.__name__}")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
