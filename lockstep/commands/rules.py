"""`lockstep rules`: peer statistics as recording rules of Prometheus, Thanos or Mimir."""

from pathlib import Path
from typing import Annotated

import typer

from collector.contract.words import ExitCode
from lockstep import output


def rules(
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead say whether FILE is what would be printed."),
    ] = None,
) -> int:
    """Print recording rules that compare ranks with their peers inside Prometheus.

    With them `lockstep analyze --prometheus` need not read every rank of a large run.

    Example: lockstep rules > /etc/prometheus/rules/lockstep-peers.rules.yml
    """
    from analyzer.pushdown.rules import rules as generated

    if check is None:
        output.data(generated().removesuffix("\n"))
        return ExitCode.OK
    try:
        same = check.read_text(encoding="utf-8") == generated()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        output.fail(ExitCode.BAD_INPUT, f"{check} cannot be read: {reason}")
    if not same:
        output.fail(
            ExitCode.BAD_INPUT,
            f"{check} is not what this version generates; renew it with `lockstep rules`",
        )
    return ExitCode.OK
