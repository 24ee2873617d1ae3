"""How every command reads its words and shows its help: plain text in groups, fast at any width.

typer's own help in panels would import rich, which takes as long as all the rest, and cuts the
names of long options on a narrow terminal. It exports no type for contexts and formatters.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from lockstep.terminal import output

WIDEST = 100
"""Columns of the help on a terminal that has more: longer lines are hard to read."""
CYAN = "\x1b[36m"
SETTINGS: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": WIDEST,
    "allow_extra_args": True,  # refused by ourselves, with our sentence
}
_NAMES = {
    "int": "N", "int range": "N", "list[int]": "N", "float": "X", "float range": "X",
    "str": "TEXT", "list[str]": "TEXT", "path": "PATH", "list[Path]": "PATH",
}  # fmt: skip
_HEADING = re.compile(r"^(?:Usage:|\S.*:$)", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


class _Spoken:
    """What commands and the group of them share."""

    def get_help(self, ctx: Any) -> str:
        """The help, in colour where stdout is a terminal that wants it."""
        text: str = super().get_help(ctx)  # type: ignore[misc]
        return painted(text) if output.is_colourful() else text

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] DIR`: brackets where something may be left out, and no others."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.replace("{", "").replace("}", "") for piece in pieces]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer; each error knows of which command it is, also those of its parser."""
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc, no-any-return]
        except typer.TyperException as error:
            if getattr(error, "ctx", None) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise


class Command(_Spoken, TyperCommand):
    """One command; its options are shown in groups, by their `rich_help_panel`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer; what is too much is refused, and what was left empty.

        Raises:
            typer.BadParameter: There are more words than the command takes, or a path is empty,
                as where a variable of a shell is not set.
        """
        if not ctx.resilient_parsing and (name := self._emptied(args)):
            raise typer.BadParameter(f"{name} is empty; it must be a path", ctx)
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            params: Sequence[Any] = self.params
            taken = [each.display_name_raw for each in params if _is_argument(each)]
            most = f"only {' and '.join(taken)}" if taken else "options only"
            raise typer.BadParameter(
                f"{self.name} takes {most}; leave out {' '.join(map(repr, rest))}", ctx
            )
        return rest

    def _emptied(self, args: Sequence[str]) -> str | None:
        """The first path that is given as nothing, which would be the current folder."""
        paths: list[Any] = [each for each in self.params if _is_path(each)]
        options = {option for each in paths for option in each.opts if not _is_argument(each)}
        arguments = [each for each in paths if _is_argument(each)]
        before = ""
        for word in args:
            if word == "--":
                return None
            if word == "" and before in options:
                return before
            if word == "" and arguments and not before.startswith("-"):
                return str(arguments[0].display_name_raw)
            if word.endswith("=") and word[:-1] in options:
                return word[:-1]
            before = word
        return None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then each group in the order of its first option, then the rest."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        general: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            if (shown := _row(param, ctx)) is None:
                continue
            panel = getattr(param, "rich_help_panel", None)
            if _is_argument(param):
                groups["Arguments"].append(shown)
            elif panel is None:
                general.append(shown)
            else:
                groups.setdefault(panel, []).append(shown)
        _write({**groups, "Options": general}, formatter)


class Group(_Spoken, TyperGroup):
    """All commands; each with its whole first sentence."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Options, then commands."""
        options = [shown for each in self.get_params(ctx) if (shown := _row(each, ctx))]
        commands = [
            (name, (command.help or "").partition("\n\n")[0].replace("\n", " "))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None and not command.hidden
        ]
        _write({"Options": options, "Commands": commands}, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As typer.

        Raises:
            typer.BadParameter: There is no such command; names the nearest.
        """
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            near = nearest(args[0], list(self.commands))
            raise typer.BadParameter(f"there is no command {args[0]!r}{near}", ctx)
        return super().resolve_command(ctx, args)


def nearest(word: str, known: Sequence[str]) -> str:
    """`; did you mean 'analyze'?`, or nothing where no known word is near."""
    found = get_close_matches(word, known, 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def painted(text: str) -> str:
    """A help with bold headings and coloured names of options."""
    bold = _HEADING.sub(rf"{output.BOLD}\g<0>{output.PLAIN}", text)
    return _OPTION.sub(rf"{CYAN}\g<0>{output.PLAIN}", bold)


def _row(param: Any, ctx: Any) -> tuple[str, str] | None:
    """A parameter's names and its help; None for one that is not shown."""
    record = param.get_help_record(ctx)
    if record is None:
        return None
    names, text = record
    if _is_argument(param):
        names = param.display_name_raw
    names = re.sub(r"<([^>]*)>", lambda found: _NAMES.get(found[1], found[1]), names)
    text = re.sub(r"(\S+)<=x<=([^];]+)", r"\1 to \2", text)
    return names, re.sub(r"x>=([^];]+)", r"at least \1", text)


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _is_path(param: Any) -> bool:
    return param.type_descriptor.annotation in (Path, list[Path])


def _write(sections: dict[str, list[tuple[str, str]]], formatter: Any) -> None:
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


# What is wrong with a command line, in one sentence.


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
