"""What the pods of a run ask for, as the scheduler and Kueue count it: by its own manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from lockstep.workloads.launchers.kubernetes.quantities import parsed
from lockstep.workloads.launchers.kubernetes.settings import Settings
from lockstep.workloads.launchers.kubernetes.submission import submission
from lockstep.workloads.spec import RunSpec

Need = Mapping[str, Fraction]
Told = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one template.

    Attributes:
        each: Resource -> how much one pod asks for.
        tolerations: Of its pods.
    """

    name: str
    count: int
    each: Need
    tolerations: tuple[Told, ...] = ()

    @property
    def whole(self) -> Need:
        """Of all its pods."""
        return {what: self.count * much for what, much in self.each.items()}


def pod_sets(spec: RunSpec, settings: Settings) -> tuple[PodSet, ...]:
    """Of a run, those with ranks last; the steps of a chain around it are not of them."""
    whole = submission(spec, replace(settings, chain=False), ()).whole["spec"]
    if "mpiReplicaSpecs" not in whole:
        return (_pod_set("main", int(whole["parallelism"]), whole["template"]),)
    return tuple(
        _pod_set(name.lower(), int(told["replicas"]), told["template"])
        for name, told in whole["mpiReplicaSpecs"].items()
    )


def _pod_set(name: str, count: int, template: Told) -> PodSet:
    return PodSet(name, count, _asked(template), tuple(template["spec"].get("tolerations") or ()))


def total(sets: Sequence[PodSet]) -> Need:
    """Of all pods of a run, and how many there are."""
    found: dict[str, Fraction] = {"pods": Fraction(sum(each.count for each in sets))}
    for each in sets:
        for what, much in each.whole.items():
            found[what] = found.get(what, Fraction(0)) + much
    return found


def _asked(template: Told) -> Need:
    """Of a pod: its containers together, or the largest of those before them.

    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    pod = template["spec"]
    found: dict[str, Fraction] = {}
    for one in pod["containers"]:
        for what, much in _requests(one).items():
            found[what] = found.get(what, Fraction(0)) + much
    for one in pod.get("initContainers", ()):
        for what, much in _requests(one).items():
            found[what] = max(found.get(what, Fraction(0)), much)
    return found


def _requests(container: Told) -> Need:
    """Where only a limit is given, that is asked for."""
    told = container.get("resources") or {}
    asked = {**(told.get("limits") or {}), **(told.get("requests") or {})}
    return {what: parsed(much) for what, much in asked.items()}
