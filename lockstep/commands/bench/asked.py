"""What several commands of `lockstep bench` are asked alike."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.bench.plan import Cell
    from lockstep.bench.spec import Bench

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The benchmark, as TOML.")]
As = Annotated[Format, typer.Option("--output", "-o", help="How to print.")]


def planned(spec: Path) -> "tuple[Bench, tuple[Cell, ...]]":
    """A benchmark's file, and its cells.

    Raises:
        CommandError: 65, it cannot be run.
    """
    from lockstep.bench.plan import cells
    from lockstep.bench.spec import BenchError, read

    try:
        bench = read(spec)
        return bench, cells(bench)
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
