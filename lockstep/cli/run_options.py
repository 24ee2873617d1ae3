"""The options of `lockstep run`, by subject; those for a cluster are in cluster_options.py."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from lockstep.cli.option_groups import Options


class Device(StrEnum):
    """What ranks compute on."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Pace(StrEnum):
    """Whether devices are emulated."""

    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class SizeOptions:
    """How many ranks, how they are split, how long, and from which seed."""

    PANEL: ClassVar = "Ranks and steps"

    nodes: Annotated[int, typer.Option(help="Emulated nodes.")] = 4
    ranks_per_node: Annotated[int, typer.Option(help="Ranks on each node.")] = 1
    dp: Annotated[int | None, typer.Option(help="Data-parallel size; default all ranks.")] = None
    tp: Annotated[int, typer.Option(help="Tensor-parallel size.")] = 1
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 1
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 250
    seed: Annotated[int, typer.Option(help="Seed of weights, data and noise.")] = 0


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """A command of the user's instead of a workload of ours."""

    PANEL: ClassVar = "A command of yours"

    program: Annotated[
        bool,
        typer.Option("--exec", help="Run a command of yours, given after --, once a rank."),
    ] = False
    step_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help=r"Steps in the log of --exec, as 'step (?P<step>\d+)'."),
    ] = None


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What is trained, in which pieces: fields of `workloads.spec.Training`; None = the task's."""

    PANEL: ClassVar = "Model and data"

    model: Annotated[
        str | None,
        typer.Option(
            help="gpt: tiny, tiny-llama, small, deep, demo, gpt3-125m … llama3.1-405b;"
            " resnet: resnet20, 32, 44, 56, 50."
        ),
    ] = None
    data: Annotated[
        str | None,
        typer.Option(
            help="gpt: markov, copy, or the path of .bin and .idx files without it;"
            " resnet, logreg: synthetic, or a path."
        ),
    ] = None
    vocabulary: Annotated[int | None, typer.Option(help="Another vocabulary than the model's.")] = (
        None
    )
    sequence: Annotated[
        int | None, typer.Option(help="Another sequence length than the model's.")
    ] = None
    micro_batch: Annotated[
        int | None, typer.Option(help="Samples in a micro-batch: of a rank and step, without gpt.")
    ] = None
    micro_batches: Annotated[
        int | None,
        typer.Option(help="Micro-batches of a replica in a step; 0 = as few as it needs."),
    ] = None
    virtual_stages: Annotated[
        int | None, typer.Option(help="Stages on each pipeline rank; 2 or more interleave.")
    ] = None
    sequence_parallel: Annotated[
        bool | None,
        typer.Option("--sequence-parallel", help="Split norms along the sequence, too."),
    ] = None
    recompute: Annotated[
        bool | None,
        typer.Option("--recompute", help="Make activations again instead of keeping them."),
    ] = None
    sharded_optimizer: Annotated[
        bool | None,
        typer.Option("--sharded-optimizer", help="Divide AdamW's state over the replicas."),
    ] = None
    learning_rate: Annotated[float | None, typer.Option(help="After the warm-up.")] = None


@dataclass(frozen=True, slots=True)
class GoalOptions:
    """Evaluations, goals and checkpoints: fields of `workloads.spec.Training`, likewise."""

    PANEL: ClassVar = "Goals and checkpoints"

    eval_every: Annotated[int | None, typer.Option(help="Steps between evaluations; 0 = none.")] = (
        None
    )
    goal: Annotated[
        str | None,
        typer.Option(metavar="GOAL", help="full, light (MLBench's), or METRIC>=VALUE."),
    ] = None
    stop_at_goal: Annotated[
        bool | None, typer.Option("--stop-at-goal", help="End the run once the goal is reached.")
    ] = None
    time_budget: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End the run after it, with an evaluation."),
    ] = None
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Steps between checkpoints; 0 = none.")
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Go on from a checkpoint, in any layout; on a cluster /runs/RUN/checkpoints, and"
            " with --kind job one of them: /runs/RUN/checkpoints/step-N.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class AllReduceOptions:
    """The all-reduce workload: fields of `lockstep.workloads.spec.Training`, likewise."""

    PANEL: ClassVar = "All-reduces"

    sizes: Annotated[
        str | None,
        typer.Option(metavar="MIN:MAX:COUNT", help="Bytes of the all-reduces, as 1K:1M:6."),
    ] = None
    repetitions: Annotated[
        int | None, typer.Option(help="Timed all-reduces of a size in a step.")
    ] = None
    dtype: Annotated[str | None, typer.Option(help="float32, float16 or bfloat16.")] = None
    probe: Annotated[
        bool | None, typer.Option("--probe", help="Look for a slow link, node or rank.")
    ] = None


@dataclass(frozen=True, slots=True)
class FaultOptions:
    """What goes wrong on purpose, and what slows by design."""

    PANEL: ClassVar = "Faults"

    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="KIND:rank=R or KIND:node=N, then any of ,factor=F ,from=STEP ,to=STEP"
            " ,shape=SHAPE, and of links also ,peer=N ,rate=R ,delay=D ,jitter=J ,loss=L; or"
            " random@SEED. Several may be given.",
        ),
    ] = None
    disturb: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="What slows a run by design: KIND, then any of :factor=F ,every=N ,from=STEP"
            " ,to=STEP. Several may be given.",
        ),
    ] = None
    network: Annotated[
        str,
        typer.Option(help="namespaces = one for each emulated node; auto = if a fault needs it."),
    ] = "auto"


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """What ranks compute on."""

    PANEL: ClassVar = "Devices"

    device: Annotated[
        Device, typer.Option(help="Where ranks compute; auto = on GPUs if each rank has one.")
    ] = Device.AUTO
    pace: Annotated[
        Pace | None,
        typer.Option(help="Emulated devices, by default on CPU; off = as fast as it goes."),
    ] = None
    device_noise: Annotated[
        float, typer.Option(help="Spread of an emulated device's time per step, as a ratio.")
    ] = 0.02
    device_seconds: Annotated[
        float,
        typer.Option(
            help="Time of an emulated device per step, at least: longer where this machine's"
            " processors need longer, so runs that are compared want it well above that."
        ),
    ] = 0.04


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """In which formats of others the run's collectives are written, too."""

    PANEL: ClassVar = "Formats of others"

    record: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT",
            help="inspector, flight-recorder, or sdk (our own alone, which is always there); CPU"
            " only. Several may be given.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """Who starts the ranks, and how long a step may take."""

    PANEL: ClassVar = "Launchers"

    launcher: Annotated[
        str, typer.Option(help="local, mpirun, kubernetes, or argo (run, analyze, report).")
    ] = "local"
    hostfile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Hosts for mpirun, one a line, as `host slots=8`."),
    ] = None
    job: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Start nothing: write what `torchrun -m lockstep.workloads FILE` and srun need.",
        ),
    ] = None
    team: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="LOCKSTEP_TEAM",
            help="Who pays for the run, for `lockstep ledger`; default: the Slurm account.",
            show_default=False,
        ),
    ] = None
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of the run: its id begins with it. Letters, digits and ._-; others become -.",
        ),
    ] = None
    run_id: Annotated[
        str | None, typer.Option(hidden=True, help="Of a launcher that chose it.")
    ] = None
    hang_timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds without a step after which the run is ended; default 10, with a host"
            " file or --exec 300; a program of --exec of which no step was seen is not ended."
        ),
    ] = None


def given_of(groups: Iterable[Options]) -> Mapping[str, Any]:
    """Field -> value, of what is set in groups whose fields mean None = not set; paths as text."""
    told = {each.name: getattr(group, each.name) for group in groups for each in fields(group)}
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in told.items()
        if value is not None
    }
