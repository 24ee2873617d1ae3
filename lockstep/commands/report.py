"""`lockstep report`: the post-mortem of a run as files."""

from pathlib import Path
from typing import Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose import diagnosis, newest
from lockstep.terminal import output


def report(
    archive: Annotated[
        Path, typer.Argument(metavar="DIR", help="Archive of the run, or folder of archives.")
    ],
    formats: Annotated[
        str, typer.Option("--format", help="Comma-separated, of html, md and json.")
    ] = ",".join(diagnosis.FORMATS),
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files; default: the archive.")
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Archive of a run to compare with; only differences."),
    ] = None,
    gpu_hour_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a GPU-hour, for the cost.")
    ] = None,
) -> None:
    """Write the post-mortem of a run: what happened, why, at what cost, what to do.

    In a folder of archives it takes the run that ended last. Prints the path of each file. Beside
    the report stands a timeline of the operations for ui.perfetto.dev. What people write into
    report.md, between its comments `human:begin` and `human:end`, stays when the report is made
    again, and is in the page.

    Example: lockstep report runs/gpt-20261120T101500-3f2a --format html
    """
    wanted = [each.strip() for each in formats.split(",")]
    for each in wanted:
        if each not in diagnosis.FORMATS:
            raise typer.BadParameter(f"{each!r} is not one of {', '.join(diagnosis.FORMATS)}")
    archive = newest.archive_in(archive, "report")
    diagnosed = diagnosis.diagnose_archive(archive, gpu_hour_price, history=True)
    compared = None if baseline is None else diagnosis.diagnose_archive(baseline)
    folder = archive if out is None else out
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = diagnosis.write_reports(diagnosed, folder, wanted, archive, compared)
    except OSError as error:
        output.fail(
            ExitCode.BAD_INPUT,
            f"the report cannot be written to {folder}: {error.strerror}; give --out DIR",
        )
    for path in paths:
        output.data(str(path))
