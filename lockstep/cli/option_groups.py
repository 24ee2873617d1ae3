"""Commands with many options: each group of them is a dataclass, and one heading of the help."""

import inspect
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any, ClassVar, Protocol, TypeVar, get_args, get_type_hints

from typer.models import OptionInfo

Result = TypeVar("Result")


class Options(Protocol):
    """A group: a dataclass whose fields are annotated with `typer.Option`, and have defaults."""

    PANEL: ClassVar[str]
    """Heading in the help."""
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def grouped(command: Callable[..., Result]) -> Callable[..., Result]:
    """The command as typer reads it: each field of a group is a parameter of its own.

    Args:
        command: Some of its parameters are groups; no two fields or parameters have one name.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Options]] = {}
    parameters: list[Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind):
            groups[parameter.name] = kind  # type: ignore[assignment]
            parameters += _parameters(groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def called(**given: Any) -> Result:
        built = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        return command(**given, **built)

    called.__annotations__ = {each.name: each.annotation for each in parameters}
    called.__annotations__["return"] = hints["return"]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


def _parameters(group: type[Options]) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        kind, info = get_args(hints[field.name])
        shown: OptionInfo = copy(info)
        shown.rich_help_panel = group.PANEL
        assert field.default is not MISSING, f"{group.__name__}.{field.name} has no default"
        yield Parameter(
            field.name, Parameter.KEYWORD_ONLY, default=field.default,
            annotation=Annotated[kind, shown],
        )  # fmt: skip
