"""Completion of commands and options by the user's shell: bash, zsh and fish.

typer makes the scripts (https://typer.tiangolo.com/tutorial/options-autocompletion); which shell
it is, what goes wrong, and how that is told, is here.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output

VARIABLE = "_LOCKSTEP_COMPLETE"
"""Set by the script when it asks what a word may become."""
SHELLS = ("bash", "zsh", "fish")


def prepare(environment: Mapping[str, str]) -> None:
    """Let typer answer a script, where one asks: it ends the process itself."""
    if VARIABLE in environment:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def show(asked: bool) -> None:
    """Print the script of this shell.

    Raises:
        CommandError: 64, it is none of SHELLS.
        typer.Exit: Always else.
    """
    if asked:
        from typer.completion import get_completion_script  # type: ignore[attr-defined]

        script = get_completion_script(
            prog_name="lockstep", complete_var=VARIABLE, shell=_shell("--show-completion")
        )
        output.data(script)
        raise typer.Exit


def install(asked: bool) -> None:
    """Write the script where this shell looks for it.

    Raises:
        CommandError: 64, it is none of SHELLS; 69, its files cannot be written.
        typer.Exit: Always else.
    """
    if asked:
        from typer.completion import install  # type: ignore[attr-defined]

        try:
            shell, path = install(
                _shell("--install-completion"), prog_name="lockstep", complete_var=VARIABLE
            )
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
            output.fail(ExitCode.UNREACHABLE, f"the completion cannot be installed: {error}")
        output.note(f"{path} is written; {shell} completes lockstep from its next start")
        raise typer.Exit


def _shell(option: str) -> str:
    """The shell that called us, or else that of the user."""
    import shellingham  # type: ignore[import-untyped]

    try:
        name = str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        output.fail(
            ExitCode.USAGE,
            f"{option} knows {', '.join(SHELLS)}, and this is {name or 'no shell'}; run it from"
            f" one, as bash -c 'lockstep {option}'",
        )
    return name
