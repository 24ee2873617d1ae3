"""`lockstep doctor`: what is installed, reachable and missing here, with the fix for each."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from collector.contract.words import ExitCode
from lockstep import output
from lockstep.output import Format

if TYPE_CHECKING:
    from lockstep.leftovers import Leftover


def doctor(
    clean: Annotated[
        bool,
        typer.Option(
            "--clean", help="Remove rings, cgroups and network namespaces that dead runs left."
        ),
    ] = False,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
) -> int:
    """Say what this machine has, what it lacks, and how to mend it.

    Exits 1 when something required is missing; what is absent only costs a feature.
    """
    from lockstep import leftovers, machine

    checks, sources = machine.examine()
    left = leftovers.find()
    cleaned = [each for each in left if clean and _removed(each)]
    kept = [each for each in left if each not in cleaned]
    tree = {
        "schema_version": 1,
        "checks": [asdict(check) for check in checks],
        "sources": [asdict(source) for source in sources],
        "leftovers": [each.run for each in kept],
        "cleaned": [each.run for each in cleaned],
    }
    parts = [
        _table(("", "what", "found, and what would mend it"), [
            (check.state.value, check.name, f"{check.found}; {check.fix}".removesuffix("; "))
            for check in checks
        ]),
        _table(("", "source", "what it sees, or why not"), [
            (source.state, source.name, source.found) for source in sources
        ]),
    ]  # fmt: skip
    parts += [f"{each.run}: dead, its traces remain; `lockstep doctor --clean`" for each in kept]
    parts += [f"{each.run}: dead, its traces were removed" for each in cleaned]
    output.document(tree, form, "\n".join(filter(None, parts)))
    missing = any(check.state is machine.State.MISSING for check in checks)
    return ExitCode.WARNING if missing else ExitCode.OK


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A line each, cut to the width of a terminal; `-o json` has everything."""
    text = output.grid(header, rows) if rows else ""
    if not output.is_terminal(sys.stdout):
        return text
    width = shutil.get_terminal_size().columns
    lines = text.splitlines()
    return "\n".join(line if len(line) <= width else f"{line[: width - 1]}…" for line in lines)


def _removed(leftover: "Leftover") -> bool:
    from lockstep.leftovers import clean

    try:
        clean(leftover)
    except OSError as error:
        output.note(f"lockstep: {leftover.run} was not removed: {error}")
        return False
    return True
