"""`lockstep collect`: this node's exporter in the foreground."""

from pathlib import Path
from typing import Annotated

import typer


def collect(
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where to serve.")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings (TOML), below flags in strength.")
    ] = None,
) -> int:
    """Serve what this node knows as a Prometheus page until stopped.

    Example: lockstep collect --listen 127.0.0.1:9410
    """
    from collector.__main__ import main

    arguments = [] if listen is None else ["--listen", listen]
    if config is not None:
        arguments += ["--config", str(config)]
    return main(arguments)
