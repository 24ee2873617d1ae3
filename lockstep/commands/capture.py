"""`lockstep capture`: the raw outputs of this machine, without names, to be sent to others."""

from pathlib import Path
from typing import Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output
from lockstep.terminal.output import Format


def capture(
    share: Annotated[
        bool,
        typer.Option("--share", help="Write the bundle; else only print what it would hold."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Bundle; default lockstep-capture-<4 hex>.tar.gz."),
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Log of a training program; its end is taken."),
    ] = None,
    ras: Annotated[
        bool,
        typer.Option("--ras", help="Also query NCCL's RAS; some NCCL versions crash on that."),
    ] = False,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
) -> int:
    """Gather what our parsers read on this machine, so that you can send what they misread.

    Serial numbers, UUIDs, hosts, users, addresses and paths of homes are replaced alike everywhere,
    by a key that is thrown away; passwords, tokens and variables of the environment are left out.
    PCI addresses and counts stay. Look into the file before you send it.

    Example: lockstep capture --share --log train.log
    """
    import os
    import secrets
    from importlib.metadata import version

    from lockstep.collector.clock import SystemClock
    from lockstep.collector.config import ConfigError, load
    from lockstep.doctor import bundle
    from lockstep.doctor import pseudonyms as own_names
    from lockstep.doctor.parts import PARTS, Machine, gathered
    from lockstep.doctor.pseudonyms import Pseudonyms

    logs = tuple(log or ())
    for path in logs:
        if not path.is_file():
            output.fail(ExitCode.BAD_INPUT, f"--log {path} is no file; give the log of a program")
    target = out if out is not None else Path(f"lockstep-capture-{secrets.token_hex(2)}.tar.gz")
    if share and target.exists():
        output.fail(ExitCode.USAGE, f"--out {target} is there already; give another name")
    try:
        config = load(None, os.environ, {})
    except ConfigError as error:
        output.fail(ExitCode.USAGE, str(error))
    show, found = output.Progress(), []
    try:
        for part in gathered(Machine(config, SystemClock(), logs, ras), PARTS):
            show("gathering", part.name)
            found.append(part)
        show("replacing names")
        names = Pseudonyms(own_names.hosts(os.environ), own_names.users(os.environ))
        parts = bundle.anonymous(found, names)
    finally:
        show.close()
    about = bundle.manifest(parts, names.replaced, version("lockstep-monitor"))
    if share:
        try:
            bundle.write(target, parts, about)
        except OSError as error:
            output.fail(ExitCode.UNREACHABLE, f"{target} cannot be written: {error.strerror}")
    rows = [
        (
            part["name"],
            f"{part['files']} files, {part['lines']} lines" if part["files"] else "absent",
            part["absent"] or "; ".join(part["left_out"][:2]),
        )
        for part in about["parts"]
    ]
    replaced = ", ".join(f"{count} {kind}" for kind, count in about["replaced"].items())
    last = (
        f"bundle   {target}\nlook     tar xzf {target}\nread     lockstep doctor --raw {target}"
        if share
        else "bundle   not written; --share writes it"
    )
    table = output.grid(("part", "what", "why not, or what of it not"), rows)
    output.document(
        {**about, "bundle": str(target) if share else None}, form,
        f"{table}\n\nreplaced {replaced or 'nothing'}\n{last}",
    )  # fmt: skip
    return ExitCode.OK
