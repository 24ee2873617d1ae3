"""`lockstep run`: a reference workload under observation."""

import secrets
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collector.contract.words import ExitCode
from lockstep import output
from lockstep.output import Format, fail

if TYPE_CHECKING:
    from workloads.launchers import Outcome
    from workloads.spec import RunSpec


class Pace(StrEnum):
    """Whether devices are emulated."""

    ON = "on"
    OFF = "off"


def run(
    workload: Annotated[str, typer.Argument(help="gpt")],
    nodes: Annotated[int, typer.Option(help="Emulated nodes.")] = 4,
    ranks_per_node: Annotated[int, typer.Option(help="Ranks on each node.")] = 1,
    dp: Annotated[int | None, typer.Option(help="Data-parallel size; default all ranks.")] = None,
    tp: Annotated[int, typer.Option(help="Tensor-parallel size.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 1,
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 250,
    seed: Annotated[int, typer.Option(help="Seed of weights, data and noise.")] = 0,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="KIND:rank=R|node=N[,factor=F][,from=STEP][,to=STEP], or random@SEED.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Archive; default runs/<run>.")
    ] = None,
    launcher: Annotated[str, typer.Option(help="local")] = "local",
    pace: Annotated[Pace, typer.Option(help="Emulated devices; off = as fast as it goes.")] = (
        Pace.ON
    ),
    device_noise: Annotated[
        float, typer.Option(help="Spread of an emulated device's time per step, as a ratio.")
    ] = 0.02,
    hang_timeout: Annotated[
        float, typer.Option(help="Seconds without a step after which the run is ended.")
    ] = 10.0,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
) -> int:
    """Run a workload of real processes under observation, and leave an archive.

    Exits 0 also when an injected fault ended the run, 70 when a rank failed by itself.

    Example: lockstep run gpt --fault thermal:rank=2,factor=1.5
    """
    from lockstep.observe import watched
    from lockstep.planning import plan

    spec = plan(
        workload, nodes=nodes, ranks_per_node=ranks_per_node, dp=dp, tp=tp, pp=pp, steps=steps,
        seed=seed, faults=fault or [], launcher=launcher, pace=pace is Pace.ON,
        device_noise=device_noise, hang_timeout=hang_timeout, token=secrets.token_hex(2),
    )  # fmt: skip
    archive = out if out is not None else Path("runs") / spec.run
    show = output.Progress()
    try:
        outcome = watched(spec, archive, show)
    finally:
        show.close()
    answer = {
        "run": spec.run,
        "archive": str(archive),
        "ending": outcome.ending,
        "ranks": list(outcome.ranks),
        "reason": outcome.reason,
    }
    text = "\n".join(f"{name:8}{value}" for name, value in answer.items() if value not in ([], ""))
    output.document(answer, form, text)
    return exit_code(spec, outcome, archive)


def exit_code(spec: "RunSpec", outcome: "Outcome", archive: Path) -> int:
    """0 if the run ended as its faults said it would."""
    from workloads.launchers import Ending, as_injected

    if outcome.ending is Ending.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if not as_injected(spec, outcome):
        places = [f"rank {rank} on {spec.layout.node(rank)}" for rank in outcome.ranks]
        fail(
            ExitCode.INTERNAL,
            f"{' and '.join(places) or 'a rank'} failed, and no fault asked for it:"
            f" {outcome.reason}; see {archive / 'logs'}",
        )
    return ExitCode.OK
