"""`lockstep nodes`: what watch found, on the nodes of a Kubernetes cluster."""

from pathlib import Path
from typing import Annotated

import typer

from lockstep.collector.contract.words import ExitCode


def nodes(
    watch: Annotated[
        str, typer.Option(metavar="URL", help="The page of lockstep watch.")
    ] = "http://127.0.0.1:9411",
    mode: Annotated[
        str,
        typer.Option(
            metavar="observe|annotate",
            help="observe writes nothing; annotate writes"
            " conditions and events, and never moves a pod.",
        ),
    ] = "observe",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write events that begin with [dry-run], no more.")
    ] = False,
    selector: Annotated[
        str, typer.Option(metavar="LABELS", help="Nodes to change instead of those with GPUs.")
    ] = "",
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Kubeconfig instead of this pod's account.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Namespace of the lease: who acts, and whether it is paused.")
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two cycles.")] = 10.0,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of the page; port 0 = any.")
    ] = "127.0.0.1:9413",
    announce: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write HOST:PORT there once it listens.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One cycle, and a table of nodes.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove what was written on nodes, and end.")
    ] = False,
) -> int:
    """Report degraded nodes to Kubernetes: conditions, an annotation, events.

    Writes lockstep.example/Healthy, a condition for each family of faults, an annotation with the
    faults, and events. Nothing is written while watch is away or old, more than half of the nodes
    seem degraded in the same way (the breaker), or a human pauses it; while more than a fifth of
    the nodes is silent, only that these are Unknown. Serves /metrics and /-/healthy until Ctrl-C
    (exit 130) or SIGTERM (0). With --once exits 0 where no node has a fault, 2 where one has, 3
    where something may not be written, 69 where watch or the cluster does not answer.

    Pause: kubectl -n lockstep annotate lease lockstep-nodes lockstep.example/pause=WHY

    Go on: kubectl -n lockstep annotate lease lockstep-nodes lockstep.example/pause-

    Reset: kubectl -n lockstep annotate --overwrite lease lockstep-nodes
    lockstep.example/breaker=reset

    The chart brings the lease; without it there is none before the first cycle of annotate. A
    --dry-run holds no lease, so no pause stops it: it writes events and nothing else, and ends when
    it is scaled to 0.

    --remove takes our conditions and our annotation off every node, or off those of --selector,
    also excluded ones, and deletes the lease unless a chart brought it. It needs no watch, and is
    refused (69) while a process acts; with --dry-run it says what it would do. Exits 0, or 69 with
    the nodes that refused.

    Example: lockstep nodes --watch http://lockstep-watch:9411 --mode annotate
    """
    from lockstep.terminal.output import fail
    from lockstep.watch.kubernetes import program, removing

    asked = program.Asked(
        watch=watch, mode=mode, dry_run=dry_run, kubeconfig=kubeconfig, context=context,
        selector=selector, namespace=namespace, interval=interval, listen=listen,
        announce=announce,
    )  # fmt: skip
    if remove and (once or mode != "observe"):
        fail(ExitCode.USAGE, "--remove goes neither with --once nor with --mode")
    if remove:
        return removing.remove(asked)
    return program.once(asked) if once else program.serve(asked)
