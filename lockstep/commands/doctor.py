"""`lockstep doctor`: what is installed, reachable and missing here, with the fix for each."""

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
        bool, typer.Option("--clean", help="Remove rings and cgroups that dead runs left.")
    ] = False,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
) -> int:
    """Say what this machine has, what it lacks, and how to mend it.

    Exits 1 when something required is missing; what is absent only costs a feature.
    """
    from lockstep import leftovers, machine

    checks = machine.examine()
    left = leftovers.find()
    cleaned = [each for each in left if clean and _removed(each)]
    kept = [each for each in left if each not in cleaned]
    tree = {
        "schema_version": 1,
        "checks": [asdict(check) for check in checks],
        "leftovers": [each.run for each in kept],
        "cleaned": [each.run for each in cleaned],
    }
    rows = [(check.state.value, check.name, check.found, check.fix) for check in checks]
    parts = [output.grid(("", "what", "found", "fix"), rows)]
    parts += [f"{each.run}: dead, its traces remain; `lockstep doctor --clean`" for each in kept]
    parts += [f"{each.run}: dead, its traces were removed" for each in cleaned]
    output.document(tree, form, "\n".join(parts))
    missing = any(check.state is machine.State.MISSING for check in checks)
    return ExitCode.WARNING if missing else ExitCode.OK


def _removed(leftover: "Leftover") -> bool:
    from lockstep.leftovers import clean

    try:
        clean(leftover)
    except OSError as error:
        output.note(f"lockstep: {leftover.run} was not removed: {error}")
        return False
    return True
