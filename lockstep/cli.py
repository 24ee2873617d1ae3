"""The command line: one Typer app over the commands, and what happens when one fails."""

import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from collector.contract.visible import visible_line
from collector.contract.words import ExitCode
from lockstep import output
from lockstep.commands import COMMANDS

DISTRIBUTION = "lockstep-monitor"
DEBUG_VARIABLE = output.DEBUG_VARIABLE

EPILOG = """\b
Exit codes: 0 healthy or done; 1 warning; 2 a culprit was named; 3 unknown or too little data;
64 usage; 65 bad input file; 69 source unreachable; 70 internal; 130 interrupted.
1 to 3 come from `analyze` (and 1 from `doctor`). Data goes to stdout, progress to stderr.

\b
Start with: lockstep demo
"""


def _show_version(asked: bool) -> None:
    if asked:
        output.data(f"lockstep {version(DISTRIBUTION)}")
        raise typer.Exit


def _root(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar=DEBUG_VARIABLE, help="Show tracebacks.")
    ] = False,
) -> None:
    """Finds the node that holds a distributed training run back, says why, and what it costs."""
    # Through the environment, so that the processes a command starts show theirs as well.
    os.environ.pop(DEBUG_VARIABLE, None)
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"


def build() -> typer.Typer:
    """The app with every command of `COMMANDS`, in that order."""
    app = typer.Typer(
        name="lockstep",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # plain text: rich would cost a third of the start-up time
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(epilog=EPILOG)(_root)
    for command in COMMANDS:
        app.command(name=command.__name__)(command)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; prints a traceback only when asked to.

    A command returns its exit code, or None for 0.
    """
    try:
        code = build()(args=arguments, prog_name="lockstep", standalone_mode=False)
    except output.CommandError as failure:
        output.note(f"lockstep: {visible_line(failure.sentence)}")
        return failure.code
    except typer.TyperException as error:
        return _misused(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except ModuleNotFoundError as error:
        return _broken(error) if _ours(error) else _bare(error)
    except Exception as error:  # noqa: BLE001 - the edge: a traceback is a bug, so say so
        return _broken(error)
    return ExitCode.OK if code is None else int(code)


def _misused(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if context is None or not message.startswith("Usage:"):
        path = context.command_path if context else "lockstep"
        message = f"lockstep: {message}\nTry '{path} --help'."
    output.note(message)
    return ExitCode.USAGE


def _ours(error: ModuleNotFoundError) -> bool:
    packages = {"lockstep", "dashboard", "analyzer", "workloads", "collector"}
    return error.name is None or error.name.partition(".")[0] in packages


def _bare(error: ModuleNotFoundError) -> int:
    output.note(
        f"lockstep: {error.name} is not installed, and this command needs it;"
        " `pip install '.[collector,analyzer,dashboard,kubernetes,workloads]'` in the checkout"
        " brings all"
    )
    return ExitCode.UNREACHABLE


def _broken(error: Exception) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error, file=sys.stderr)
    what = f"{type(error).__name__}: {error}".partition("\n")[0]
    output.note(
        f"lockstep: {what}. This is a bug; `lockstep --debug COMMAND ...` shows the traceback."
    )
    return ExitCode.INTERNAL
