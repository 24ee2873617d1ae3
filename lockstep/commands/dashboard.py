"""`lockstep dashboard`: runs and the cluster in a browser."""

from pathlib import Path
from typing import Annotated

import typer


def dashboard(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Archive of a run, or folder of archives."),
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(metavar="URL", help="Prometheus with the collectors.")
    ] = None,
    findings: Annotated[
        Path | None, typer.Option(metavar="DIR", help="What `lockstep watch --out` writes.")
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of the dashboard; port 0 = any.")
    ] = "127.0.0.1:8501",
    runs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Pages may start runs, and write them there."),
    ] = None,
    api: Annotated[
        str, typer.Option(metavar="URL", help="lockstep api that starts, stops and deletes runs.")
    ] = "",
    grafana: Annotated[
        str, typer.Option(metavar="URL", help="Address of Grafana; default LOCKSTEP_GRAFANA_URL.")
    ] = "",
    login: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Streamlit's secrets.toml with [auth], for OpenID."),
    ] = None,
    alertmanager: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Alertmanager to acknowledge and silence findings in; with --login."
        ),
    ] = "",
    announce: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write HOST:PORT there once it answers.")
    ] = None,
) -> int:
    """Show runs and the cluster in a browser, until Ctrl-C (exit 130) or SIGTERM (0).

    It shows all archives of a folder, and says which run ended last. Without a source it shows the
    folder runs, if it exists. Credentials of Prometheus come from
    LOCKSTEP_PROMETHEUS_TOKEN or _USER and _PASSWORD, those of Alertmanager from the same with
    ALERTMANAGER in the name. Everybody who reaches the address can read,
    unless --login is given; without it, runs can be started on this machine's loopback only.

    Example: lockstep dashboard runs
    """
    from lockstep.cli import dashboard as program

    asked = program.Asked(
        folder=folder, prometheus=prometheus, findings=findings,
        listen=listen, runs=runs, grafana=grafana, login=login, announce=announce,
        alertmanager=alertmanager, api=api,
    )  # fmt: skip
    return program.serve(asked)
