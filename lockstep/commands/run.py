"""`lockstep run`: a reference workload under observation."""

import os
import secrets
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.cli.option_groups import grouped
from lockstep.cli.run_options import (
    AllReduceOptions,
    DeviceOptions,
    FaultOptions,
    GoalOptions,
    LaunchOptions,
    ModelOptions,
    Pace,
    ProgramOptions,
    RecordOptions,
    SizeOptions,
    given_of,
)
from lockstep.collector.contract.visible import visible_line
from lockstep.collector.contract.words import ExitCode
from lockstep.runs import cluster_options
from lockstep.runs import results as afterwards
from lockstep.runs.cluster_options import ClusterOptions
from lockstep.terminal import output
from lockstep.terminal.output import Format, fail

if TYPE_CHECKING:
    from lockstep.workloads.launch.launcher import Outcome
    from lockstep.workloads.spec import RunSpec


@grouped
def run(
    context: typer.Context,
    size: SizeOptions,
    own: ProgramOptions,
    training: ModelOptions,
    ends: GoalOptions,
    reduces: AllReduceOptions,
    wrong: FaultOptions,
    computing: DeviceOptions,
    recording: RecordOptions,
    starting: LaunchOptions,
    cluster: ClusterOptions,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORKLOAD", help="gpt, resnet, logreg or allreduce."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Archive; default runs/<run>.")
    ] = None,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
    verdict: Annotated[
        bool, typer.Option("--verdict/--no-verdict", help="End with the verdict's sentence.")
    ] = True,
) -> int:
    """Run a workload of real processes under observation, and leave an archive.

    Ends with the verdict's sentence and the next command. Exits 0 whatever the verdict, also when
    an injected fault ended the run; 70 when a rank failed by itself.

    Example: lockstep run gpt --fault thermal:rank=2,factor=1.5
    """
    from lockstep.runs import cluster_options as submission
    from lockstep.runs import external_program
    from lockstep.runs.planning import named, plan, planned_program, with_training_settings
    from lockstep.workloads.spec import CLUSTER_LAUNCHERS

    launcher, hostfile = starting.launcher, starting.hostfile
    on_cluster = launcher in CLUSTER_LAUNCHERS
    token, elsewhere = secrets.token_hex(2), own.program or on_cluster or hostfile is not None
    patience = starting.hang_timeout
    if patience is None:
        patience = 300.0 if elsewhere else 10.0
    if own.program:
        external_program.refuse_others(given_options(context))
        external_program.check_hang_timeout(patience)
        spec = planned_program(
            words or [], own.step_pattern, nodes=size.nodes, ranks_per_node=size.ranks_per_node,
            hang_timeout=patience, token=token,
        )  # fmt: skip
    else:
        workload = one_workload(words or [], own.step_pattern)
        spec = plan(
            workload, **asdict(size), faults=wrong.fault or [], disturbances=wrong.disturb or [],
            network=wrong.network,
            training=with_training_settings(workload, given_of((training, ends, reduces))),
            launcher=launcher, hostfile=hostfile, device=computing.device,
            pace=None if computing.pace is None else computing.pace is Pace.ON,
            device_noise=computing.device_noise, device_seconds=computing.device_seconds,
            hang_timeout=patience, record=tuple(recording.record or ()), token=token,
        )  # fmt: skip
    if starting.name is not None:
        spec = named(spec, starting.name)
    if starting.run_id is not None:
        spec = replace(spec, run=cluster_options.checked_run_id(starting.run_id))
    spec = replace(spec, team=submission.team(starting.team, os.environ))
    archive = out if out is not None else Path("runs") / spec.run
    if not on_cluster:
        cluster_options.refuse_without_cluster(launcher, given_options(context))
    elif starting.job is not None:
        fail(ExitCode.USAGE, f"--job starts nothing; leave --launcher {launcher} out")
    if starting.job is not None:
        write_job(spec, archive, starting.job)
        return ExitCode.OK
    if on_cluster:
        return put_on_cluster(spec, launcher, cluster, archive, form)
    return observed(spec, archive, form, judged=verdict and starting.run_id is None)


def observed(spec: "RunSpec", archive: Path, form: Format, *, judged: bool) -> int:
    """Run it on this machine, or by mpirun, and say what became of it.

    Args:
        spec: What to run.
        archive: Where it leaves its archive.
        form: How its results are printed.
        judged: Whether its verdict is said; a launcher on a cluster has an analyzer of its own.
    """
    from lockstep.runs import external_program, results
    from lockstep.runs.observe import run_observed
    from lockstep.workloads.launch.launcher import Ending

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
    if judged:
        conclude(archive, form, ended_early=outcome.ending is Ending.INTERRUPTED)
    if spec.program:
        told = external_program.unseen_steps(archive, spec.layout.world)
        if not told and outcome.ending is Ending.INTERRUPTED:  # in place of a verdict
            told = external_program.steps_seen(archive)
        if told:
            (output.data if form is Format.TABLE else output.note)(f"{'steps':8}{told}")
    return exit_code(spec, outcome, archive)


def conclude(archive: Path, form: Format, *, ended_early: bool) -> None:
    """The verdict's sentence and the next command: on stdout for people, else on stderr."""
    sentence = ""
    if not ended_early:  # by a user who does not want to wait
        show = output.Progress()
        show("analyzing", str(archive))
        try:
            sentence = afterwards.verdict_sentence(archive)
        except KeyboardInterrupt:  # of the verdict: the run is over, and ends as it did
            sentence = "none: you did not wait for it"
        finally:
            show.close()
    say = output.data if form is Format.TABLE else output.note
    if sentence:
        say(f"{'verdict':8}{visible_line(sentence)}")
    say(f"{'next':8}{afterwards.next_command(archive)}")


def put_on_cluster(
    spec: "RunSpec", launcher: str, options: ClusterOptions, out: Path, form: Format
) -> int:
    """Launch it there, and say what became of it."""
    from lockstep.runs import on_cluster

    settings = cluster_options.settings(launcher, options)
    cluster = on_cluster.connect(options.kubeconfig, options.kube_context)
    show = output.Progress()
    try:
        answer = on_cluster.run(cluster, spec, settings, out, show)
    finally:
        show.close()
        cluster.close()
    if answer.failure:
        output.note(f"lockstep: {answer.failure}")
    told = {name: each for name, each in answer.tree.items()
            if each not in ([], {}, "") and name not in ("measured", "left")}  # fmt: skip
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
    from lockstep.workloads.spec import WORKLOADS

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
    from lockstep.runs import other_launchers

    output.note(other_launchers.write_job(spec, archive, path))


def exit_code(spec: "RunSpec", outcome: "Outcome", archive: Path) -> int:
    """0 if the run ended as its faults said it would."""
    from lockstep.workloads.launch.launcher import Ending, as_injected

    if outcome.ending is Ending.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if not as_injected(spec, outcome):
        places = [f"rank {rank} on {spec.node(rank)}" for rank in outcome.ranks]
        fail(
            ExitCode.INTERNAL,
            f"{' and '.join(places) or 'a rank'} failed, and no fault asked for it:"
            f" {outcome.reason}; see {archive / 'logs'}",
        )
    return ExitCode.OK
