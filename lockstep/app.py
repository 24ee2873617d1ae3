"""The command line: one Typer app over the commands, and what happens when one fails."""

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from lockstep.cli import command_line, completion
from lockstep.cli.command_line import SETTINGS, Command, Group
from lockstep.collector.contract.visible import visible_line
from lockstep.collector.contract.words import ExitCode
from lockstep.commands import (
    analyze,
    api,
    capture,
    cluster,
    collect,
    dashboard,
    demo,
    doctor,
    dump,
    fit,
    hang,
    ledger,
    nodes,
    report,
    rules,
    run,
    score,
    top,
    watch,
)
from lockstep.commands.bench import group as bench
from lockstep.terminal import interrupts, output

DISTRIBUTION = "lockstep-monitor"
DEBUG_VARIABLE = output.DEBUG_VARIABLE

EPILOG = """
Exit codes: 0 healthy or done; 1 warning; 2 a culprit was named; 3 unknown or too little data;
64 usage; 65 bad input file; 69 source unreachable; 70 internal; 130 interrupted.
1 to 3 come from `analyze`, `cluster`, `bench compare`, and `watch` and `nodes` with --once (and 1
from `doctor`).
Data goes to stdout, progress to stderr.

Start with: lockstep demo
"""

COMMANDS: tuple[Callable[..., int | None], ...] = (
    demo.demo,
    run.run,
    collect.collect,
    analyze.analyze,
    cluster.cluster,
    report.report,
    ledger.ledger,
    dashboard.dashboard,
    top.top,
    watch.watch,
    api.api,
    nodes.nodes,
    score.score,
    fit.fit,
    dump.dump,
    hang.hang,
    rules.rules,
    doctor.doctor,
    capture.capture,
)
"""Every command, in the order of `--help`; the name of its function is the name of the command."""
GROUPS: dict[str, tuple[str, tuple[Callable[..., int | None], ...]]] = {
    "bench": (bench.HELP, bench.COMMANDS),
}
"""Commands of several words: the first -> what it is for, and the functions of the second."""


def _show_version(asked: bool) -> None:
    if asked:
        output.data(f"lockstep {version(DISTRIBUTION)}")
        raise typer.Exit


def _root(
    context: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar=DEBUG_VARIABLE, help="Show tracebacks.")
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            callback=completion.install,
            is_eager=True,
            help="Let this shell complete commands and options: bash, zsh or fish.",
        ),
    ] = False,
    show_completion: Annotated[
        bool,
        typer.Option(
            "--show-completion",
            callback=completion.show,
            is_eager=True,
            help="Print the script for that instead.",
        ),
    ] = False,
) -> None:
    """Finds the node that holds a distributed training run back, says why, and what it costs."""
    # Through the environment, so that the processes a command starts show theirs as well.
    os.environ.pop(DEBUG_VARIABLE, None)
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
    if context.invoked_subcommand is None:
        # Plain: stderr, where it goes, may be no terminal where stdout is one.
        output.note(typer.core.TyperGroup.get_help(context.command, context))
        raise typer.Exit(ExitCode.USAGE)


def build() -> typer.Typer:
    """The app with every command of `COMMANDS`, in that order."""
    app = typer.Typer(
        name="lockstep",
        cls=Group,
        invoke_without_command=True,
        add_completion=False,  # completion.py
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=SETTINGS,
    )
    app.callback(epilog=EPILOG)(_root)
    for command in COMMANDS:
        app.command(name=command.__name__, cls=Command, context_settings=SETTINGS)(command)
    for name, (text, commands) in GROUPS.items():
        group = typer.Typer(cls=Group, rich_markup_mode=None, context_settings=SETTINGS)
        for command in commands:
            word = command.__name__.removesuffix("_").replace("_", "-")
            group.command(name=word, cls=Command, context_settings=SETTINGS)(command)
        app.add_typer(group, name=name, help=text, cls=Group)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; prints a traceback only when asked to.

    A command returns its exit code, or None for 0.
    """
    output.speak_plainly()
    completion.prepare(os.environ)
    with interrupts.remembered() as interrupted:
        try:
            code = build()(args=arguments, prog_name="lockstep", standalone_mode=False)
        except output.CommandError as failure:
            output.note(f"lockstep: {visible_line(failure.sentence)}")
            return failure.code
        except typer.TyperException as error:
            output.note(f"lockstep: {visible_line(command_line.sentence(error))}")
            return ExitCode.USAGE
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
        except SystemExit as stop:
            broken = stop.__context__  # typer takes each for a reader of stdout that went away
            if not isinstance(broken, BrokenPipeError):
                raise
            if interrupted():
                return ExitCode.INTERRUPTED
            if not output.reader_left():  # it was some other pipe or socket
                return _broken(broken)
            output.forget_stdout()
            return ExitCode.OK
        except Exception as error:  # noqa: BLE001 - the edge: a traceback is a bug, so say so
            if interrupted():
                return ExitCode.INTERRUPTED
            if isinstance(error, ModuleNotFoundError) and not _ours(error):
                return _bare(error)
            return _broken(error)
        return ExitCode.OK if code is None else int(code)


def _ours(error: ModuleNotFoundError) -> bool:
    return error.name is None or error.name.partition(".")[0] == "lockstep"


def _bare(error: ModuleNotFoundError) -> int:
    output.note(
        f"lockstep: {error.name} is not installed, and this command needs it;"
        " `pip install '.[collector,analyzer,dashboard,kubernetes,workloads]'` in the checkout"
        " brings all"
    )
    return ExitCode.UNREACHABLE


def _broken(error: Exception) -> int:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        output.forget_stdout()  # it may be what is full
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exception(error, file=sys.stderr)
        output.note(f"lockstep: {error.filename or 'stdout'} cannot be written: {error.strerror}")
        return ExitCode.UNREACHABLE
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error, file=sys.stderr)
    what = f"{type(error).__name__}: {error}".partition("\n")[0]
    output.note(
        f"lockstep: {what}. This is a bug; `lockstep --debug COMMAND ...` shows the traceback."
    )
    return ExitCode.INTERNAL
