"""`lockstep run --launcher kubernetes | argo`: puts a run onto a cluster and sees it to its end.

Nothing of the run is on this machine. The pods write archive, logs and checkpoints onto the claim;
what the pods said is fetched before they go.
"""

import json
import math
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import CLUSTER_FILE
from lockstep.collector.contract.words import ExitCode
from lockstep.runs import claim
from lockstep.terminal.output import Progress, fail, note
from lockstep.workloads.launch.kubernetes.api import ApiCluster, KubeconfigError
from lockstep.workloads.launch.kubernetes.cluster import Cluster, ClusterError
from lockstep.workloads.launch.kubernetes.cluster_run import ClusterRun, Ended
from lockstep.workloads.launch.kubernetes.conditions import Phase, Pod
from lockstep.workloads.launch.kubernetes.doubts import doubts
from lockstep.workloads.launch.kubernetes.facts import Facts, look
from lockstep.workloads.launch.kubernetes.job_manifests import HOSTFILE
from lockstep.workloads.launch.kubernetes.objects import TakenError
from lockstep.workloads.launch.kubernetes.pod import RUNS_FOLDER, archive_folder
from lockstep.workloads.launch.kubernetes.preflight import refusal
from lockstep.workloads.launch.kubernetes.settings import JOB, LAUNCHER, STEP, WORKER, Settings
from lockstep.workloads.launch.kubernetes.submission import Submission, submission
from lockstep.workloads.launch.kubernetes.workflow import measured
from lockstep.workloads.spec import RunSpec
from lockstep.workloads.tasks.registry import find

LOGS = "logs"
ENDINGS = {Phase.SUCCEEDED: "finished", Phase.LATE: "timeout", Phase.STOPPED: "stopped"}
"""Any other failed."""
MEASURED_LINE = '{"measured":'
"""How the line of `lockstep bench measure` begins."""
SENTENCE = "lockstep: "
"""How our own commands begin to say what is wrong."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a run: for the user, and the exit code."""

    tree: dict[str, Any]
    code: int
    failure: str = ""


def connect(kubeconfig: Path | None, context: str | None) -> ApiCluster:
    """The cluster.

    Raises:
        CommandError: 65, the kubeconfig cannot be used.
    """
    try:
        return ApiCluster(kubeconfig, context)
    except KubeconfigError as error:
        fail(ExitCode.BAD_INPUT, str(error))


def run(
    cluster: Cluster, spec: RunSpec, settings: Settings, out: Path, show: Progress
) -> Answer:  # fmt: skip
    """Put it there, wait, fetch what its pods said into `out`, and leave nothing on the cluster.

    Raises:
        CommandError: 64 or 69, it can never be scheduled; 64, a run of that name is there;
            69, the API does not answer.
    """
    show("looking at the cluster", settings.namespace)
    facts = looked_at(cluster, settings)
    refuse(facts, spec, settings)
    for each in doubts(facts, spec, settings):
        note(each)
    # A refusal need not wait for what writes archives: half of its time.
    from lockstep.terminal.interrupts import Interrupts

    settings = with_rings_in_pods(facts, settings)
    interrupts = Interrupts()
    with interrupts.noted(), claim.claim_new_folder(out):
        made = submission(spec, settings, command(spec, settings))
        there = ClusterRun(cluster, made, spec.run, settings)
        try:
            there.create()
            note(_started(made, spec))
            with interrupts.heeded():
                ended = there.wait(show)
                logs = there.logs(ended.pods)  # with the pods their logs go
            if settings.measured and ended.phase is Phase.SUCCEEDED:
                show("measuring", spec.run)
                # The run has ended: who will not wait for this keeps what it said.
                with suppress(KeyboardInterrupt), interrupts.heeded():
                    logs["measure"] = _measured(cluster, spec, settings)
            answer = _closed(there, ended, logs, spec, settings, out)
            return replace(answer, code=ExitCode.INTERRUPTED) if interrupts.came else answer
        except TakenError as error:
            fail(
                ExitCode.USAGE,
                f"{error}; start again without --run-id, or end that one: {made.stop_command}",
            )
        except ClusterError as error:
            stop = there.objects.stop_command
            rest = f"; what is there, this ends: {stop}" if there.objects.perhaps_there else ""
            fail(ExitCode.UNREACHABLE, f"{error}{rest}")
        except KeyboardInterrupt:
            return _interrupted(there, spec, settings)
        except Exception:
            answer = _interrupted(there, spec, settings)  # whatever it was, nothing may stay
            if interrupts.came:
                return answer
            raise


def looked_at(cluster: Cluster, settings: Settings) -> Facts:
    """What there is to know of it.

    Raises:
        CommandError: 69, the API does not answer.
    """
    try:
        return look(cluster, settings)
    except ClusterError as error:
        fail(ExitCode.UNREACHABLE, str(error))


def refuse(facts: Facts, spec: RunSpec, settings: Settings, *, now: bool = True) -> None:
    """Refuse what can never be scheduled.

    Args:
        now: It is about to start, and must fit beside what others use of quotas.

    Raises:
        CommandError: 64 or 69, with what is in the way.
    """
    if refused := refusal(facts, spec, settings, now=now):
        fail(refused.code, refused.sentence)


def with_rings_in_pods(facts: Facts, settings: Settings) -> Settings:
    """With rings inside of the pods, where the namespace forbids folders of the node."""
    if facts.allows_host_paths or not settings.host_rings:
        return settings
    note(
        f"namespace {settings.namespace} enforces the Pod Security profile {facts.enforced}: rings"
        " stay inside of the pods, and the collectors of the nodes do not see the ranks"
    )
    return replace(settings, host_rings=False)


def command(spec: RunSpec, settings: Settings) -> list[str]:
    """What runs in the launcher of an MPIJob, or in the first step of a Workflow."""
    folder = archive_folder(spec)
    taken = find(spec.workload).options
    if settings.chain:
        inner, own = replace(spec, launcher="kubernetes"), [
            "--image", settings.image, "--namespace", settings.namespace,
            "--kind", str(settings.kind), "--claim", settings.claim,
            "--rings", "node" if settings.host_rings else "pod",
            *(("--submission", settings.submission) if settings.submission else ()),
            *(("--queue", settings.queue) if settings.queue else ()),
            *(("--queue-timeout", f"{settings.queue_timeout:g}")
              if math.isfinite(settings.queue_timeout) else ()),
            "--timeout", f"{settings.timeout:g}", "--start-timeout", f"{settings.start_timeout:g}",
            "--out", f"{folder}.launch",
        ]  # fmt: skip
    else:
        inner = replace(spec, launcher="mpirun", hostfile=HOSTFILE)
        own = ["--out", folder]
    words = shlex.split(inner.command(faults=True, taken=taken))
    return [*words, *own, "--run-id", spec.run, "--output", "jsonl"]


def recorded_by_nobody(made: Submission) -> bool:
    """Whether no launcher of ours is there, which would record the run: an Indexed Job."""
    return made.resource is JOB


def _started(made: Submission, spec: RunSpec) -> str:
    """What to know once it is there."""
    text = (
        f"{made.resource.kind} {made.name} in {made.namespace}; to end it from elsewhere:"
        f" {made.stop_command}"
    )
    if not recorded_by_nobody(made):
        return text
    return (
        f"{text}\nnobody records an Indexed Job: its steps are on the pages of the nodes'"
        f" collectors; then: lockstep analyze --prometheus URL --run {spec.run}"
    )


def _interrupted(there: ClusterRun, spec: RunSpec, settings: Settings) -> Answer:
    answer = {"run": spec.run, "archive": _place(spec, settings), "ending": "interrupted",
              **({"queued_seconds": round(there.queued, 1)} if settings.queue else {})}  # fmt: skip
    left = _left(there)
    return Answer({**answer, "reason": left, "left": left}, ExitCode.INTERRUPTED)


def _closed(
    there: ClusterRun,
    ended: Ended,
    logs: dict[str, str],
    spec: RunSpec,
    settings: Settings,
    out: Path,
) -> Answer:
    made = there.made
    for each in ended.noted:
        note(each)
    nodes = {pod.name: pod.node for pod in ended.pods if pod.role == WORKER}
    where = {"run": spec.run, "namespace": settings.namespace, "claim": settings.claim,
             "archive": archive_folder(spec), "nodes": nodes,
             "pods": {pod.name: {"node": pod.node, "placed": pod.placed, "ran": pod.ran}
                      for pod in ended.pods if pod.role == WORKER}}  # fmt: skip
    unwritten = _written(out, logs, where, spec if recorded_by_nobody(made) else None)
    finished = ended.phase is Phase.SUCCEEDED
    left = _left(there, finished=finished)
    told = _told_by_launcher(logs)
    reason = "; ".join(filter(None, (ended.reason, _sentence(logs), left, unwritten)))
    ending = ENDINGS.get(ended.phase, "failed")
    by_launcher = str(told.get("ending", ending))
    # Of a chain that failed, the launcher in its first step knows why.
    if finished or (settings.chain and ending == "failed" and by_launcher in ENDINGS.values()
                    and by_launcher != "finished"):  # fmt: skip
        ending = by_launcher
    elif settings.chain and ended.phase is Phase.LATE and by_launcher == "finished":
        ending = "failed"  # a step after the run was late, not the run
    tree = {
        "run": spec.run,
        "archive": _place(spec, settings),
        "logs": str(out / LOGS),
        "ending": ending,
        "ranks": told.get("ranks", []),
        "nodes": nodes,
        "images": sorted({pod.image for pod in ended.pods if pod.image}),
        **({"queued_seconds": round(ended.queued, 1)} if settings.queue else {}),
        "measured": _result(_without_programs(logs, ended.pods)),
        "reason": str(told.get("reason", "")) if finished and not reason else reason,
        "left": left,
    }
    if finished and not left and not unwritten:
        return Answer(tree, ExitCode.OK)
    code = ExitCode.INTERNAL if ended.ran else ExitCode.UNREACHABLE
    said = f"the run {spec.run} failed: {reason}" if not finished else reason
    return Answer(tree, code, f"{said}; logs of its pods are in {out / LOGS}")


def _measured(cluster: Cluster, spec: RunSpec, settings: Settings) -> str:
    """What the Job that reads the archive says; a run is none the worse for not being measured."""
    try:
        said, why = measured(cluster, spec, settings)
    except ClusterError as error:
        said, why = "", str(error)
    if why:
        note(f"its speed is unknown: {why}")
    return said or why


def _without_programs(logs: dict[str, str], pods: Sequence[Pod]) -> dict[str, str]:
    """Logs of steps of ours: what a program prints beside its ranks is no result of its run."""
    theirs = {f"{pod.name}.{name}" for pod in pods if pod.role in (WORKER, LAUNCHER)
              for name in pod.containers}  # fmt: skip
    return {name: text for name, text in logs.items() if name not in theirs}


def _result(logs: dict[str, str]) -> dict[str, Any]:
    """How fast the run was, as `lockstep bench measure` said it in a pod; empty = not known."""
    for line in reversed(_lines(logs)):
        if line.startswith(MEASURED_LINE):
            with suppress(ValueError):
                told = bounded_json.loads(line)
                if isinstance(told, dict) and isinstance(told.get("measured"), dict):
                    return dict(told["measured"])
    return {}


def _place(spec: RunSpec, settings: Settings) -> str:
    """Where the archive is, for people: the claim, and the folder on it."""
    return f"{settings.claim}:{archive_folder(spec).removeprefix(RUNS_FOLDER)}"


def _left(there: ClusterRun, *, finished: bool = False) -> str:
    """Delete all of it; what to do about what is left.

    What only ends late needs nobody after a run that finished: its ranks have done their work.
    """
    try:
        if there.end():
            return ""
        if finished and there.leaving:
            late = ", ".join(each.described for each in there.leaving)
            note(f"deleted; not yet reported as ended: {late}")
            return ""
        why = "its pods have not ended yet"
    except ClusterError as error:
        why = str(error)
    return f"not all of it could be deleted ({why}); this does it: {there.objects.stop_command}"


def _written(
    out: Path, logs: dict[str, str], where: dict[str, Any], unrecorded: RunSpec | None
) -> str:
    from lockstep.runs import archive

    try:
        (out / LOGS).mkdir(parents=True, exist_ok=True)
        if unrecorded is not None:
            archive.write_job(out, unrecorded, archive.now())
        (out / CLUSTER_FILE).write_text(json.dumps(where, indent=2) + "\n")
        for name, text in logs.items():
            (out / LOGS / f"{name}.log").write_text(text)
    except OSError as error:
        return f"its logs cannot be written: {error}"
    return ""


def _told_by_launcher(logs: dict[str, str]) -> dict[str, Any]:
    """What the launcher answered: the last line of its output that is an answer."""
    for line in reversed(_lines(logs)):
        if line.startswith('{"run":'):
            with suppress(ValueError):
                told = bounded_json.loads(line)
                if isinstance(told, dict):
                    return told
    return {}


def _sentence(logs: dict[str, str]) -> str:
    """What the launcher, or a rank, said that was wrong, last."""
    found = [line for line in _lines(logs) if line.startswith(SENTENCE)]
    return found[-1].removeprefix(SENTENCE)[:500] if found else ""


def _lines(logs: dict[str, str]) -> Sequence[str]:
    """Of launchers first, then of all others."""
    order = sorted(logs, key=lambda name: LAUNCHER in name or STEP in name)
    return [line for name in order for line in logs[name].splitlines()]
