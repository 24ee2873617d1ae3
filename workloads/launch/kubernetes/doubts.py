"""What may yet be in the way of a run, in a sentence each: not seen by this account, or not sure.

preflight.py refuses what is known; this is told before the run is created, and stops nothing.
"""

from lockstep.workloads.launch.kubernetes.cluster_queue import pod_sets, uncovered
from lockstep.workloads.launch.kubernetes.facts import SEEN, Facts
from lockstep.workloads.launch.kubernetes.preflight import away, hard, not_covered
from lockstep.workloads.launch.kubernetes.settings import Settings, team_labels
from lockstep.workloads.spec import RunSpec

UNSET = ("limits.cpu", "limits.memory")
"""No container of a run sets them, and those with GPUs no `requests.cpu`: nobody is throttled."""
UNSET_WITH_GPUS = ("cpu", "requests.cpu")


def doubts(facts: Facts, spec: RunSpec, settings: Settings) -> list[str]:
    """What a person should know who wonders why the pods do not come."""
    return [
        each
        for each in (
            _unlabelled(spec),
            _unseen(facts, settings),
            *_unset(facts, spec, settings),
            _uncovered(facts, spec, settings),
            *_held(facts, settings),
            _away(facts, spec, settings),
        )
        if each
    ]


def _unlabelled(spec: RunSpec) -> str:
    """That pods cannot say who pays: run.json of the archive does."""
    if not spec.team or team_labels(spec.team):
        return ""
    return (
        f"the team {spec.team!r} can be no label of pods, so Prometheus will not know it: a label"
        " takes at most 63 letters, digits, '-', '_' and '.', the first and last a letter or digit"
    )


def _unseen(facts: Facts, settings: Settings) -> str:
    """One sentence for all that this account may not see."""
    nodes, quotas, namespace = SEEN
    forbidden = "whether its pods may mount folders of the node"
    if settings.host_rings:
        forbidden += "; where they may not, give --rings pod"
    unseen = {
        f"{nodes} (whether there is room)": facts.nodes is None,
        f"{quotas} (whether quotas leave enough)": facts.quotas is None,
        f"{namespace} ({forbidden})": facts.namespace is None,
    }
    kinds = [what for what, is_unseen in unseen.items() if is_unseen]
    if not kinds:
        return ""
    return f"not checked before the start, for this account may not {', '.join(kinds)}"


def _unset(facts: Facts, spec: RunSpec, settings: Settings) -> list[str]:
    """Quotas that want of every container what ours leave out: a LimitRange may give it."""
    unset = (*UNSET, *(UNSET_WITH_GPUS if spec.device == "cuda" else ()))
    sentences = []
    for quota in facts.quotas or ():
        if wanted := [resource for resource in hard(quota) if resource in unset]:
            name = quota.get("metadata", {}).get("name")
            sentences.append(
                f"the quota {name} of namespace {settings.namespace} wants"
                f" {' and '.join(wanted)} of every container, and runs leave that open: without a"
                " LimitRange there that gives defaults, no pod is created"
            )
    return sentences


def _uncovered(facts: Facts, spec: RunSpec, settings: Settings) -> str:
    """Where Kueue's configuration may not be seen: it may leave resources out of the count."""
    if not facts.cluster_queue or facts.kueue_resources is not None:
        return ""
    missing = uncovered(facts.cluster_queue, pod_sets(spec, settings))
    if not missing:
        return ""
    behind = str(((facts.queue or {}).get("spec") or {}).get("clusterQueue", ""))
    name = f"the queue {settings.queue} of namespace {settings.namespace}"
    return (
        f"{not_covered(facts.cluster_queue, behind, missing, name)}: Kueue never lets it in, unless"
        " its configuration, which this account may not see, leaves those out of the count"
    )


def _away(facts: Facts, spec: RunSpec, settings: Settings) -> str:
    """That nodes which it needs take no pods for now."""
    out, lacks = away(facts, spec, pod_sets(spec, settings)[-1])
    if facts.nodes is None or not lacks:
        return ""
    return (
        f"{out} of the nodes that could take its pods {'is' if out == 1 else 'are'} cordoned or not"
        f" ready, and it needs {lacks} more than are ready: its pods wait, at most --start-timeout"
        f" {settings.start_timeout:g} s"
    )


def _held(facts: Facts, settings: Settings) -> list[str]:
    """That a queue admits nobody for now."""
    sentences = []
    for kind, objects, name in (
        ("LocalQueue", facts.queue, settings.queue),
        ("ClusterQueue", facts.cluster_queue, "behind it"),
    ):
        policy = str(((objects or {}).get("spec") or {}).get("stopPolicy") or "None")
        if policy != "None":
            sentences.append(
                f"the {kind} {name} is stopped (stopPolicy {policy}): Kueue admits nothing until"
                " it is resumed"
            )
    return sentences
