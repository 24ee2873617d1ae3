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


class Device(StrEnum):
    """What ranks compute on."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


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
    model: Annotated[
        str, typer.Option(help="tiny, tiny-llama, small, demo, gpt3-125m … llama3.1-405b.")
    ] = "tiny",
    data: Annotated[
        str, typer.Option(help="markov, copy, or the path of .bin and .idx files without it.")
    ] = "markov",
    vocabulary: Annotated[
        int | None, typer.Option(help="Another vocabulary than the model's.")
    ] = None,
    sequence: Annotated[
        int | None, typer.Option(help="Another sequence length than the model's.")
    ] = None,
    micro_batch: Annotated[int, typer.Option(help="Sequences in a micro-batch.")] = 2,
    micro_batches: Annotated[
        int, typer.Option(help="Micro-batches of a replica in a step; 0 = as few as it needs.")
    ] = 0,
    virtual_stages: Annotated[
        int, typer.Option(help="Stages on each pipeline rank; 2 or more interleave.")
    ] = 1,
    sequence_parallel: Annotated[
        bool, typer.Option("--sequence-parallel", help="Split norms along the sequence, too.")
    ] = False,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Make activations again instead of keeping them.")
    ] = False,
    sharded_optimizer: Annotated[
        bool, typer.Option("--sharded-optimizer", help="Divide AdamW's state over the replicas.")
    ] = False,
    learning_rate: Annotated[float, typer.Option(help="After the warm-up.")] = 6e-3,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints; 0 = none.")] = 0,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on from a checkpoint, in any layout.")
    ] = None,
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
    device: Annotated[
        Device, typer.Option(help="Where ranks compute; auto = on GPUs if each rank has one.")
    ] = Device.AUTO,
    pace: Annotated[
        Pace | None,
        typer.Option(help="Emulated devices, by default on CPU; off = as fast as it goes."),
    ] = None,
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
    from workloads.spec import Training

    training = Training(
        model=model, data=data, vocabulary=vocabulary, sequence=sequence, micro_batch=micro_batch,
        micro_batches=micro_batches, virtual_stages=virtual_stages,
        sequence_parallel=sequence_parallel, recompute=recompute,
        sharded_optimizer=sharded_optimizer, learning_rate=learning_rate,
        checkpoint_every=checkpoint_every, resume=None if resume is None else str(resume),
    )  # fmt: skip
    spec = plan(
        workload, nodes=nodes, ranks_per_node=ranks_per_node, dp=dp, tp=tp, pp=pp, steps=steps,
        seed=seed, faults=fault or [], training=training, launcher=launcher,
        device=device, pace=None if pace is None else pace is Pace.ON,
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
