"""The whole chain as an Argo Workflow: the run, its analysis, its report, and how fast it was.

The run is a step of ours that waits on conditions, not a resource template: Argo's conditions of
success cannot look into `status.conditions` (argo-workflows, issue 7143). On exit, whatever the
end, the object of the run is deleted.

A Workflow's own `activeDeadlineSeconds` are "relative to the workflow start time", so they would
count what waits for a node or for Kueue; a template's are "relative to the StartTime that the pod
may be active on a node", and are each step's limit here. The run's own is that of its MPIJob or
Job, which the step `run` watches.

Fields: https://argo-workflows.readthedocs.io/en/latest/fields/.
"""

import math
from collections.abc import Callable, Sequence
from time import monotonic, sleep

from lockstep.collector.contract.kubernetes import ROLE_LABEL, RUNS_ACCOUNT
from lockstep.collector.contract.words import ExitCode
from lockstep.workloads.launch.kubernetes import conditions
from lockstep.workloads.launch.kubernetes.cluster import Cluster, ClusterError
from lockstep.workloads.launch.kubernetes.conditions import Phase
from lockstep.workloads.launch.kubernetes.job_manifests import KEPT_SECONDS
from lockstep.workloads.launch.kubernetes.kueue import suspended
from lockstep.workloads.launch.kubernetes.pod import (
    LAUNCHER_RESOURCES,
    RESTRICTED,
    RUNS_FOLDER,
    SUBMITTED,
    Manifest,
    archive_folder,
    claim_volume,
    metadata,
    owned_by,
    pod_security,
    single,
)
from lockstep.workloads.launch.kubernetes.settings import (
    JOB,
    MPIJOB,
    POD,
    STEP,
    WORKFLOW,
    Kind,
    Settings,
    labels,
    object_name,
    selector,
    team_labels,
)
from lockstep.workloads.spec import RunSpec

CHAIN = "chain"
MEASURE = "measure"
STEPS = ("run", "analyze", "report", MEASURE)
GOES_ON = {"continueOn": {"failed": True, "error": True}}
"""A run is none the worse for not being measured."""
CLEAN_UP = "clean-up"
# A verdict is no failure of the step: 1, 2 and 3 are what analyze found out.
ANALYZE = f'lockstep analyze "$0"; code=$?; [ $code -le {ExitCode.UNKNOWN} ] || exit $code'
HOME = {"name": "HOME", "value": "/tmp"}  # noqa: S108 - libraries keep caches there; ours is nobody's
SINCE = {"name": SUBMITTED, "value": "{{workflow.creationTimestamp.RFC3339}}"}
"""Argo writes it: what waited for the chain's own pod was queued, too."""
STEP_SECONDS = 900
"""Of a step that reads an archive, from the pull of its image on; of the step `run` beyond its run:
logs are fetched, and an API that is away is waited for."""
ON_TOP_SECONDS = 4.0 * STEP_SECONDS
"""Of the chain beyond the run and its start."""


def argo_workflow(spec: RunSpec, settings: Settings, command: Sequence[str]) -> Manifest:
    """The Workflow.

    Args:
        command: What launches the run from inside the cluster and waits for it.
    """
    folder = archive_folder(spec)
    templates = (
        _step("run", settings.image, command, SINCE, seconds=_run_seconds(settings)),
        _step("analyze", settings.analyzer_image, ("sh", "-c", ANALYZE, folder)),
        _step("report", settings.analyzer_image, ("lockstep", "report", folder)),
        _step("measure", settings.analyzer_image, ("lockstep", "bench", "measure", folder)),
        _clean_up(spec, settings),
    )
    return {
        "apiVersion": WORKFLOW.api_version,
        "kind": WORKFLOW.kind,
        "metadata": metadata(spec, settings),
        "spec": {
            "entrypoint": CHAIN,
            "onExit": CLEAN_UP,
            "serviceAccountName": RUNS_ACCOUNT,
            # For the step `run`, and for the container that Argo puts beside every step.
            "automountServiceAccountToken": True,
            "ttlStrategy": {"secondsAfterCompletion": KEPT_SECONDS},
            "podMetadata": {"labels": {**labels(spec.run, STEP), **team_labels(spec.team)}},
            "securityContext": pod_security(),
            "volumes": [claim_volume(settings)],
            "templates": [
                {
                    "name": CHAIN,
                    "steps": [
                        [{"name": name, "template": name, **(GOES_ON if name == MEASURE else {})}]
                        for name in STEPS
                    ],
                },
                *templates,
            ],
        },
    }


def _clean_up(spec: RunSpec, settings: Settings) -> Manifest:
    """Deletes what the step `run` created, if it is still there (Argo adds --ignore-not-found).

    By its name: a chain is not created where one of that name is there already (objects.py). One
    that somebody else gives that very name afterwards is not told apart.
    """
    resource = MPIJOB if settings.kind is Kind.MPIJOB else JOB
    plural = f"{resource.plural}.{resource.group}"
    return {
        "name": CLEAN_UP,
        "resource": {
            "action": "delete",
            "flags": [plural, object_name(spec.run), f"--namespace={settings.namespace}"],
        },
    }


def _run_seconds(settings: Settings) -> float:
    """The launcher in the step `run` waits in the queue as well, which may be for ever."""
    queue = settings.queue_timeout if settings.queue else 0.0
    return queue + settings.start_timeout + settings.timeout + STEP_SECONDS


def _step(
    name: str, image: str, command: Sequence[str], *more: Manifest, seconds: float = STEP_SECONDS
) -> Manifest:
    """One step; `seconds` it may be active on its node."""
    return {
        "name": name,
        **({"activeDeadlineSeconds": round(seconds)} if math.isfinite(seconds) else {}),
        "container": {
            "name": "main",
            "image": image,
            "command": list(command),
            "env": [HOME, *more],
            "resources": LAUNCHER_RESOURCES,
            "securityContext": RESTRICTED,
            "volumeMounts": [{"name": "runs", "mountPath": RUNS_FOLDER}],
        },
    }


# After an MPIJob, a Job analyzes the archive on the claim and reports the speed of the run. A chain
# of Argo does the same in its own steps. The result is one line of JSON in the log of the Job's
# pod, which `lockstep bench` turns into a row of results.

SUFFIX = "-measure"
SCRIPT = f'({ANALYZE}) && lockstep report "$0" && lockstep bench measure "$0"'
_POLL_SECONDS = 2.0


def analysis_job(spec: RunSpec, settings: Settings, owner: Manifest) -> Manifest:
    """The Job, which goes with the run's object.

    Args:
        owner: The run's object as the API told it.
    """
    about = metadata(spec, settings)
    template = single(spec, settings, STEP, {
        "name": "main", "image": settings.analyzer_image, "env": [HOME],
        "command": ["sh", "-c", SCRIPT, archive_folder(spec)],
    })  # fmt: skip
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            **about,
            "name": object_name(spec.run) + SUFFIX,
            "labels": {**about["labels"], **labels(spec.run, STEP)},
            "ownerReferences": owned_by(owner),
        },
        "spec": {
            "backoffLimit": 1,
            "activeDeadlineSeconds": STEP_SECONDS,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": template,
        },
    }


def measured(
    cluster: Cluster, spec: RunSpec, settings: Settings,
    clock: Callable[[], float] = monotonic, pause: Callable[[float], None] = sleep,
) -> tuple[str, str]:  # fmt: skip
    """Run it to its end.

    Returns:
        What its pod said, and why nothing is known; one of them is empty.

    Raises:
        ClusterError: The API does not do what it must.
    """
    namespace, name = settings.namespace, object_name(spec.run)
    owner = cluster.read(MPIJOB.path(namespace, name))
    path = f"{JOB.path(namespace)}/{name}{SUFFIX}"
    cluster.create(JOB.path(namespace), analysis_job(spec, settings, owner))
    begun, queued, looked = clock(), 0.0, clock()
    most = STEP_SECONDS + settings.start_timeout
    while True:
        whole, now = cluster.read(path), clock()
        state = conditions.ended(whole)
        queued += now - looked if suspended(whole) else 0.0
        looked = now
        late = now - begun - queued >= most or queued > settings.queue_timeout
        pods = _pods(cluster, spec, namespace)
        stuck = next((pod for pod in pods if pod.hopeless), None)
        if state is not None or stuck is not None or late:
            break
        pause(_POLL_SECONDS)
    said = "\n".join(_log(cluster, namespace, pod) for pod in pods)
    if state is not None and state[0] is Phase.SUCCEEDED:
        return said, ""
    why = (
        f"{stuck.described} cannot start: {stuck.waits_for}" if stuck is not None
        else (said.strip().splitlines() or [conditions.waits(pods)])[-1][:500]
        or ("it had not ended in time" if state is None else state[1])
    )  # fmt: skip
    return "", why


def _pods(cluster: Cluster, spec: RunSpec, namespace: str) -> list[conditions.Pod]:
    chosen = f"{selector(spec.run)},{ROLE_LABEL}={STEP}"
    listed = cluster.read(POD.path(namespace), labelSelector=chosen)
    pods = (conditions.pod(item) for item in listed.get("items") or ())
    return [pod for pod in pods if SUFFIX in pod.name]


def _log(cluster: Cluster, namespace: str, pod: conditions.Pod) -> str:
    try:
        return cluster.text(f"{POD.path(namespace, pod.name)}/log", container="main")
    except ClusterError as error:
        return f"no log could be had: {error}"
