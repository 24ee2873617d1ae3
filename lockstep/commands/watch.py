"""`lockstep watch`: every run of a Prometheus, all the time."""

from pathlib import Path
from typing import Annotated

import typer


def watch(
    prometheus: Annotated[str, typer.Option(metavar="URL", help="Prometheus with the collectors.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the archives of findings.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for what outlives restarts.")
    ] = None,
    alertmanager: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Receives every finding; repeat it for each replica."),
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two cycles.")] = 15.0,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of the page; port 0 = any.")
    ] = "127.0.0.1:9411",
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Archive, or file of `bench lock`, whose throughput runs are compared with.",
        ),
    ] = None,
    false_alarms: Annotated[
        float, typer.Option(help="False alarms that a node may give in a month.")
    ] = 0.01,
    announce: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write HOST:PORT there once it listens.")
    ] = None,
    webhook_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Bearer token that POST /alertmanager asks for; else one is made in --state.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One cycle, and its exit code.")] = False,
) -> int:
    """Watch every live run: findings open and close, on a page, in archives, to Alertmanager.

    Serves /metrics, /healthz, /runbooks/, /findings/ and POST /alertmanager until Ctrl-C (exit 130)
    or SIGTERM (0); with LOCKSTEP_API_TOKEN_FILE or LOCKSTEP_API_TOKEN also /api/v1/, read only.
    With --once exits as analyze does, 69 where Prometheus does not answer. Credentials come from
    LOCKSTEP_PROMETHEUS_TOKEN or _USER and _PASSWORD; those of Alertmanager, and of collectors for
    the operations of a finding, from the same with ALERTMANAGER and COLLECTOR in the name.
    Alerts point to LOCKSTEP_DASHBOARD_URL, LOCKSTEP_GRAFANA_URL, LOCKSTEP_PROMETHEUS_URL, and for
    runbooks and reports to LOCKSTEP_WATCH_URL (default: where it listens) or
    LOCKSTEP_RUNBOOKS_URL.

    Example: lockstep watch --prometheus http://localhost:9090 --out findings --state state
    """
    from lockstep.watch import program

    if once and alertmanager:
        raise typer.BadParameter("--alertmanager goes without --once: findings are sent for as long"
                                 " as they are open")  # fmt: skip
    asked = program.Asked(
        prometheus=prometheus, out=out, state=state, interval=interval, listen=listen,
        baselines=tuple(baseline or ()), false_alarms=false_alarms, announce=announce,
        alertmanagers=tuple(alertmanager or ()), webhook_token=webhook_token_file,
    )  # fmt: skip
    return program.once(asked) if once else program.serve(asked)
