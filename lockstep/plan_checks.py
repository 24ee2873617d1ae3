"""What settings of a run exclude each other; each check raises SpecError with what would do."""

from collections.abc import Sequence
from pathlib import Path

from workloads.faults.plan import Fault
from workloads.network.emulated import needed
from workloads.outcome.goals import parse as parse_goal
from workloads.resume import about
from workloads.spec import RunSpec, SpecError, Training
from workloads.tasks import find
from workloads.warmup import FIRST_FAULTY_STEP


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
        raise SpecError("--resume reads files of this machine, which pods lack; leave it out")
    if not training.is_synthetic:
        raise SpecError(
            f"--data {training.data} is a path of this machine, which pods do not have; on a"
            " cluster data are synthetic"
        )


def check_onsets(spec: RunSpec) -> None:
    """Raises SpecError for a fault before which a resumed run shows no healthy speed."""
    if spec.training.resume is None:
        return
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
