"""`lockstep run`: a reference workload under observation."""

import secrets
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collector.contract.words import ExitCode
from lockstep import cluster_options, output
from lockstep.output import Format, fail

if TYPE_CHECKING:
    from workloads.launchers import Outcome
    from workloads.launchers.kubernetes.settings import Settings
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
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORKLOAD", help="gpt, resnet, logreg or allreduce."),
    ] = None,
    program: Annotated[
        bool,
        typer.Option("--exec", help="Run a command of yours, given after --, once a rank."),
    ] = False,
    step_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help=r"Steps in the log of --exec, as 'step (?P<step>\d+)'."),
    ] = None,
    nodes: Annotated[int, typer.Option(help="Emulated nodes.")] = 4,
    ranks_per_node: Annotated[int, typer.Option(help="Ranks on each node.")] = 1,
    dp: Annotated[int | None, typer.Option(help="Data-parallel size; default all ranks.")] = None,
    tp: Annotated[int, typer.Option(help="Tensor-parallel size.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 1,
    model: Annotated[
        str | None,
        typer.Option(
            help="gpt: tiny, tiny-llama, small, deep, demo, gpt3-125m … llama3.1-405b;"
            " resnet: resnet20, 32, 44, 56, 50."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="gpt: markov, copy, or the path of .bin and .idx files without it;"
            " resnet, logreg: synthetic, or a path."
        ),
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Another vocabulary than the model's.")
    ] = None,
    sequence: Annotated[
        int | None, typer.Option(help="Another sequence length than the model's.")
    ] = None,
    micro_batch: Annotated[
        int | None, typer.Option(help="Samples in a micro-batch: of a rank and step, without gpt.")
    ] = None,
    micro_batches: Annotated[
        int | None,
        typer.Option(help="Micro-batches of a replica in a step; 0 = as few as it needs."),
    ] = None,
    virtual_stages: Annotated[
        int | None, typer.Option(help="Stages on each pipeline rank; 2 or more interleave.")
    ] = None,
    sequence_parallel: Annotated[
        bool | None,
        typer.Option("--sequence-parallel", help="Split norms along the sequence, too."),
    ] = None,
    recompute: Annotated[
        bool | None,
        typer.Option("--recompute", help="Make activations again instead of keeping them."),
    ] = None,
    sharded_optimizer: Annotated[
        bool | None,
        typer.Option("--sharded-optimizer", help="Divide AdamW's state over the replicas."),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="After the warm-up.")] = None,
    eval_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations; 0 = none.")
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(metavar="GOAL", help="full, light (MLBench's), or METRIC>=VALUE."),
    ] = None,
    stop_at_goal: Annotated[
        bool | None, typer.Option("--stop-at-goal", help="End the run once the goal is reached.")
    ] = None,
    time_budget: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End the run after it, with an evaluation."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="MIN:MAX:COUNT", help="Bytes of the all-reduces, as 1K:1M:6."),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(help="Timed all-reduces of a size in a step.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, float16 or bfloat16.")] = None,
    probe: Annotated[
        bool | None, typer.Option("--probe", help="Look for a slow link, node or rank.")
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="Steps between checkpoints; 0 = none.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on from a checkpoint, in any layout.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 250,
    seed: Annotated[int, typer.Option(help="Seed of weights, data and noise.")] = 0,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="KIND:rank=R|node=N[,factor=F][,from=STEP][,to=STEP][,shape=SHAPE], links also"
            " [,peer=N][,rate=R][,delay=D][,jitter=J][,loss=L]; or random@SEED.",
        ),
    ] = None,
    disturb: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="What slows a run by design: KIND[:factor=F][,every=N][,from=STEP][,to=STEP].",
        ),
    ] = None,
    network: Annotated[
        str,
        typer.Option(help="namespaces = one for each emulated node; auto = if a fault needs it."),
    ] = "auto",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Archive; default runs/<run>.")
    ] = None,
    launcher: Annotated[
        str, typer.Option(help="local, mpirun, kubernetes, or argo (run, analyze, report).")
    ] = "local",
    hostfile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Hosts for mpirun, one a line, as `host slots=8`."),
    ] = None,
    image: cluster_options.Image = None,
    analyzer_image: cluster_options.AnalyzerImage = None,
    kind: cluster_options.Kind = cluster_options.DEFAULT_KIND,
    namespace: cluster_options.Namespace = cluster_options.DEFAULT_NAMESPACE,
    claim: cluster_options.Claim = cluster_options.DEFAULT_CLAIM,
    rings: cluster_options.Rings = cluster_options.DEFAULT_RINGS,
    kubeconfig: cluster_options.Kubeconfig = None,
    kube_context: cluster_options.KubeContext = None,
    timeout: cluster_options.Timeout = cluster_options.DEFAULT_TIMEOUT,
    start_timeout: cluster_options.StartTimeout = cluster_options.DEFAULT_START_TIMEOUT,
    run_id: cluster_options.RunId = None,
    submission: cluster_options.Submission = None,
    job: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Start nothing: write what `torchrun -m workloads FILE` and srun need.",
        ),
    ] = None,
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
        float | None,
        typer.Option(
            help="Seconds without a step after which the run is ended; default 10, with a host"
            " file or --exec 300; with --exec the time to the first step counts, too."
        ),
    ] = None,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
) -> int:
    """Run a workload of real processes under observation, and leave an archive.

    Exits 0 also when an injected fault ended the run, 70 when a rank failed by itself.

    Example: lockstep run gpt --fault thermal:rank=2,factor=1.5
    """
    from lockstep import external_program
    from lockstep.planning import plan, planned_program, with_training_settings
    from workloads.spec import CLUSTER_LAUNCHERS

    wanted = {
        "model": model, "data": data, "vocabulary": vocabulary, "sequence": sequence,
        "micro_batch": micro_batch, "micro_batches": micro_batches,
        "virtual_stages": virtual_stages, "sequence_parallel": sequence_parallel,
        "recompute": recompute, "sharded_optimizer": sharded_optimizer,
        "learning_rate": learning_rate, "eval_every": eval_every, "goal": goal,
        "stop_at_goal": stop_at_goal, "time_budget": time_budget,
        "sizes": sizes, "repetitions": repetitions, "dtype": dtype, "probe": probe,
        "checkpoint_every": checkpoint_every, "resume": None if resume is None else str(resume),
    }  # fmt: skip
    on_cluster = launcher in CLUSTER_LAUNCHERS
    token, elsewhere = secrets.token_hex(2), program or on_cluster or hostfile is not None
    patience = (300.0 if elsewhere else 10.0) if hang_timeout is None else hang_timeout
    words = words or []
    if program:
        external_program.refuse_others(given_options(context))
        external_program.check_hang_timeout(patience)
        spec = planned_program(
            words, step_pattern, nodes=nodes, ranks_per_node=ranks_per_node,
            hang_timeout=patience, token=token,
        )  # fmt: skip
    else:
        workload = one_workload(words, step_pattern)
        given = {name: value for name, value in wanted.items() if value is not None}
        spec = plan(
            workload, nodes=nodes, ranks_per_node=ranks_per_node, dp=dp, tp=tp, pp=pp, steps=steps,
            seed=seed, faults=fault or [], disturbances=disturb or [], network=network,
            training=with_training_settings(workload, given), launcher=launcher, hostfile=hostfile,
            device=device, pace=None if pace is None else pace is Pace.ON,
            device_noise=device_noise, hang_timeout=patience, token=token,
        )  # fmt: skip
    if run_id is not None:
        spec = replace(spec, run=cluster_options.checked_run_id(run_id))
    archive = out if out is not None else Path("runs") / spec.run
    if not on_cluster:
        cluster_options.refuse_without_cluster(launcher, given_options(context))
    elif job is not None:
        fail(ExitCode.USAGE, f"--job starts nothing; leave --launcher {launcher} out")
    if job is not None:
        write_job(spec, archive, job)
        return ExitCode.OK
    if on_cluster:
        settings = cluster_options.settings(
            launcher, image=image, analyzer_image=analyzer_image, namespace=namespace, kind=kind,
            claim=claim, rings=rings, timeout=timeout, start_timeout=start_timeout,
            submission=submission,
        )  # fmt: skip
        return put_on_cluster(spec, settings, archive, form, kubeconfig, kube_context)
    from lockstep import results
    from lockstep.observe import run_observed

    show = output.Progress()
    try:
        outcome = run_observed(spec, archive, show)
    finally:
        show.close()
    answer = {
        "run": spec.run,
        "archive": str(archive),
        "ending": outcome.ending,
        "ranks": list(outcome.ranks),
        "reason": outcome.reason,
    }
    found = results.read(archive)
    text = "\n".join(f"{name:8}{value}" for name, value in answer.items() if value not in ([], ""))
    output.document({**answer, "results": found}, form, "\n".join([text, *results.lines(found)]))
    return exit_code(spec, outcome, archive)


def put_on_cluster(
    spec: "RunSpec", settings: "Settings", out: Path, form: Format, kubeconfig: Path | None,
    kube_context: str | None,
) -> int:  # fmt: skip
    """Launch it there, and say what became of it."""
    from lockstep import on_cluster

    cluster = on_cluster.connect(kubeconfig, kube_context)
    show = output.Progress()
    try:
        answer = on_cluster.run(cluster, spec, settings, out, show)
    finally:
        show.close()
        cluster.close()
    if answer.failure:
        output.note(f"lockstep: {answer.failure}")
    told = {name: each for name, each in answer.tree.items() if each not in ([], {}, "")}
    output.document(answer.tree, form, "\n".join(f"{name:8}{each}" for name, each in told.items()))
    return answer.code


def given_options(context: typer.Context) -> dict[str, str]:
    """Parameter -> option, of those on the command line."""

    def given(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name != "DEFAULT"

    return {
        each.name: each.opts[0]
        for each in context.command.params
        if each.name is not None and given(each.name)
    }


def one_workload(words: list[str], step_pattern: str | None) -> str:
    """The workload, where just one was named.

    Raises:
        CommandError: 64, something else was.
    """
    from workloads.spec import WORKLOADS

    if not words:
        fail(ExitCode.USAGE, f"name what to run: {', '.join(WORKLOADS)}; or --exec -- COMMAND")
    if len(words) != 1:
        fail(
            ExitCode.USAGE,
            f"{' '.join(words)!r} is not one workload; to run a command of yours: lockstep run"
            f" --exec -- {' '.join(words)}",
        )
    if step_pattern is not None:
        fail(ExitCode.USAGE, "--step-pattern is for --exec alone; leave it out")
    return words[0]


def write_job(spec: "RunSpec", archive: Path, path: Path) -> None:
    """For launchers of others: torchrun, srun, a plain mpirun."""
    from lockstep import other_launchers

    output.note(other_launchers.write_job(spec, archive, path))


def exit_code(spec: "RunSpec", outcome: "Outcome", archive: Path) -> int:
    """0 if the run ended as its faults said it would."""
    from lockstep import external_program
    from workloads.launchers import Ending, as_injected

    if outcome.ending is Ending.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if spec.program and outcome.ending is Ending.HANG:
        external_program.require_steps_of_hang(outcome.ranks, spec.layout.world, archive)
    if not as_injected(spec, outcome):
        places = [f"rank {rank} on {spec.node(rank)}" for rank in outcome.ranks]
        fail(
            ExitCode.INTERNAL,
            f"{' and '.join(places) or 'a rank'} failed, and no fault asked for it:"
            f" {outcome.reason}; see {archive / 'logs'}",
        )
    return ExitCode.OK
