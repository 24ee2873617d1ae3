"""Kueue v0.20, kueue.x-k8s.io: what it makes of a job that names a queue.

Its webhooks suspend such a job as it is created, and refuse labels that are no names; quota is a
Workload that the job owns, in v1beta2 (v1beta1 is served as well, and called deprecated). Sources:
https://github.com/kubernetes-sigs/kueue at ff69552 (v0.20.0-devel): pkg/controller/jobframework/
{defaults,validation}.go, pkg/controller/jobs/{job,mpijob}, apis/kueue/v1beta2/workload_types.go,
pkg/scheduler/flavorassigner/flavorassigner.go, pkg/workload/resources.go, apis/config/v1beta2.
"""

from collections.abc import Mapping
from copy import deepcopy
from fractions import Fraction

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


def not_admitted(
    job: Manifest, cluster_queue: Manifest, resources: Mapping[str, object] | None = None,
    flavors: Mapping[str, Manifest] | None = None,
) -> str:  # fmt: skip
    """What its Workload says where nobody else is in the ClusterQueue; empty = it is let in.

    Pod sets are looked at in their order, flavors likewise, and each pod set takes the first flavor
    of a group of resources that has room beside what those before it took.

    Args:
        resources: Of Kueue's configuration.
        flavors: ResourceFlavors by name; none has no taints.
    """
    spec, told = cluster_queue["spec"], resources or {}
    shared, used = "cohortName" in spec or "cohort" in spec, dict[tuple[str, str], Fraction]()
    for name, count, pod in _pod_sets(job):
        requests = {what: count * much for what, much in _requests(pod).items()
                    if not what.startswith(tuple(told.get("excludeResourcePrefixes", ())))}  # type: ignore[arg-type] # fmt: skip
        if any("pods" in group["coveredResources"] for group in spec["resourceGroups"]):
            requests["pods"] = Fraction(count)
        done: set[str] = set()
        for what, much in requests.items():
            if what in done or not much:
                continue
            group = next((each for each in spec["resourceGroups"]
                          if what in each["coveredResources"]), None)  # fmt: skip
            if group is None:
                if told.get("quotaCheckStrategy") == "IgnoreUndeclared":
                    continue
                return (f"couldn't assign flavors to pod set {name}: resource {what} unavailable in"
                        " ClusterQueue")  # fmt: skip
            mine = {each: requests[each] for each in group["coveredResources"] if each in requests}
            for flavor in group["flavors"]:
                about = at((flavors or {}).get(flavor["name"], {}), "spec", {})
                if repels(about, pod):
                    continue
                gives = {one["name"]: one for one in flavor["resources"]}
                if all(_fits(gives[each], asked + used.get((flavor["name"], each), Fraction(0)),
                             shared=shared) for each, asked in mine.items()):  # fmt: skip
                    for each, asked in mine.items():
                        key = flavor["name"], each
                        used[key] = used.get(key, Fraction(0)) + asked
                    done |= set(mine)
                    break
            else:
                return (f"couldn't assign flavors to pod set {name}: insufficient quota for {what}"
                        f" in flavor {flavor['name']}, … > maximum capacity")  # fmt: skip
    return ""


def repels(flavor: Manifest, pod: Manifest) -> bool:
    """Whether a taint of a flavor is tolerated neither by the pod nor by the flavor itself.

    k8s.io/component-helpers, scheduling/corev1: FindMatchingUntoleratedTaint.
    """
    tolerations = [*pod.get("tolerations", []), *flavor.get("tolerations", [])]

    def tolerated(taint: Manifest) -> bool:
        for one in tolerations:
            if one.get("effect") and one["effect"] != taint["effect"]:
                continue
            if one.get("key") and one["key"] != taint["key"]:
                continue
            match one.get("operator", "Equal"):
                case "Exists":
                    return True
                case "Equal" if one.get("value", "") == taint.get("value", "") and one.get("key"):
                    return True
        return False

    return any(not tolerated(taint) for taint in flavor.get("nodeTaints", ())
               if taint["effect"] in ("NoSchedule", "NoExecute"))  # fmt: skip


def _fits(quota: Manifest, much: Fraction, *, shared: bool) -> bool:
    """Within what it has and may borrow; a cohort lends all of it where nothing limits that."""
    if shared and quota.get("borrowingLimit") is None:
        return True
    borrows = _number(quota.get("borrowingLimit", "0")) if shared else Fraction(0)
    return much <= _number(quota["nominalQuota"]) + borrows


def _pod_sets(job: Manifest) -> list[tuple[str, int, Manifest]]:
    spec = job["spec"]
    if job["kind"] == "Job":
        return [("main", spec["parallelism"], spec["template"]["spec"])]
    sets = spec["mpiReplicaSpecs"]
    return [(name.lower(), sets[name].get("replicas", 1), sets[name]["template"]["spec"])
            for name in ("Launcher", "Worker") if name in sets]  # fmt: skip


def _requests(pod: Manifest) -> dict[str, Fraction]:
    """Of a pod: all containers at once, or the largest that runs before them alone."""
    told: dict[str, Fraction] = {}
    for one in pod["containers"]:
        for what, much in at(one, "resources.requests", {}).items():
            told[what] = told.get(what, Fraction(0)) + _number(much)
    for one in pod.get("initContainers", ()):
        for what, much in at(one, "resources.requests", {}).items():
            told[what] = max(told.get(what, Fraction(0)), _number(much))
    return told


def _number(text: object) -> Fraction:
    from kubernetes.utils.quantity import parse_quantity  # half of the start of who imports this

    return Fraction(parse_quantity(str(text)))
