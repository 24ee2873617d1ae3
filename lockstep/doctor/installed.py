"""Whether a release of the chart runs on a cluster, and in a sentence each why the rest does not.

Kubernetes tells that in six places: conditions of pods and claims, states of containers, the last
lines that a container wrote, and events of pods, sets and claims. `look` reads them, `judged` says
what they mean; WHY has the words that are known. Events and states are of Kubernetes 1.20 to 1.33:
https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockstep.workloads.launch.kubernetes.cluster import Cluster

OF_THE_CHART = "app.kubernetes.io/name=lockstep"
COMPONENT = "app.kubernetes.io/component"
TEST = "test"
"""The component of `helm test` itself: not a part of what runs."""
SETS = {"daemonsets": "DaemonSet", "deployments": "Deployment"}
SHOWN = 300
Told = Mapping[str, Any]


class State(StrEnum):
    """`waiting` may still come by itself; `missing` does not."""

    OK = "ok"
    WAITING = "waiting"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Part:
    """One line: what of the release, how it is, what would mend it."""

    name: str
    state: State
    found: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Namespace:
    """What the API tells of one; `denied` names what this account may not list there."""

    name: str
    sets: tuple[Told, ...] = ()
    pods: tuple[Told, ...] = ()
    claims: tuple[Told, ...] = ()
    events: tuple[Told, ...] = ()
    denied: tuple[str, ...] = ()


CLAIMS = (
    "{claims}.persistence.storageClassName or existingClaim, or {claims}.persistence.enabled=false"
)
IMAGE = "image {image}"
WHY: tuple[tuple[str, str, str], ...] = (
    # The registry and what is in it.
    (r"^\w*Image.*(?:unauthorized|denied|403 forbidden|authentication required|no basic auth)",
     "the registry refuses " + IMAGE, "give a Secret that it takes by images.pullSecrets"),
    ((r"^\w*Image.*(?:manifest unknown|manifest for .* not found|name unknown"
      r"|failed to resolve reference .*: not found|repository does not exist)"),
     "the registry has no " + IMAGE,
     "build and push it (deploy/chart/README.md), or set images.registry and images.tag"),
    (r"^\w*Image.*(?:no such host|refused|i/o timeout|TLS handshake|x509|dial tcp|misbehaving)",
     "no registry could be reached for " + IMAGE,
     "set images.registry to one that nodes reach"),
    (r"InvalidImageName", "{image} is no name of an image", "mend images.registry and images.tag"),
    (r"ErrImageNeverPull", "{image} is not on the node, and images.pullPolicy is Never",
     "load it there, or set images.pullPolicy=IfNotPresent"),
    # What the namespace forbids.
    (r'violates PodSecurity "(?P<what>[^":]+)',
     "namespace {namespace} enforces Pod Security {what}, which forbids what {part} mounts or is",
     ("leave collector.createNamespace true, or label it"
     " pod-security.kubernetes.io/enforce=privileged")),
    (r"pod security policy|PodSecurityPolicy", "no pod security policy lets {part} in",
     "let one that allows hostPath be used in namespace {namespace}"),
    (r"exceeded quota: (?P<what>[^,]+)", "the quota {what} of namespace {namespace} is used up",
     "raise it, or lower {part}.resources"),
    (r'RuntimeClass(?:\.node\.k8s\.io)? "?(?P<what>[^" ]+)"? not found',
     "the cluster has no runtime class {what}",
     "set collector.nvml.runtimeClassName to one of `kubectl get runtimeclass`, or empty"),
    (r'[sS]ervice ?[aA]ccount "?(?:[^" ]*/)?(?P<what>[^" /]+)"? (?:was )?not found',
     "there is no account {what} in namespace {namespace}", "`helm upgrade` makes it anew"),
    (r"no matches for kind|is forbidden: User", "the account of {part} may not do what it must",
     "`helm upgrade` makes its role anew"),
    # What the node has not.
    (r'(?:no runtime for|RuntimeHandler) "(?P<what>[^"]+)"',
     "the container runtime of node {node} has no handler {what}",
     "choose nodes that have it by collector.nodeSelector, or set collector.nvml.runtimeClassName"),
    (r"hostPath type check failed: (?P<what>\S+pod-resources\S*) is not",
     "the kubelet of node {node} has no {what}: it is kept elsewhere there",
     "set collector.podResourcesPath to <its root>/pod-resources, or collector.podResources=false"),
    (r"hostPath type check failed: (?P<what>\S+) is not (?P<kind>a \S+)",
     "{what} of node {node} is not {kind}", "mend it there, or leave the node out"),
    (r"mkdir (?P<what>/\S+): (?P<kind>.+)",
     "node {node} has no folder {what}, and it cannot be made: {kind}",
     "make it when the node starts, or leave the node out by {part}.nodeSelector"),
    # What is to be kept or read.
    (r'persistentvolumeclaims? "(?P<what>[^"]+)" not found',
     "there is no claim {what} in namespace {namespace}",
     "create it, or set " + CLAIMS),
    ((r"unbound immediate PersistentVolumeClaims|no persistent volumes available"
     r"|storageclass\S* .*not found|no storage class is set|waiting for a volume to be created"),
     "no provisioner provides a volume for the claim of {part}",
     "set " + CLAIMS),
    (r'(?:secret|configmap) "(?P<what>[^"]+)" not found',
     "there is no Secret or ConfigMap {what} in namespace {namespace}",
     "create it, or mend the value that names it"),
    (r"couldn't find key (?P<what>\S+) in", "a Secret of {part} has no key {what}", "add it there"),
    # Room.
    (r"Insufficient (?P<what>[\w./-]*\w)", "no node has enough {what} for {part}",
     "lower {part}.resources, or choose other nodes by {part}.nodeSelector"),
    (r"didn't match.*(?:selector|affinity)", "no node is chosen by {part}.nodeSelector",
     "choose one that is there: `kubectl get nodes --show-labels`"),
    (r"taint", "all nodes that {part} may use have taints", "set {part}.tolerations"),
    (r"OOMKilled", "{part} was killed for its memory", "raise {part}.resources.limits.memory"),
)  # fmt: skip
"""What Kubernetes or a runtime says -> what it means, and what mends it; the first that fits."""


def look(cluster: "Cluster", name: str) -> Namespace:
    """Of one namespace; what may not be seen is named.

    Raises:
        ClusterError: The API does not answer.
    """
    from lockstep.workloads.launch.kubernetes.cluster import RefusedError

    denied: list[str] = []

    def listed(group: str, plural: str, **query: str) -> tuple[Told, ...]:
        try:
            told = cluster.read(f"{group}/namespaces/{name}/{plural}", **query)
        except RefusedError as error:
            if error.status == 404:
                return ()
            denied.append(plural)
            return ()
        return tuple(told.get("items") or ())

    ours = {"labelSelector": OF_THE_CHART}
    sets = [
        {"kind": kind, **each}
        for plural, kind in SETS.items()
        for each in listed("/apis/apps/v1", plural, **ours)
    ]
    return Namespace(
        name, tuple(sets), listed("/api/v1", "pods", **ours),
        listed("/api/v1", "persistentvolumeclaims", **ours),
        listed("/api/v1", "events", fieldSelector="type=Warning"), tuple(denied),
    )  # fmt: skip


def judged(spaces: Sequence[Namespace]) -> list[Part]:
    """One line for each part of the release, and each claim that no pod of it uses."""
    found: list[Part] = []
    for space in spaces:
        if space.denied:
            found.append(Part(
                f"namespace {space.name}", State.MISSING,
                f"this account may not list {', '.join(space.denied)} there",
                "give it a role that may, or use another by --kubeconfig",
            ))  # fmt: skip
        found += [_of_a_set(each, space) for each in space.sets if _component(each) != TEST]
        found += [part for each in space.claims if (part := _of_a_claim(each, space))]
    if not found:
        names = ", ".join(each.name for each in spaces)
        found.append(Part(
            "release", State.MISSING, f"nothing of the chart is in {names}",
            "name its namespaces by --namespace",
        ))  # fmt: skip
    return found


def settled(parts: Sequence[Part]) -> bool:
    """Whether nothing will change by waiting."""
    return all(each.state is not State.WAITING for each in parts)


def watched(
    cluster: "Cluster", namespaces: Sequence[str], seconds: float,
    clock: Callable[[], float], pause: Callable[[float], None],
) -> list[Part]:  # fmt: skip
    """The release once it is settled, or after so many seconds.

    Raises:
        ClusterError: The API does not answer.
    """
    until = clock() + seconds
    while True:
        parts = judged([look(cluster, name) for name in namespaces])
        if all(each.state is State.OK for each in parts) or clock() >= until:
            return parts
        pause(2.0)


def _of_a_set(tree: Told, space: Namespace) -> Part:
    kind, about, status = tree["kind"], tree["metadata"], tree.get("status") or {}
    name, part = str(about["name"]), _component(tree)
    label = f"{kind} {space.name}/{name}"
    daemons = kind == "DaemonSet"
    wanted = status.get("desiredNumberScheduled") if daemons else tree["spec"].get("replicas", 1)
    ready = int(status.get("numberReady" if daemons else "readyReplicas") or 0)
    owners = {name, *(f"{name}-{hash_}" for hash_ in _hashes(name, space))}
    refused = _events(space, owners, ("FailedCreate",))[-1:]
    wanted = int(wanted or 0)
    unseen = status.get("observedGeneration", 0) < about.get("generation", 1)
    if unseen and not refused:
        return Part(label, State.WAITING, "the cluster has not looked at it yet")
    if daemons and wanted == 0 and not unseen:
        fix = f"choose some by {_value(part)}.nodeSelector: `kubectl get nodes --show-labels`"
        return Part(label, State.MISSING, "it is meant for no node", fix)
    updated = int(status.get("updatedNumberScheduled" if daemons else "updatedReplicas") or 0)
    # As `kubectl rollout status`: pods of the revision before may be all that is ready.
    before = not daemons and int(status.get("replicas") or 0) > updated
    if not unseen and ready >= wanted and updated >= wanted and not before:
        return Part(label, State.OK, f"{ready} of {wanted} ready")
    pods = [
        pod for pod in space.pods
        if _component(pod) == part and not pod["metadata"].get("deletionTimestamp")
    ]  # fmt: skip
    reasons: list[tuple[str, Told | None]] = [why for pod in pods if (why := _of_a_pod(pod, space))]
    if unseen or len(pods) < wanted:
        reasons += [(text, None) for text in refused]
    # A DaemonSet whose first pod is refused has no status yet.
    count = "none ready" if unseen else f"{ready} of {wanted} ready"
    if not unseen and ready >= wanted:
        count = f"{ready} ready, not all of this revision"
    if not reasons:
        return Part(label, State.WAITING, f"{count}: its pods start")
    text, pod = next((one for one in reasons if _known(one[0])), reasons[0])
    found, fix, known = _meaning(text, part, space, pod)
    more = f" (and {len(reasons) - 1} more pods)" if len(reasons) > 1 else ""
    state = State.MISSING if known or pod is None else State.WAITING
    return Part(label, state, f"{count}: {found}{more}", fix)


def _of_a_pod(pod: Told, space: Namespace) -> tuple[str, Told] | None:
    """What Kubernetes says of a pod that is not ready; None = it is, or says nothing."""
    name, status = str(pod["metadata"]["name"]), pod.get("status") or {}
    conditions = status.get("conditions") or ()
    if any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        return None  # how its containers ended before is over
    for one in (
        *(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())
    ):  # fmt: skip
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason", ""))
        ended = [
            told for key in ("state", "lastState")
            if (told := (one.get(key) or {}).get("terminated"))
        ]  # fmt: skip
        if "Image" in reason:
            events = _events(space, {name}, ("Failed",))
            pulls = [each for each in events if "pull" in each]
            return f"{reason}: {waiting.get('message', '')} {' '.join(pulls[-1:])}", pod
        if ended and ended[0].get("exitCode"):
            return _end(str(one.get("name")), ended[0]), pod
        if reason not in ("", "ContainerCreating", "PodInitializing"):
            return f"{reason}: {waiting.get('message', '')}", pod
    for one in conditions:
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return str(one.get("message", "it is not placed")), pod
    events = _events(
        space, {name}, ("FailedMount", "FailedCreatePodSandBox", "FailedAttachVolume", "Unhealthy")
    )
    if events:
        return events[-1], pod
    return (f"pod {name} {status['reason']}", pod) if status.get("reason") else None


def _end(container: str, told: Told) -> str:
    """How a container ended: by its own last line, where it wrote one."""
    reason = str(told.get("reason", ""))
    lines = [line for line in str(told.get("message", "")).splitlines() if line.strip()]
    last = _one_line(lines[-1]) if lines else ""
    said = f": {last}" if last else ""
    why = f" ({reason})" if reason not in ("", "Error") else ""
    return f"its container {container} ended with {told.get('exitCode')}{why}{said}"


def _of_a_claim(tree: Told, space: Namespace) -> Part | None:
    """A claim that is not bound; None = it is, or a set says it already."""
    name, phase = str(tree["metadata"]["name"]), (tree.get("status") or {}).get("phase", "Pending")
    if phase == "Bound":
        return None
    label, part = f"claim {space.name}/{name}", _component(tree)
    if phase == "Lost":
        return Part(
            label, State.MISSING, "its volume is gone", "bring the volume back, or delete it"
        )
    told = _events(space, {name}, ("ProvisioningFailed", "FailedBinding"))
    if told:
        found, fix, _ = _meaning(told[-1], part, space, None)
        return Part(label, State.MISSING, found, fix)
    used = any(
        (volume.get("persistentVolumeClaim") or {}).get("claimName") == name
        for pod in space.pods for volume in (pod.get("spec") or {}).get("volumes") or ()
    )  # fmt: skip
    if used:
        return None
    return Part(
        label, State.OK, "not bound: a volume is made once a pod uses it, or it is bound by hand"
    )


def _meaning(text: str, part: str, space: Namespace, pod: Told | None) -> tuple[str, str, bool]:
    """What is said, what mends it, and whether these words are known."""
    spec = (pod or {}).get("spec") or {}
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or ()
    waits = [one for one in statuses if (one.get("state") or {}).get("waiting")]
    images = [one.get("image") for one in (*waits, *(spec.get("containers") or ()))]
    known = {
        "part": _value(part), "claims": "watch" if part == "dashboard" else _value(part),
        "namespace": space.name, "node": spec.get("nodeName") or "that it is",
        "image": next((str(each) for each in images if each), "of a pod"),
    }  # fmt: skip
    if row := _known(text):
        pattern, sentence, fix = row
        found = re.search(pattern, text, re.IGNORECASE)
        values = {**known, **{k: v or "" for k, v in (found.groupdict() if found else {}).items()}}
        return _one_line(sentence.format(**values)), fix.format(**values), True
    return _one_line(text), "`kubectl describe` shows all of it", " ended with " in text


def _known(text: str) -> tuple[str, str, str] | None:
    if text.startswith("its container ") and "OOMKilled" not in text:
        return None  # its own words are better
    return next((row for row in WHY if re.search(row[0], text, re.IGNORECASE)), None)


def _events(space: Namespace, names: set[str], reasons: Sequence[str]) -> list[str]:
    """Messages of the events of these objects, the oldest first."""
    found = [
        each for each in space.events
        if each.get("reason") in reasons
        and (each.get("involvedObject") or {}).get("name") in names
    ]  # fmt: skip
    found.sort(key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))
    return [str(each.get("message", "")) for each in found]


def _hashes(name: str, space: Namespace) -> Iterator[str]:
    """Of the replica sets of a deployment, by what events call them."""
    for each in space.events:
        owner = str((each.get("involvedObject") or {}).get("name", ""))
        if found := re.fullmatch(rf"{re.escape(name)}-([a-z0-9]{{5,10}})", owner):
            yield found[1]


def _component(tree: Told) -> str:
    return str(((tree.get("metadata") or {}).get("labels") or {}).get(COMPONENT, ""))


def _value(part: str) -> str:
    """The value of the chart that a component is under."""
    return {"tuning": "nodeTuning"}.get(part, part)


def _one_line(text: str) -> str:
    """Printable, on a line, and no longer than somebody reads."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:SHOWN]
