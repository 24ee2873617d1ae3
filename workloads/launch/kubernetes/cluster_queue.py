"""Whether a ClusterQueue of Kueue could let a run in, were nobody else there.

Kueue gives each set of pods one flavor of every group of resources, which must have room for all of
them together, and taints that they tolerate. Flavors' labels are of no account: no pod of ours has
a node selector. What no group covers is `unavailable in ClusterQueue`, unless its own configuration
leaves that out of the count.

Sources: kueue v0.20, pkg/scheduler/flavorassigner/flavorassigner.go, pkg/workload/resources.go, and
apis/config/v1beta2/configuration_types.go (Resources).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

from lockstep.workloads.launch.kubernetes.settings import Settings
from lockstep.workloads.launch.kubernetes.submission import submission
from lockstep.workloads.spec import RunSpec

# Requests of the pods of a run, counted from its manifest as the scheduler and Kueue count them.

Need = Mapping[str, Fraction]
Told = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one template.

    Attributes:
        of_one: Resource -> how much one pod asks for.
        tolerations: Of its pods.
    """

    name: str
    count: int
    of_one: Need
    tolerations: tuple[Told, ...] = ()

    @property
    def whole(self) -> Need:
        """Of all its pods."""
        return {what: self.count * much for what, much in self.of_one.items()}


def pod_sets(spec: RunSpec, settings: Settings) -> tuple[PodSet, ...]:
    """Of a run, those with ranks last; the steps of a chain around it are not of them."""
    whole = submission(spec, replace(settings, chain=False), ()).whole["spec"]
    if "mpiReplicaSpecs" not in whole:
        return (_pod_set("main", int(whole["parallelism"]), whole["template"]),)
    return tuple(
        _pod_set(name.lower(), int(replicas["replicas"]), replicas["template"])
        for name, replicas in whole["mpiReplicaSpecs"].items()
    )


def _pod_set(name: str, count: int, template: Told) -> PodSet:
    return PodSet(name, count, _asked(template), tuple(template["spec"].get("tolerations") or ()))


def total(sets: Sequence[PodSet]) -> Need:
    """Of all pods of a run, and how many there are."""
    requests: dict[str, Fraction] = {"pods": Fraction(sum(pod_set.count for pod_set in sets))}
    for pod_set in sets:
        for what, much in pod_set.whole.items():
            requests[what] = requests.get(what, Fraction(0)) + much
    return requests


def _asked(template: Told) -> Need:
    """Of a pod: its containers together, or the largest of those before them.

    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    pod = template["spec"]
    requests: dict[str, Fraction] = {}
    for container in pod["containers"]:
        for what, much in _requests(container).items():
            requests[what] = requests.get(what, Fraction(0)) + much
    for container in pod.get("initContainers", ()):
        for what, much in _requests(container).items():
            requests[what] = max(requests.get(what, Fraction(0)), much)
    return requests


def _requests(container: Told) -> Need:
    """Where only a limit is given, that is asked for."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {what: parsed(much) for what, much in asked.items()}


# Quantities of Kubernetes: `500m`, `8`, `3840Mi`, `1e3`.
#
# Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.

_FORM = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?",
    re.ASCII,
)
_SCALES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
}  # fmt: skip
_BINARY = {f"{name}i": Fraction(1024) ** power for power, name in enumerate("KMGTPE", 1)}


def parsed(text: object) -> Fraction:
    """The number; 0 of what is none, for only the API itself writes quantities."""
    match = _FORM.fullmatch(str(text).strip())
    if match is None:
        return Fraction(0)
    suffix = match["suffix"] or ""
    number = Fraction(match["number"])
    if suffix[:1] in ("e", "E") and suffix[1:]:
        return number * Fraction(10) ** int(suffix[1:])
    return number * (_BINARY.get(suffix) or _SCALES.get(suffix) or 1)


def format_quantity(number: Fraction) -> str:
    """In words of people: whole numbers as they are, bytes in GiB."""
    if number >= 1 << 30:
        return f"{float(number / (1 << 30)):.3g}Gi"
    return str(number) if number.denominator == 1 else f"{float(number):.3g}"


Flavor = Mapping[str, Fraction | None]
"""Resource -> what it gives at most, with what it may borrow; None = its cohort's business."""
IGNORES = "IgnoreUndeclared"


@dataclass(frozen=True, slots=True)
class Lacking:
    """What a queue has too little of.

    Attributes:
        most: What it can give; None = of each resource enough, but not of all in one flavor.
        taints: Flavors that have enough, with those of their taints that pods do not tolerate;
            empty = none has.
    """

    resource: str
    needed: Fraction
    most: Fraction | None
    taints: str = ""


def uncovered(cluster_queue: Told, sets: Sequence[PodSet]) -> tuple[str, ...]:
    """Resources that a run asks for and the queue covers not at all."""
    known = {what for covered, _, _ in _groups(cluster_queue) for what in covered}
    asked = dict.fromkeys(what for pod_set in sets for what, much in pod_set.of_one.items() if much)
    return tuple(what for what in asked if what not in known)


def covered(cluster_queue: Told) -> tuple[str, ...]:
    """What it has quotas for."""
    return tuple(what for covered, _, _ in _groups(cluster_queue) for what in covered)


def lacking(
    cluster_queue: Told, sets: Sequence[PodSet], known: Mapping[str, Told]
) -> Lacking | None:
    """The first thing that it has too little of, whoever else is there; None = nothing.

    Args:
        cluster_queue: As the API tells it.
        sets: Of the run.
        known: ResourceFlavors by name; one that may not be seen has no taints.
    """
    for names, flavors, called in _groups(cluster_queue):
        needs = [{what: much for what, much in _counted(pod_set).items() if what in names and much}
                 for pod_set in sets]  # fmt: skip
        repel = [{name: _untolerated(known.get(name) or {}, pod_set) for name in called}
                 for pod_set in sets]  # fmt: skip
        suits = [[index for index, name in enumerate(called) if not taints[name]]
                 for taints in repel]  # fmt: skip
        if _fit(needs, flavors, suits):
            continue
        anywhere = [range(len(flavors))] * len(needs)
        if _fit(needs, flavors, anywhere):
            met = [taints for need, taints in zip(needs, repel, strict=True) if need]
            reasons = {
                f"{name}: {taints[name]}" for taints in met for name in called if taints[name]
            }
            return Lacking(" and ".join(names), Fraction(0), None, ", ".join(sorted(reasons)))
        for what in names:
            only = [{what: need[what]} for need in needs if what in need]
            if only and not _fit(only, flavors, anywhere):
                return _short(what, [need[what] for need in only], flavors)
        largest = max(needs, key=lambda one: sum(one.values()))
        return Lacking(" and ".join(largest), Fraction(0), None)
    return None


def left_out(resources: Told, what: str) -> bool:
    """Whether Kueue's configuration keeps a resource that no queue covers out of the count.

    Args:
        resources: `resources` of its configuration.
    """
    if resources.get("quotaCheckStrategy") == IGNORES:
        return True
    if any(
        what.startswith(str(prefix)) for prefix in resources.get("excludeResourcePrefixes") or ()
    ):
        return True
    return any(transformation.get("input") == what and transformation.get("strategy") == "Replace"
               for transformation in resources.get("transformations") or ())  # fmt: skip


def takes(cluster_queue: Told, namespace: Told) -> bool:
    """Whether its selector lets a namespace in; without one it lets none in.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements
    """
    selector = (cluster_queue.get("spec") or {}).get("namespaceSelector")
    if selector is None:
        return False
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(
        _matches(expression, labels) for expression in selector.get("matchExpressions") or ()
    )


def _matches(one: Told, labels: Told) -> bool:
    key, values = str(one.get("key")), one.get("values") or ()
    match one.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return True  # an operator of later days: not judged


def _groups(
    cluster_queue: Told,
) -> Iterator[tuple[tuple[str, ...], tuple[Flavor, ...], tuple[str, ...]]]:
    """Each group of resources, with its flavors and their names.

    Where a cohort lends without a limit, what a queue can get is not told here.
    """
    spec = cluster_queue.get("spec") or {}
    shared = bool(spec.get("cohort") or spec.get("cohortName"))
    for group in spec.get("resourceGroups") or ():
        flavors = []
        for flavor in group.get("flavors") or ():
            gives: dict[str, Fraction | None] = {}
            for resource in flavor.get("resources") or ():
                borrows = resource.get("borrowingLimit") if shared else "0"
                gives[str(resource.get("name"))] = (
                    None if borrows is None
                    else parsed(resource.get("nominalQuota", "0")) + parsed(borrows)
                )  # fmt: skip
            flavors.append(gives)
        names = dict.fromkeys([*(group.get("coveredResources") or ()),
                               *(name for gives in flavors for name in gives)])  # fmt: skip
        called = (str(flavor.get("name")) for flavor in group.get("flavors") or ())
        yield tuple(names), tuple(flavors), tuple(called)


def _untolerated(flavor: Told, one: PodSet) -> str:
    """Taints of a flavor that neither pods nor the flavor itself tolerate, as kubectl has them."""
    spec = flavor.get("spec") or {}
    tolerations = (*one.tolerations, *(spec.get("tolerations") or ()))
    taints = (
        taint for taint in spec.get("nodeTaints") or ()
        if taint.get("effect") in ("NoSchedule", "NoExecute")
        and not any(_tolerates(toleration, taint) for toleration in tolerations)
    )  # fmt: skip
    return " ".join(
        f"{taint.get('key')}{'=' * bool(taint.get('value'))}{taint.get('value') or ''}"
        f":{taint.get('effect')}" for taint in taints
    )  # fmt: skip


def _tolerates(toleration: Told, taint: Told) -> bool:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    same = (toleration.get("value") or "") == (taint.get("value") or "")
    return toleration.get("key") == taint.get("key") and (exists or same)


def _counted(one: PodSet) -> Need:
    """Pods are a resource as well, where a queue covers them."""
    return {**one.whole, "pods": Fraction(one.count)}


def _fit(needs: Sequence[Need], flavors: Sequence[Flavor], suits: Sequence[Sequence[int]]) -> bool:
    """Whether some choice of a flavor for each, of those that suit it, has room for all."""
    asking = [need for need in needs if need]
    places = [places for one, places in zip(needs, suits, strict=False) if one]
    return any(_room(asking, chosen, flavors) for chosen in product(*places))


def _room(needs: Sequence[Need], chosen: Sequence[int], flavors: Sequence[Flavor]) -> bool:
    used: dict[tuple[int, str], Fraction] = {}
    for one, flavor in zip(needs, chosen, strict=True):
        for what, much in one.items():
            used[flavor, what] = used.get((flavor, what), Fraction(0)) + much
    for (flavor, what), much in used.items():
        most = flavors[flavor].get(what, Fraction(0))
        if most is not None and much > most:
            return False
    return True


def _short(what: str, needs: Sequence[Fraction], flavors: Sequence[Flavor]) -> Lacking:
    """One set alone is too large, or all together are."""
    gives = [flavor.get(what) or Fraction(0) for flavor in flavors]
    if max(needs) > max(gives, default=Fraction(0)):
        return Lacking(what, max(needs), max(gives, default=Fraction(0)))
    return Lacking(what, sum(needs, Fraction(0)), sum(gives, Fraction(0)))
