"""`lockstep doctor`: what is installed, reachable and missing here, with the fix for each."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
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
    raw: Annotated[
        Path | None,
        typer.Option(
            metavar="BUNDLE",
            help="In place of this machine: what every parser makes of what `lockstep capture"
            " --share` wrote, or of the folder that it was unpacked to.",
        ),
    ] = None,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
) -> int:
    """Say what this machine has, what it lacks, and how to mend it.

    Exits 1 when something required is missing, or a parser did not understand all of a bundle;
    what is absent only costs a feature.
    """
    if raw is not None:
        if clean:
            output.fail(ExitCode.USAGE, "--clean is for this machine, --raw for a bundle; give one")
        return _of_bundle(raw, form)
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


def _of_bundle(path: Path, form: Format) -> int:
    """What the parsers make of a bundle; 1 where one did not understand all."""
    from lockstep.raw import bundle
    from lockstep.raw.parsers import MOST_EXAMPLES, understood, unread

    try:
        whole = bundle.read(path)
        found = understood(whole)
    except bundle.BundleError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    except OSError as error:
        output.fail(ExitCode.BAD_INPUT, f"{path} cannot be read: {error.strerror}")
    tree = {
        "schema_version": 1,
        "parsers": [
            {
                "name": one.name,
                "lines": one.lines,
                "values": one.values,
                "not_understood": one.not_understood.total(),
                "examples": [words for words, _ in one.not_understood.most_common(MOST_EXAMPLES)],
                "not_used": dict(sorted(one.not_used.items())),
                "told": one.told,
            }
            for one in found
        ],
        "unread": unread(whole),
        "absent": whole.absent,
    }
    rows = [
        (one.name, str(one.lines), str(one.values), str(one.not_understood.total()))
        for one in found
    ]
    parts = [output.grid(("parser", "lines", "values", "not understood"), rows)]
    for one in found:
        parts += [f"{one.name}: {words}" for words in one.told]
        parts += [
            f"{one.name}: {count} x {words}"
            for words, count in one.not_understood.most_common(MOST_EXAMPLES)
        ]
        if one.not_used:
            parts.append(f"{one.name}: known, and not used: {', '.join(sorted(one.not_used))}")
    parts += [f"{part}: for people; no parser reads it" for part in unread(whole)]
    parts += [f"{part}: absent: {why}" for part, why in whole.absent.items()]
    output.document(tree, form, "\n".join(parts))
    return ExitCode.WARNING if any(one.not_understood for one in found) else ExitCode.OK


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
