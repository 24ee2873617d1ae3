"""`lockstep hang`: who holds a run up that stands still, by the dumps of its ranks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.analyzer.hangs.verdict import HangVerdict


def hang(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Dumps of PyTorch's flight recorder, names ending in the rank."
        ),
    ],
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, help="Wait that is a hang; default 30, or thrice the longest."
        ),
    ] = None,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as -o json.")] = False,
) -> int:
    """Name the ranks that a stalled run waits for, and how they stopped.

    Reads the dumps of all ranks, of all nodes, as pickles or JSON; code in a pickle is never
    executed. Keep the files' times (cp -p, tar): they show for how long ranks have waited.
    evidence.json beside them may report process states, stacks, XIDs and more.

    Exits 0 no hang, 1 a hang that names no rank, 2 ranks were named, 3 unknown or too little data.

    Example: lockstep hang dumps/
    """
    from lockstep.analyzer.hangs.document import document, table
    from lockstep.analyzer.hangs.verdict import judge
    from lockstep.runs.hang_dumps import NoDumpsError, read_folder

    try:
        found = read_folder(folder)
    except NoDumpsError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    except OSError as error:
        output.fail(ExitCode.BAD_INPUT, f"{folder} cannot be read: {error.strerror}")
    verdicts = [(name if len(found) > 1 else "", judge(dumps, limit)) for name, dumps in found]
    newest, *others = [document(verdict, name) for name, verdict in verdicts]
    text = "\n\n".join(table(verdict, name) for name, verdict in verdicts)
    output.document({**newest, "other_jobs": others}, Format.JSON if as_json else form, text)
    return exit_code(verdicts[0][1])


def exit_code(verdict: "HangVerdict") -> int:
    """Of the newest job."""
    from lockstep.analyzer.hangs.verdict import Status

    match verdict.status:
        case Status.HANG:
            return ExitCode.CULPRIT if verdict.origins else ExitCode.WARNING
        case Status.UNKNOWN:
            return ExitCode.UNKNOWN
        case Status.HEALTHY | Status.WAITING:
            return ExitCode.OK
