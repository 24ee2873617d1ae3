"""From the words of the command line to a RunSpec, or a sentence about what is wrong."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from lockstep.collector.contract.words import ExitCode
from lockstep.runs.external_program import check_command
from lockstep.runs.launching import hosts_of
from lockstep.terminal.output import fail
from lockstep.workloads.faults.capabilities import available
from lockstep.workloads.faults.disturbances import Kind as Disturbing
from lockstep.workloads.faults.disturbances import parse_disturbance
from lockstep.workloads.faults.link import LinkError
from lockstep.workloads.faults.plan import Fault, check_links, parse
from lockstep.workloads.faults.settings import DisturbanceError, FaultError
from lockstep.workloads.loop.goals import GoalError
from lockstep.workloads.loop.goals import parse as parse_goal
from lockstep.workloads.loop.resume import about
from lockstep.workloads.measure.formats import FORMATS, SDK
from lockstep.workloads.measure.gpus import torch_build, visible, why_not
from lockstep.workloads.models.configs import ConfigError
from lockstep.workloads.network.emulated import needed
from lockstep.workloads.recording import FIRST_FAULTY_STEP
from lockstep.workloads.spec import (
    CLUSTER_LAUNCHERS,
    DEVICE_SECONDS,
    LAUNCHERS,
    MAX_LOCAL_RANKS,
    NETWORKS,
    PROGRAM,
    WORKLOADS,
    DataError,
    Layout,
    RunSpec,
    SpecError,
    Training,
    one_of,
)
from lockstep.workloads.tasks.registry import TASKS, find

MIN_STEPS = 10
RUN_ID_CHARACTERS = 63
CLUSTER_ID_CHARACTERS = 51
"""As `lockstep.runs.cluster_options` has it."""
TOO_MANY = f"{{}} ranks are too many for one machine; at most {MAX_LOCAL_RANKS}"
DEFAULTS = Training()
RECORDED = ("gpt", "resnet")
"""Workloads that take `--record`."""


def plan(
    workload: str,
    *,
    nodes: int,
    ranks_per_node: int,
    dp: int | None = None,
    tp: int = 1,
    pp: int = 1,
    steps: int,
    seed: int,
    faults: list[str],
    disturbances: Sequence[str] = (),
    network: str = "auto",
    training: Training = DEFAULTS,
    launcher: str = "local",
    hostfile: Path | None = None,
    device: str = "cpu",
    pace: bool | None = True,
    device_noise: float = 0.02,
    device_seconds: float = DEVICE_SECONDS,
    hang_timeout: float = 10.0,
    record: Sequence[str] = (),
    token: str,
) -> RunSpec:
    """A checked spec.

    Args:
        device: `cpu`, `cuda`, or `auto`: GPUs where there are enough (a cluster is asked later),
            nothing is injected and no device is to be emulated.
        pace: Whether devices are emulated; None = on CPU.
        token: The four hex digits that make the run id unique.

    Raises:
        CommandError: 64, with the setting that is wrong and what would be right; 65, a dataset or
            a checkpoint that cannot be read.
    """
    if steps < MIN_STEPS:
        fail(ExitCode.USAGE, f"--steps {steps} is too few; at least {MIN_STEPS}")
    _check_numbers(training)
    if seed < 0:
        fail(ExitCode.USAGE, f"--seed {seed} is negative; give a whole number from 0")
    if not 0.0 <= device_noise <= 0.5:
        fail(ExitCode.USAGE, f"--device-noise {device_noise:g} is not a ratio from 0 to 0.5")
    if not 0.001 <= device_seconds <= 60.0:
        said = f"--device-seconds {device_seconds:g} is not a time of 0.001 to 60 seconds"
        fail(ExitCode.USAGE, said)
    if not (math.isfinite(hang_timeout) and hang_timeout >= 1.0):
        fail(ExitCode.USAGE, f"--hang-timeout {hang_timeout:g} must be at least 1 second")
    try:
        one_of("workload", workload, WORKLOADS)
        one_of("launcher", launcher, LAUNCHERS)
        world = nodes * ranks_per_node
        replicas = max(1, world // max(1, tp * pp)) if dp is None else dp
        layout = Layout(nodes, ranks_per_node, replicas, tp, pp)
        on_cluster = launcher in CLUSTER_LAUNCHERS
        if hostfile is None and not on_cluster and layout.world > MAX_LOCAL_RANKS:
            fail(ExitCode.USAGE, TOO_MANY.format(layout.world))
        # GPUs of other hosts cannot be counted here; the ranks there do.
        elsewhere = on_cluster or (hostfile is not None and device == "cuda")
        device = _device(
            device, layout.world, emulated=pace is True, faults=bool(faults), elsewhere=elsewhere
        )
        pace = device == "cpu" if pace is None else pace
        check_goal(workload, training)
        hosts: tuple[str, ...] = ()
        can = available(pace=pace)
        planned = tuple(
            parse(spec, nodes=nodes, ranks_per_node=ranks_per_node, steps=steps, available=can)
            for spec in faults
        )
        check_links(planned, nodes)
        check_launcher(launcher, hostfile, network, planned)
        if on_cluster:
            check_cluster(training)
        if launcher == "mpirun":
            hosts = hosts_of(hostfile, nodes, ranks_per_node)
        one_of("network", network, NETWORKS)
        disturbed = tuple(
            parse_disturbance(spec, dp=layout.dp, pp=layout.pp, steps=steps, pace=pace)
            for spec in disturbances
        )
        kinds = {each.kind for each in disturbed}
        if Disturbing.CHECKPOINT in kinds and "checkpoint_every" not in find(workload).options:
            raise SpecError(f"{workload} writes no checkpoints; leave --disturb checkpoint out")
        checked_spec = find(workload).check(
            RunSpec(
                run=run_id(workload, token),
                workload=workload,
                layout=layout,
                steps=steps,
                seed=seed,
                training=training,
                faults=planned,
                disturbances=disturbed,
                network=network,
                launcher=launcher,
                hosts=hosts,
                hostfile=None if hostfile is None else str(hostfile),
                device=device,
                pace=pace,
                device_noise=device_noise,
                device_seconds=device_seconds,
                hang_timeout=hang_timeout,
                record=_formats(record, workload, device),
            )
        )
        check_onsets(checked_spec)
        return checked_spec
    except (SpecError, FaultError, DisturbanceError, LinkError, ConfigError, GoalError) as error:
        fail(ExitCode.USAGE, str(error))
    except DataError as error:
        fail(ExitCode.BAD_INPUT, str(error))


def planned_program(
    command: Sequence[str], step_pattern: str | None, *, nodes: int, ranks_per_node: int,
    hang_timeout: float, token: str,
) -> RunSpec:  # fmt: skip
    """A checked spec of somebody else's program.

    Raises:
        CommandError: 64, with what is wrong and what would be right.
    """
    check_command(tuple(command), step_pattern)
    try:
        layout = Layout(nodes, ranks_per_node, max(1, nodes * ranks_per_node))
    except SpecError as error:
        fail(ExitCode.USAGE, str(error))
    if layout.world > MAX_LOCAL_RANKS:
        fail(ExitCode.USAGE, TOO_MANY.format(layout.world))
    task = find(PROGRAM)
    return RunSpec(
        run=run_id(PROGRAM, token), workload=PROGRAM, layout=layout, steps=0, seed=0,
        training=task.defaults, program=tuple(command), step_pattern=step_pattern, pace=False,
        hang_timeout=hang_timeout,
    )  # fmt: skip


def run_id(workload: str, token: str) -> str:
    """`<workload>-<UTC yyyymmddThhmmss>-<4 hex>`."""
    return f"{workload}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{token}"


def named(spec: RunSpec, name: str) -> RunSpec:
    """The spec of a run that has a name: its id begins with it in place of the workload.

    Characters that a run id does not have become dashes, and a long name is cut. A launcher on a
    cluster names its objects by the id: there are small letters, digits and dashes only.

    Raises:
        CommandError: 64, nothing of the name can stand in a run id.
    """
    on_cluster = spec.launcher in CLUSTER_LAUNCHERS
    name = name.lower() if on_cluster else name
    other = r"[^a-z0-9-]+" if on_cluster else r"[^A-Za-z0-9._-]+"
    suffix = spec.run.removeprefix(spec.workload)
    most = (CLUSTER_ID_CHARACTERS if on_cluster else RUN_ID_CHARACTERS) - len(suffix)
    kept = re.sub(other, "-", name)[: 4 * most].strip("._-")[:most].strip("._-")
    if not kept:
        fail(ExitCode.USAGE, f"--name {name!r} has no letter and no digit; give one that has")
    return replace(spec, run=f"{kept}{suffix}", name=kept)


def with_training_settings(workload: str, given: Mapping[str, Any]) -> Training:
    """A task's training with what was given in place of its defaults.

    Args:
        given: Fields of Training that somebody set.

    Raises:
        CommandError: 64, the task is not known or does not take one of them.
    """
    try:
        one_of("workload", workload, WORKLOADS)
    except SpecError as error:
        fail(ExitCode.USAGE, str(error))
    task = find(workload)
    for name in given:
        if name not in task.options:
            option = name.replace("_", "-")
            takers = [each.name for each in TASKS if name in each.options]
            fail(
                ExitCode.USAGE,
                f"--{option} is not for {workload}, only for {', '.join(takers)}; leave it out",
            )
    return replace(task.defaults, **given)


def _formats(record: Sequence[str], workload: str, device: str) -> tuple[str, ...]:
    """The formats of others that a run is to be recorded in, each once."""
    for each in record:
        one_of("format of --record", each, FORMATS)
    wanted = tuple(each for each in dict.fromkeys(record) if each != SDK)
    if wanted and workload not in RECORDED:
        raise SpecError(
            f"--record {wanted[0]} is for {' and '.join(RECORDED)}, not {workload}; leave it out"
        )
    if wanted and device != "cpu":
        raise SpecError(
            f"--record {wanted[0]} is for runs on CPU; on GPUs NCCL and torch write it themselves"
        )
    return wanted


def _device(wish: str, world: int, *, emulated: bool, faults: bool, elsewhere: bool) -> str:
    """`cpu` or `cuda`.

    Args:
        elsewhere: The ranks are not on this machine: whether there are GPUs is not known here.
    """
    one_of("device", wish, ("auto", "cpu", "cuda"))
    if wish == "cpu":
        return wish
    why = None if elsewhere else why_not(world, visible(), torch_build())
    if why is None and emulated:
        why = "--pace on emulates devices, which a run on GPUs does not"
    if why is None and faults:
        why = "faults are injected into runs on CPU only"
    if why is None:
        return "cuda"
    if wish == "auto":
        return "cpu"
    return fail(ExitCode.USAGE, f"--device cuda: {why}; give --device cpu")


def _check_numbers(training: Training) -> None:
    for name, least in (
        ("micro_batch", 1), ("micro_batches", 0), ("virtual_stages", 1), ("checkpoint_every", 0),
        ("eval_every", 0),
    ):  # fmt: skip
        value = getattr(training, name)
        if value < least:
            fail(
                ExitCode.USAGE,
                f"--{name.replace('_', '-')} {value} is too few; at least {least}",
            )
    budget = training.time_budget
    if budget is not None and not (math.isfinite(budget) and budget > 0.0):
        fail(ExitCode.USAGE, f"--time-budget {budget:g} must be above 0 seconds")
    rate = training.learning_rate
    if not (math.isfinite(rate) and rate > 0.0):
        fail(ExitCode.USAGE, f"--learning-rate {rate:g} must be above 0")


def check_launcher(
    launcher: str, hostfile: Path | None, network: str, faults: Sequence[Fault]
) -> None:
    """Raises SpecError where the launcher cannot do what else was asked."""
    if hostfile is not None and launcher != "mpirun":
        raise SpecError("--hostfile is for mpirun; give --launcher mpirun, too")
    if launcher != "local" and (network != "auto" or needed(faults)):
        raise SpecError("link faults and --network need --launcher local")


def check_cluster(training: Training) -> None:
    """Raises SpecError where a run on a cluster would need files of this machine."""
    if training.resume is not None:
        from lockstep.workloads.launch.kubernetes.pod import RUNS_FOLDER

        place = PurePosixPath(training.resume)
        if ".." in place.parts or not place.is_relative_to(RUNS_FOLDER):
            raise SpecError(
                f"--resume {training.resume} is no place on the claim; give it as pods see it, as"
                f" {RUNS_FOLDER}/RUN/checkpoints"
            )
    if not training.is_synthetic:
        raise SpecError(
            f"--data {training.data} is a path of this machine, which pods do not have; on a"
            " cluster data are synthetic"
        )


def check_onsets(spec: RunSpec) -> None:
    """Raises SpecError for a fault before which a resumed run shows no healthy speed."""
    if spec.training.resume is None or spec.launcher in CLUSTER_LAUNCHERS:
        return  # there its launcher looks, beside the checkpoint
    first = about(Path(spec.training.resume)).step + FIRST_FAULTY_STEP
    for fault in spec.faults:
        if fault.from_step < first:
            raise SpecError(
                f"fault {fault.spec!r}: a run that goes on from step {first - FIRST_FAULTY_STEP}"
                f" shows its healthy speed first; give from={first} or later"
            )


def check_goal(workload: str, training: Training) -> None:
    """Raises SpecError for a goal that can never be reached, and GoalError for one that is none."""
    if training.time_budget is not None and not training.eval_every:
        raise SpecError("a run ends its --time-budget with an evaluation; give --eval-every, too")
    if training.goal is None:
        if training.stop_at_goal:
            raise SpecError("--stop-at-goal needs a --goal")
        return
    task = find(workload)
    goal = parse_goal(training.goal, task.goals)
    if goal.metric not in task.metrics:
        raise SpecError(
            f"{workload} has no {goal.metric}; give a goal of {' or '.join(sorted(task.metrics))}"
        )
    if not training.eval_every:
        raise SpecError("a goal is reached in an evaluation; give --eval-every STEPS, too")
