"""Whether Kueue holds a run back, and behind whom: from its Workload objects.

Kueue suspends a job that names a queue until its quota has room, and again when it takes the quota
back: then the pods are deleted.

Fields: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/ (Workload), and the same in v1beta1,
which Kueue 0.20 still serves and calls deprecated.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.workloads.launch.kubernetes.settings import Resource

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
WORKLOADS = tuple(
    Resource("kueue.x-k8s.io", version, "Workload", "workloads")
    for version in ("v1beta2", "v1beta1")
)
"""Newest first; a cluster serves one of them, or both."""
LOCAL_QUEUES, CLUSTER_QUEUES, FLAVORS = (
    tuple(Resource("kueue.x-k8s.io", each.version, kind, plural) for each in WORKLOADS)
    for kind, plural in (
        ("LocalQueue", "localqueues"), ("ClusterQueue", "clusterqueues"),
        ("ResourceFlavor", "resourceflavors"),
    )
)  # fmt: skip
"""Likewise; ClusterQueues and ResourceFlavors belong to no namespace."""
UNCOVERED = "unavailable in ClusterQueue"
"""kueue v0.20, pkg/scheduler/flavorassigner/flavorassigner.go."""
SHOWN = 3
Told = Mapping[str, Any]


def suspended(whole: Told | None) -> bool:
    """Whether a job's object is suspended."""
    spec = (whole or {}).get("spec") or {}
    policy = spec.get("runPolicy") or {}
    return bool(spec.get("suspend") or policy.get("suspend"))


def waits_behind(queue: str, uid: str, workloads: Sequence[Told]) -> str:
    """Why a run waits and behind whom, as far as may be seen.

    Args:
        queue: That it names.
        uid: Of the job's object.
        workloads: Of the namespace.
    """
    same = [
        workload for workload in workloads if (workload.get("spec") or {}).get("queueName") == queue
    ]
    own = next((workload for workload in same if _owned_by(workload, uid)), None)
    others = [
        workload for workload in same if workload is not own and not _is(workload, "Finished")
    ]
    running = sorted(_name(workload) for workload in others if _is(workload, "Admitted"))
    first = sorted(
        _name(workload)
        for workload in others
        if not _is(workload, "Admitted") and own is not None and _rank(workload) < _rank(own)
    )
    parts = [f"in queue {queue}"]
    if first:
        parts.append(f"behind {_listed(first)}")
    if running:
        parts.append(f"while {_listed(running)} run{'s' * (len(running) == 1)}")
    why = _message(own)
    return " ".join(parts) + (f": {why}" if why else "")


def never(uid: str, workloads: Sequence[Told]) -> str:
    """Kueue's own word that a job asks for what its queue has no quota of; empty = no such word.

    It says so with its first look, seconds after the job was created.
    """
    message = _message(next((workload for workload in workloads if _owned_by(workload, uid)), None))
    return message if UNCOVERED in message else ""


def taken_back(uid: str, workloads: Sequence[Told]) -> str:
    """Why Kueue suspended a job again that had run, as far as may be seen."""
    own = next((workload for workload in workloads if _owned_by(workload, uid)), None)
    for condition in ((own or {}).get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Evicted" and condition.get("status") == "True":
            return ": ".join(
                str(condition[key]) for key in ("reason", "message") if condition.get(key)
            )[:300]
    return ""


def _owned_by(workload: Told, uid: str) -> bool:
    owners = (workload.get("metadata") or {}).get("ownerReferences") or ()
    return any(owner.get("uid") == uid for owner in owners)


def _is(workload: Told, condition: str) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == condition and each.get("status") == "True"
               for each in conditions)  # fmt: skip


def _message(workload: Told | None) -> str:
    conditions = ((workload or {}).get("status") or {}).get("conditions") or ()
    messages = [
        str(condition.get("message", ""))
        for condition in conditions
        if condition.get("type") == "QuotaReserved" and condition.get("status") == "False"
    ]
    return messages[0][:300] if messages else ""


def _rank(workload: Told) -> tuple[int, str]:
    """Kueue's order in a queue: priority, then age."""
    created = str((workload.get("metadata") or {}).get("creationTimestamp", ""))
    return -int((workload.get("spec") or {}).get("priority") or 0), created


def _name(workload: Told) -> str:
    metadata = workload.get("metadata") or {}
    owners: Sequence[Told] = metadata.get("ownerReferences") or ({},)
    return str(owners[0].get("name") or metadata.get("name"))


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
