"""Whether a ClusterQueue of Kueue could let a run in, were nobody else there.

Kueue gives each set of pods one flavor of every group of resources, which must have room for all of
them together, and taints that they tolerate. Flavors' labels are of no account: no pod of ours has
a node selector. What no group covers is `unavailable in ClusterQueue`, unless its own configuration
leaves that out of the count.

Sources: kueue v0.20, pkg/scheduler/flavorassigner/flavorassigner.go, pkg/workload/resources.go, and
apis/config/v1beta2/configuration_types.go (Resources).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from lockstep.workloads.launchers.kubernetes.pod_sets import Need, PodSet
from lockstep.workloads.launchers.kubernetes.quantities import parsed

Told = Mapping[str, Any]
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
    asked = dict.fromkeys(what for one in sets for what, much in one.each.items() if much)
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
        needs = [{what: much for what, much in _counted(one).items() if what in names and much}
                 for one in sets]  # fmt: skip
        repel = [{name: _untolerated(known.get(name) or {}, one) for name in called}
                 for one in sets]  # fmt: skip
        suits = [[place for place, name in enumerate(called) if not taints[name]]
                 for taints in repel]  # fmt: skip
        if _fit(needs, flavors, suits):
            continue
        anywhere = [range(len(flavors))] * len(needs)
        if _fit(needs, flavors, anywhere):
            met = [taints for need, taints in zip(needs, repel, strict=True) if need]
            told = {f"{name}: {taints[name]}" for taints in met for name in called if taints[name]}
            return Lacking(" and ".join(names), Fraction(0), None, ", ".join(sorted(told)))
        for what in names:
            only = [{what: one[what]} for one in needs if what in one]
            if only and not _fit(only, flavors, anywhere):
                return _short(what, [one[what] for one in only], flavors)
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
    if any(what.startswith(str(one)) for one in resources.get("excludeResourcePrefixes") or ()):
        return True
    return any(one.get("input") == what and one.get("strategy") == "Replace"
               for one in resources.get("transformations") or ())  # fmt: skip


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
    return all(_matches(one, labels) for one in selector.get("matchExpressions") or ())


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
            for one in flavor.get("resources") or ():
                borrows = one.get("borrowingLimit") if shared else "0"
                gives[str(one.get("name"))] = (
                    None if borrows is None
                    else parsed(one.get("nominalQuota", "0")) + parsed(borrows)
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
    found = (
        taint for taint in spec.get("nodeTaints") or ()
        if taint.get("effect") in ("NoSchedule", "NoExecute")
        and not any(_tolerates(each, taint) for each in tolerations)
    )  # fmt: skip
    return " ".join(
        f"{each.get('key')}{'=' * bool(each.get('value'))}{each.get('value') or ''}"
        f":{each.get('effect')}" for each in found
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
    asking = [one for one in needs if one]
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
    gives = [each.get(what) or Fraction(0) for each in flavors]
    if max(needs) > max(gives, default=Fraction(0)):
        return Lacking(what, max(needs), max(gives, default=Fraction(0)))
    return Lacking(what, sum(needs, Fraction(0)), sum(gives, Fraction(0)))
