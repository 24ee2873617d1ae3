"""`lockstep rules`: recording rules and alerts for Prometheus, Thanos or Mimir."""

import os
from pathlib import Path
from typing import Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output


def rules(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the alerts too: all rule files, into this folder."),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Write nothing; check whether this file, or each file of this folder, is up to"
            " date.",
        ),
    ] = None,
) -> int:
    """Print recording rules that compare ranks with their peers inside Prometheus.

    With them `lockstep analyze --prometheus` need not read every rank of a large run. With --out,
    write them and the alerts as rule files, and both as PrometheusRule objects. Alerts point to
    LOCKSTEP_RUNBOOKS_URL, LOCKSTEP_DASHBOARD_URL and LOCKSTEP_GRAFANA_URL; --check compares with
    the same.

    Example: lockstep rules --out /etc/prometheus/rules
    """
    from lockstep.cli import rule_files
    from lockstep.watch.serve.pages import addresses

    if out is not None and check is not None:
        output.fail(ExitCode.USAGE, "--out and --check exclude each other")
    if check is not None:
        return _check(check)
    if out is None:
        output.data(rule_files.rule_files()["lockstep-peers.rules.yml"].removesuffix("\n"))
        return ExitCode.OK
    try:
        rule_files.write(out, addresses(os.environ))
    except OSError as error:
        output.fail(ExitCode.BAD_INPUT, f"{out} cannot be written: {error.strerror}")
    return ExitCode.OK


def _check(path: Path) -> int:
    from lockstep.cli import rule_files
    from lockstep.watch.serve.pages import addresses

    where = addresses(os.environ)
    try:
        if path.is_dir():
            stale = [str(path / name) for name in rule_files.stale_files(path, where)]
        else:
            same = path.read_text(encoding="utf-8") in rule_files.rule_files(where).values()
            stale = [] if same else [str(path)]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        output.fail(ExitCode.BAD_INPUT, f"{path} cannot be read: {reason}")
    if stale:
        renew = "`lockstep rules --out DIR`" if path.is_dir() else "`lockstep rules`"
        output.fail(
            ExitCode.BAD_INPUT,
            f"{', '.join(stale)} is not what this version generates; renew it with {renew}",
        )
    return ExitCode.OK
