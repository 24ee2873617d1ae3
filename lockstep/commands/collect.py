"""`lockstep collect`: this node's exporter in the foreground, with every flag of the collector."""

from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from lockstep.collector.flags import FLAGS, Flag


def collect(**given: Any) -> int:
    """Serve what this node knows as a Prometheus page, until Ctrl-C (exit 130) or SIGTERM (0).

    Settings: flags over LOCKSTEP_<SECTION>_<KEY> over the configuration file.

    Example: lockstep collect --listen 127.0.0.1:9410
    """
    from lockstep.collector.__main__ import main

    arguments = []
    for flag in FLAGS:
        value = given[flag.name]
        if value is not None:
            arguments.append(f"{flag.option}={value}" if flag.metavar else flag.option)
    return main(arguments)


def _kind(flag: Flag) -> Any:
    if flag.metavar:
        option = typer.Option(flag.option, metavar=flag.metavar, help=flag.help, show_default=False)
        return Annotated[str | None, option]
    return Annotated[bool | None, typer.Option(flag.option, help=flag.help, show_default=False)]


collect.__annotations__ = {flag.name: _kind(flag) for flag in FLAGS} | {"return": int}
collect.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        Parameter(flag.name, Parameter.KEYWORD_ONLY, default=None, annotation=_kind(flag))
        for flag in FLAGS
    ],
    return_annotation=int,
)
