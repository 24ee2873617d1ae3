"""What is wrong with the words of a command line, as one sentence of ours."""

from typing import Any

import typer

from lockstep.cli.command_line import nearest


def sentence(error: typer.TyperException) -> str:
    """What is wrong, what would be right, and where the help is.

    typer exports few of its classes: they are told apart by their names, which are those of click
    (https://click.palletsprojects.com/en/stable/api/#exceptions).
    """
    context: Any = getattr(error, "ctx", None)
    path = "lockstep" if context is None else context.command_path
    return f"{_wrong(error, context)} (see {path} --help)"


def _wrong(error: Any, context: Any) -> str:
    match type(error).__name__:
        case "NoSuchOption":
            known = [] if context is None else _options(context)
            return f"{_command(context)} has no option {error.option_name}" + nearest(
                error.option_name, known
            )
        case "BadOptionUsage":
            return f"{error.option_name} {_usage(error.option_name, context)}"
        case "MissingParameter" if error.param is not None:
            is_choice = error.param.type_descriptor.is_choice
            what = wanted(error.param) if is_choice else _about(error.param)
            return f"{_command(context)} needs {_name(error.param)}: {what}"
        case _ if getattr(error, "param", None) is not None:
            given = _given(error)
            told = "" if given is None else f" is {given!r}"
            return f"{_name(error.param)}{told}; it must be {wanted(error.param)}"
        case _:
            return str(error.message)


def wanted(param: Any) -> str:
    """What a parameter takes, in words."""
    kind = param.type_descriptor
    if kind.is_choice:
        *others, last = [str(getattr(each, "value", each)) for each in kind.choices]
        return f"{', '.join(others)} or {last}" if others else last
    whole = kind.annotation in (int, list[int])
    name = {int: "a whole number", float: "a number", bool: "true or false"}.get(
        int if whole else kind.annotation, "a text"
    )
    low, high = getattr(param, "min", None), getattr(param, "max", None)
    if low is not None and high is not None:
        return f"{name} from {low:g} to {high:g}"
    return name if low is None else f"{name}, {low:g} or more"


def _given(error: Any) -> Any:
    """What somebody wrote: pydantic's first error has it."""
    try:
        return error.__cause__.errors()[0]["input"]
    except (AttributeError, IndexError, KeyError, TypeError):
        return None


def _usage(option: str, context: Any) -> str:
    params = [] if context is None else context.command.params
    for param in params:
        if option in (*param.opts, *param.secondary_opts):
            if getattr(param, "is_flag", False):
                return "takes no value"
            return f"needs a value: {_about(param)}"
    return "needs a value"


def _about(param: Any) -> str:
    return (param.help or "a value").removesuffix(".")


def _options(context: Any) -> list[str]:
    return [
        option
        for param in context.command.params
        if not getattr(param, "hidden", False)
        for option in (*param.opts, *param.secondary_opts)
        if option.startswith("--")
    ]


def _name(param: Any) -> str:
    """`--nodes` or `DIR`; of several names the long one."""
    if param.param_type_name == "argument":
        return str(param.display_name_raw)
    return str(max(param.opts, key=len))


def _command(context: Any) -> str:
    return "lockstep" if context is None else str(context.info_name)
