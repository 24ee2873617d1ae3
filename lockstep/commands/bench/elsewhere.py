"""`lockstep bench workflow` and `measure`: a benchmark that a cluster runs."""

from pathlib import Path
from typing import Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.commands.bench.asked import SpecFile, planned
from lockstep.terminal import output


def workflow(
    spec: SpecFile,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Of its steps; default that of the runs."),
    ] = None,
) -> None:
    """Print a benchmark on a cluster as one Argo Workflow, a step a cell, for `kubectl create`.

    Argo runs it from there on, with nobody's terminal. Results lie on the claim, in
    benches/<name>; created again, it goes on with the cells that have not finished.

    Example: lockstep bench workflow nightly.toml | kubectl create -f -
    """
    import json

    from lockstep.bench.spec import BenchError
    from lockstep.bench.workflow import workflow as made
    from lockstep.runs.cluster_options import DEFAULT_CLAIM, DEFAULT_NAMESPACE

    bench, cells = planned(spec)
    told = bench.options
    try:
        chosen = image or cells[0].image or str(told.get("image", ""))
        tree = made(bench, cells, spec.read_text(), chosen,
                    str(told.get("namespace", DEFAULT_NAMESPACE)),
                    str(told.get("claim", DEFAULT_CLAIM)))  # fmt: skip
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    output.data(json.dumps(tree, indent=2))


def measure(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="Of a run.")],
) -> None:
    """Print how fast a run was and what was found, as a line of JSON: a row of results.

    On a cluster a pod beside the archive says so, and `bench run` keeps it.

    Example: lockstep bench measure runs/gpt-1
    """
    from lockstep.bench.measure import line
    from lockstep.bench.spec import BenchError

    try:
        output.data(line(archive))
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
