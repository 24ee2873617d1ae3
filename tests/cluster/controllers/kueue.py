"""Kueue v0.20, kueue.x-k8s.io: what it makes of a job that names a queue.

Its webhooks suspend such a job as it is created, and refuse labels that are no names; quota is a
Workload that the job owns, in v1beta2 (v1beta1 is served as well, and called deprecated). Sources:
https://github.com/kubernetes-sigs/kueue at ff69552 (v0.20.0-devel): pkg/controller/jobframework/
{defaults,validation}.go, pkg/controller/jobs/{job,mpijob}, apis/kueue/v1beta2/workload_types.go.
"""

from copy import deepcopy

from tests.cluster.controllers import (
    DNS_1123_SUBDOMAIN,
    InvalidError,
    Manifest,
    at,
)

VERSION = "v0.20"
QUEUE, PRIORITY, MOST_SECONDS = (
    f"kueue.x-k8s.io/{each}" for each in ("queue-name", "priority-class", "max-exec-time-seconds")
)
SUSPENDS = {"MPIJob": "runPolicy", "Job": "", "JobSet": "", "TrainJob": ""}
"""Kinds that it queues, and where below `spec` their `suspend` is."""


def queue(job: Manifest) -> str:
    """The queue that it names; empty = none."""
    return str((job["metadata"].get("labels") or {}).get(QUEUE, ""))


def is_suspended(job: Manifest) -> bool:
    """Whether its pods are held back."""
    below = SUSPENDS[job["kind"]]
    place = at(job, f"spec.{below}" if below else "spec", {})
    return bool(place.get("suspend"))


def suspended(job: Manifest, value: bool) -> Manifest:
    """The job as Kueue leaves it: held back, or let go."""
    whole, below = deepcopy(job), SUSPENDS[job["kind"]]
    place = whole["spec"].setdefault(below, {}) if below else whole["spec"]
    place["suspend"] = value
    return whole


def admitted(job: Manifest, before: Manifest | None = None) -> Manifest:
    """As it is created: suspended, if it names a queue.

    Args:
        before: Of a change, what was there.

    Raises:
        InvalidError: A webhook refuses it.
    """
    labels = job["metadata"].get("labels") or {}
    said = []
    if QUEUE in labels and not DNS_1123_SUBDOMAIN.fullmatch(labels[QUEUE]):
        said.append(f"metadata.labels[{QUEUE}]: a lowercase RFC 1123 subdomain must consist of …")
    if not (labels.get(MOST_SECONDS, "1").isdigit() and int(labels.get(MOST_SECONDS, "1")) > 0):
        said.append(f"metadata.labels[{MOST_SECONDS}]: should be greater than 0")
    if before is not None:
        old = before["metadata"].get("labels") or {}
        if not is_suspended(job) and labels.get(QUEUE) != old.get(QUEUE):
            said.append(f"metadata.labels[{QUEUE}]: field is immutable")
        if PRIORITY in old and PRIORITY not in labels:
            said.append("WorkloadPriorityClass cannot be removed from a workload")
        if PRIORITY in labels and PRIORITY not in old and not is_suspended(job):
            said.append("WorkloadPriorityClass cannot be added to a non-suspended workload")
    if said:
        raise InvalidError(said)
    if before is None and job["kind"] in SUSPENDS and queue(job):
        return suspended(job, True)
    return job
