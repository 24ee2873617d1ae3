"""After an MPIJob: a Job that analyzes the archive on the claim and tells how fast the run was.

A chain of Argo does the same in steps of its own (workflow.py). What the Job says is in its pod's
log, as one line of JSON; `lockstep bench` makes a row of results of it.
"""

from collections.abc import Callable
from time import monotonic, sleep

from lockstep.collector.contract.kubernetes import ROLE_LABEL
from lockstep.workloads.launchers.kubernetes import conditions
from lockstep.workloads.launchers.kubernetes.cluster import Cluster, ClusterError
from lockstep.workloads.launchers.kubernetes.conditions import Phase
from lockstep.workloads.launchers.kubernetes.kueue import suspended
from lockstep.workloads.launchers.kubernetes.mpijob import KEPT_SECONDS
from lockstep.workloads.launchers.kubernetes.names import (
    JOB,
    MPIJOB,
    POD,
    STEP,
    labels,
    object_name,
    selector,
)
from lockstep.workloads.launchers.kubernetes.pod import (
    Manifest,
    archive_folder,
    metadata,
    owned_by,
    single,
)
from lockstep.workloads.launchers.kubernetes.settings import Settings
from lockstep.workloads.launchers.kubernetes.workflow import ANALYZE, HOME, STEP_SECONDS
from lockstep.workloads.spec import RunSpec

SUFFIX = "-measure"
SCRIPT = f'({ANALYZE}) && lockstep report "$0" && lockstep bench measure "$0"'
_POLL_SECONDS = 2.0


def job(spec: RunSpec, settings: Settings, owner: Manifest) -> Manifest:
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
    cluster.create(JOB.path(namespace), job(spec, settings, owner))
    begun, queued, looked = clock(), 0.0, clock()
    most = STEP_SECONDS + settings.start_timeout
    while True:
        whole, now = cluster.read(path), clock()
        found = conditions.ended(whole)
        queued += now - looked if suspended(whole) else 0.0
        looked = now
        late = now - begun - queued >= most or queued > settings.queue_timeout
        pods = _pods(cluster, spec, namespace)
        stuck = next((each for each in pods if each.hopeless), None)
        if found is not None or stuck is not None or late:
            break
        pause(_POLL_SECONDS)
    said = "\n".join(_log(cluster, namespace, each) for each in pods)
    if found is not None and found[0] is Phase.SUCCEEDED:
        return said, ""
    why = (
        f"{stuck.place} cannot start: {stuck.waits_for}" if stuck is not None
        else (said.strip().splitlines() or [conditions.waits(pods)])[-1][:500]
        or ("it had not ended in time" if found is None else found[1])
    )  # fmt: skip
    return "", why


def _pods(cluster: Cluster, spec: RunSpec, namespace: str) -> list[conditions.Pod]:
    chosen = f"{selector(spec.run)},{ROLE_LABEL}={STEP}"
    told = cluster.read(POD.path(namespace), labelSelector=chosen)
    pods = (conditions.pod(each) for each in told.get("items") or ())
    return [each for each in pods if SUFFIX in each.name]


def _log(cluster: Cluster, namespace: str, pod: conditions.Pod) -> str:
    try:
        return cluster.text(f"{POD.path(namespace, pod.name)}/log", container="main")
    except ClusterError as error:
        return f"no log could be had: {error}"
