"""`lockstep api`: runs, metrics, verdicts and findings over HTTP."""

from pathlib import Path
from typing import Annotated

import typer


def api(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of archives; runs are written there.")
    ] = Path("runs"),
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address; port 0 = any.")
    ] = "127.0.0.1:9412",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Token of requests; else one is made in DIR/.api."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM; with --tls-key.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM; with --tls-certificate.")
    ] = None,
    plain_http: Annotated[
        bool,
        typer.Option("--plain-http", help="Beyond this machine without TLS, behind a proxy."),
    ] = False,
    results: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Table of lockstep bench, beside those in the folder."),
    ] = None,
    announce: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write HOST:PORT there once it listens.")
    ] = None,
) -> int:
    """Serve runs, metrics, verdicts and findings; start, stop and delete runs.

    Serves until Ctrl-C (exit 130) or SIGTERM (0): then the current run closes its archive, and runs
    that wait are given up. Every request needs the token, as Authorization: Bearer TOKEN; it comes
    from --token-file, LOCKSTEP_API_TOKEN_FILE or LOCKSTEP_API_TOKEN, and is never logged.
    The Python client is lockstep.Client; /openapi.json describes every route.

    Example: lockstep api runs
    """
    from lockstep.bench.api import program

    return program.serve(
        program.Asked(
            folder,
            listen,
            token_file,
            tls_certificate,
            tls_key,
            plain_http,
            announce,
            tuple(results or ()),
        )
    )
