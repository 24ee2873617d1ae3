"""`lockstep cluster`: several runs of one cluster, and what they share that holds them back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose import diagnosis
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.analyzer.verdict.cluster import ClusterVerdict, RunView


def cluster(
    archives: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Archives of two or more runs.")
    ],
    topology: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="topology.toml: leaf, rack and storage of the nodes."),
    ] = None,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
) -> int:
    """Name the leaf, rack, storage or node that slows several runs at once.

    Exits 0 no two runs were slow together, 2 a shared part was named or each has a culprit of its
    own, 3 unknown.

    Example: lockstep cluster runs/a runs/b runs/c --topology topology.toml
    """
    from lockstep.analyzer.read.places import places_of, read
    from lockstep.analyzer.shapes.run import LoadError
    from lockstep.analyzer.verdict.cluster import cluster as conclude
    from lockstep.analyzer.verdict.cluster import cluster_json, comparable, run_view

    if len(archives) < 2:
        raise typer.BadParameter("give the archives of two runs or more")
    try:
        places = {} if topology is None else read(topology)
    except LoadError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    views, own = [], []
    for archive in archives:
        diagnosed = diagnosis.diagnose_archive(archive, topology=topology)
        views.append(run_view(diagnosed))
        own.append(places_of(diagnosed.run.meta))
    judged, _ = comparable(views)
    for seen, told in zip(views, own, strict=True):
        # What each archive says of its own nodes counts where no file says otherwise.
        places = {**told, **places} if seen in judged else places
    verdict = conclude(views, places)
    output.document(cluster_json(verdict), form, _table(verdict, views))
    return EXIT[verdict.status]


EXIT = {  # a culprit exits 2, as from `analyze`, also where each run has its own
    "quiet": ExitCode.OK,
    "separate": ExitCode.CULPRIT,
    "shared": ExitCode.CULPRIT,
    "unknown": ExitCode.UNKNOWN,
}


def _table(verdict: "ClusterVerdict", views: "list[RunView]") -> str:
    states = {
        **dict.fromkeys(verdict.healthy, "healthy then"),
        **dict.fromkeys(verdict.slow, "slow together"),
        **dict.fromkeys(verdict.unjudged, "unknown"),
    }
    rows = [
        (each.run, states.get(each.run, "slow at another time" if each.slow else "healthy"),
         str(len(each.nodes)), "; ".join(f"{c.who}: {c.cause}" for c in each.culprits) or "-")
        for each in views
    ]  # fmt: skip
    return "\n\n".join(
        (
            output.emphasis(verdict.sentence),
            output.grid(("run", "state", "nodes", "its own culprits"), rows),
        )
    )
