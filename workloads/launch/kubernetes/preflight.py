"""Why a run can never be scheduled, in one sentence; what must only wait for room is not refused.

Only what a cluster has in all counts, not what is free now: others' runs end. What a ResourceQuota
has left counts for a run that is about to start.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

from lockstep.collector.contract.kubernetes import GPU_RESOURCE
from lockstep.collector.contract.words import ExitCode
from lockstep.workloads.launch.kubernetes.cluster_queue import (
    Need,
    PodSet,
    covered,
    format_quantity,
    lacking,
    left_out,
    parsed,
    pod_sets,
    takes,
    total,
    uncovered,
)
from lockstep.workloads.launch.kubernetes.facts import Facts, Told
from lockstep.workloads.launch.kubernetes.pod import RUNS_FOLDER
from lockstep.workloads.launch.kubernetes.settings import (
    MPIJOB,
    WORKFLOW,
    Kind,
    Settings,
    is_hosts_name,
)
from lockstep.workloads.loop.resume import NAME as STEP
from lockstep.workloads.spec import RunSpec

INSTALL = {
    MPIJOB: "install the MPI Operator, or give --kind job",
    WORKFLOW: "install Argo Workflows, or give --launcher kubernetes",
}
OF_KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes sets and takes back by itself: not-ready, unreachable, uninitialized, ...
Only out-of-service is set by hand, on a node that is off, and is taken back once it is up again.
https://kubernetes.io/docs/reference/labels-annotations-taints/"""
Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, with the exit code of docs/reference/command-line.md."""

    code: int
    sentence: str


def refusal(
    facts: Facts, spec: RunSpec, settings: Settings, *, now: bool = True
) -> Refusal | None:  # fmt: skip
    """The first thing that is in the way; None = nothing that is known.

    Args:
        now: It is about to start: a ResourceQuota refuses pods for which it has no room, and nobody
            waits for that. Otherwise only what can never be is in the way.
    """
    sets = pod_sets(spec, settings)
    for check in (
        _name(spec),
        _checkpoint(spec, settings),
        _namespace(facts, settings),
        _served(facts),
        _rights(facts, settings),
        _claim(facts, spec, settings),
        _queue(facts, sets, settings),
        _room(facts, spec, sets[-1]),
        _quotas(facts, sets, settings, now=now),  # last, for it may advise to wait
    ):
        if check is not None:
            return check
    return None


def _name(spec: RunSpec) -> Refusal | None:
    if is_hosts_name(spec.run, spec.layout.nodes):
        return None
    return Refusal(
        ExitCode.USAGE,
        f"the run id {spec.run} names hosts of {spec.layout.nodes} nodes there: it must begin with"
        " a letter, end with a letter or digit, and leave room for `-worker-N` in 63 characters;"
        " give another by --run-id",
    )


def _checkpoint(spec: RunSpec, settings: Settings) -> Refusal | None:
    """An Indexed Job has no launcher in a pod that would look for the latest checkpoint."""
    resume = spec.training.resume
    if resume is None or settings.kind is not Kind.JOB:
        return None
    if re.fullmatch(rf"{STEP}\d+", PurePosixPath(resume).name):
        return None
    return Refusal(
        ExitCode.USAGE,
        f"--resume {resume} is not one checkpoint, which --kind job needs, for nobody there looks"
        f" for the latest; give it as {RUNS_FOLDER}/RUN/checkpoints/{STEP}N, or leave --kind job"
        " out",
    )


def _namespace(facts: Facts, settings: Settings) -> Refusal | None:
    if facts.namespace is None or facts.namespace:
        return None
    return Refusal(
        ExitCode.USAGE,
        f"the cluster has no namespace {settings.namespace}; give --namespace, or create it",
    )


def _served(facts: Facts) -> Refusal | None:
    if not facts.unknown:
        return None
    resource = facts.unknown[0]
    hint = INSTALL.get(resource, "a Kubernetes of 1.24 or later has it")
    return Refusal(
        ExitCode.UNREACHABLE,
        f"the cluster knows no {resource.kind} ({resource.api_version}); {hint}",
    )


def _rights(facts: Facts, settings: Settings) -> Refusal | None:
    if not facts.denied:
        return None
    return Refusal(
        ExitCode.UNREACHABLE,
        f"this account may not {', '.join(map(str, facts.denied))} in namespace"
        f" {settings.namespace}; give it the role lockstep-runs of the chart there",
    )


def _claim(facts: Facts, spec: RunSpec, settings: Settings) -> Refusal | None:
    claim = facts.claim
    if claim is None:
        return None
    name = f"the claim {settings.claim} in namespace {settings.namespace}"
    if not claim:
        return Refusal(
            ExitCode.USAGE,
            f"there is no claim {settings.claim} in namespace {settings.namespace}, which would"
            " keep the archive; give --claim, or create it: the chart does with runs.enabled=true",
        )
    if claim.get("metadata", {}).get("deletionTimestamp"):
        return Refusal(ExitCode.USAGE, f"{name} is being deleted; give another by --claim")
    if claim.get("status", {}).get("phase") == "Lost":
        return Refusal(ExitCode.USAGE, f"{name} has lost its volume; give another by --claim")
    modes = claim.get("spec", {}).get("accessModes") or ()
    if spec.layout.nodes > 1 and "ReadWriteMany" not in modes:
        return Refusal(
            ExitCode.USAGE,
            f"{name} is {' and '.join(modes) or 'without access modes'}, and ranks on"
            f" {spec.layout.nodes} nodes write to it; give one that is ReadWriteMany by --claim",
        )
    return None


def _quotas(
    facts: Facts, sets: Sequence[PodSet], settings: Settings, *, now: bool
) -> Refusal | None:  # fmt: skip
    """The first that can never hold the run; else the first that cannot now."""
    whole, not_now = total(sets), None
    for quota in facts.quotas or ():
        name = quota.get("metadata", {}).get("name")
        used = (quota.get("status", {}).get("used") or {}) if now else {}
        for what, most in hard(quota).items():
            needed = whole.get(what.removeprefix("requests."))
            left = parsed(most) - parsed(used.get(what, "0"))
            if needed is not None and needed > left:
                never = needed > parsed(most)
                refusal = Refusal(
                    ExitCode.USAGE if never else ExitCode.UNREACHABLE,
                    f"the quota {name} of namespace {settings.namespace} leaves"
                    f" {format_quantity(left)} of {format_quantity(parsed(most))} {what}, and the"
                    f" run needs {format_quantity(needed)}; ask for fewer"
                    " --nodes or --ranks-per-node"
                    f"{'' if never else ', or wait until others have ended'}",
                )
                if never:
                    return refusal
                not_now = not_now or refusal
    return not_now


def hard(quota: Told) -> Mapping[str, Any]:
    """What a quota limits for all pods of its namespace; one of some pods only is left out."""
    about = quota.get("spec", {})
    if about.get("scopes") or about.get("scopeSelector"):
        return {}  # and not known of which
    return quota.get("status", {}).get("hard") or about.get("hard") or {}


def _queue(facts: Facts, sets: Sequence[PodSet], settings: Settings) -> Refusal | None:
    """What Kueue can never let in: no such queue, or one without what the run needs."""
    name = f"the queue {settings.queue} of namespace {settings.namespace}"
    if facts.queue is not None and not facts.queue:
        return Refusal(ExitCode.USAGE, f"there is not {name}; give another --queue, or create it")
    if facts.cluster_queue is None:
        return None
    behind = str(((facts.queue or {}).get("spec") or {}).get("clusterQueue", ""))
    if not facts.cluster_queue:
        return Refusal(
            ExitCode.UNREACHABLE, f"{name} leads to the ClusterQueue {behind}, which is not there"
        )
    if facts.namespace and not takes(facts.cluster_queue, facts.namespace):
        return Refusal(
            ExitCode.UNREACHABLE,
            f"{name} leads to the ClusterQueue {behind}, whose namespaceSelector leaves this"
            " namespace out, so Kueue would never let the run in; have it changed, or give another"
            " --queue",
        )
    if facts.kueue_resources is not None:
        missing = [what for what in uncovered(facts.cluster_queue, sets)
                   if not left_out(facts.kueue_resources, what)]  # fmt: skip
        if missing:
            sentence = not_covered(facts.cluster_queue, behind, missing, name)
            return Refusal(ExitCode.USAGE, f"{sentence}, so Kueue would never let it in; {COVER}")
    if (short := lacking(facts.cluster_queue, sets, facts.flavors)) is None:
        return None
    if short.taints:
        return Refusal(
            ExitCode.USAGE,
            f"{name} has room for it only in flavors whose taints its pods do not tolerate"
            f" ({short.taints}; ClusterQueue {behind}), so Kueue would never let it in; have the"
            " flavor bring tolerations, or give another --queue",
        )
    if short.most is None:
        why = f"has no flavor with enough {short.resource} together (ClusterQueue {behind})"
    else:
        why = (
            f"can give at most {format_quantity(short.most)} {short.resource} (ClusterQueue"
            f" {behind}), and the run needs {format_quantity(short.needed)}"
        )
    return Refusal(
        ExitCode.USAGE,
        f"{name} {why}, so Kueue would never let it in; ask for fewer --nodes or --ranks-per-node,"
        " or give another --queue",
    )


COVER = "have the ClusterQueue cover them, or give another --queue"


def not_covered(cluster_queue: Told, behind: str, missing: Sequence[str], name: str) -> str:
    """Begins the sentence about resources for which a queue has no quota."""
    has = ", ".join(covered(cluster_queue)) or "nothing"
    return (
        f"{name} has quotas for {has} (ClusterQueue {behind}), and the run's pods ask for"
        f" {' and '.join(missing)} as well"
    )


def _room(facts: Facts, spec: RunSpec, ranks: PodSet) -> Refusal | None:
    if facts.nodes is None:
        return None
    per_node = ranks.of_one
    usable = [node for node in facts.nodes if _takes(node, gpu=spec.device == "cuda")]
    fitting = [node for node in usable if _fits(node, per_node)]
    layout = spec.layout
    if len(fitting) >= layout.nodes:
        return None
    asked = " and ".join(f"{format_quantity(much)} {what}" for what, much in per_node.items())
    out = len(facts.nodes) - len(usable)
    most = _most(usable, GPU_RESOURCE if spec.device == "cuda" else "cpu")
    return Refusal(
        ExitCode.USAGE,
        f"the run wants {layout.nodes} node{'s' if layout.nodes > 1 else ''} with {asked} each, and"
        f" {len(fitting)} of the cluster's {len(facts.nodes)} can give that"
        f"{f' ({out} tainted)' if out else ''}; {most}; ask for fewer"
        " --nodes or --ranks-per-node"
        f"{', or give --device cpu' if spec.device == 'cuda' and not fitting else ''}",
    )


def _most(nodes: Iterable[Node], what: str) -> str:
    most = max((parsed(_allocatable(node).get(what, "0")) for node in nodes), default=Fraction(0))
    return f"the largest has {format_quantity(most)} {what}"


def away(facts: Facts, spec: RunSpec, ranks: PodSet) -> tuple[int, int]:
    """Nodes that could take pods of a run and are cordoned or not ready, and how many it lacks.

    They come back, or wait to be replaced: nothing that is refused.
    """
    gpu = spec.device == "cuda"
    nodes = facts.nodes or ()
    fitting = [node for node in nodes if _takes(node, gpu=gpu) and _fits(node, ranks.of_one)]
    there = sum(_is_there(node) for node in fitting)
    return len(fitting) - there, max(0, spec.layout.nodes - there)


def _takes(node: Node, *, gpu: bool) -> bool:
    """Whether pods of a run may come there, if it is there: it has no foreign taints.

    Runs tolerate one taint, that of GPU nodes against pods that need none. Those of Kubernetes
    itself say that a node is not there.
    """
    return all(
        taint.get("effect") == "PreferNoSchedule"
        or str(taint.get("key", "")).startswith(OF_KUBERNETES)
        or (gpu and taint.get("key") == GPU_RESOURCE and taint.get("effect") == "NoSchedule")
        for taint in node.get("spec", {}).get("taints") or ()
    )


def _is_there(node: Node) -> bool:
    """Whether it takes pods now: ready, and not cordoned."""
    about = node.get("spec", {})
    passing = (taint for taint in about.get("taints") or ()
               if str(taint.get("key", "")).startswith(OF_KUBERNETES)
               and taint.get("effect") != "PreferNoSchedule")  # fmt: skip
    if about.get("unschedulable") or any(passing):
        return False
    conditions = node.get("status", {}).get("conditions") or ()
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in conditions
    )


def _fits(node: Node, need: Need) -> bool:
    has = _allocatable(node)
    return all(parsed(has.get(what, "0")) >= much for what, much in need.items())


def _allocatable(node: Node) -> Mapping[str, Any]:
    allocatable: Mapping[str, Any] = node.get("status", {}).get("allocatable") or {}
    return allocatable
