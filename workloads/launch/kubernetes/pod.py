"""Pods of a run: what a worker of an MPIJob and a pod of an Indexed Job have in common.

One pod a node: pods of a run refuse each other's node. Rings lie where docs/method/collecting.md
puts them, on the node under the pod's own uid, and RAS of NCCL answers at the pod's address.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.collector.contract.kubernetes import (
    GPU_RESOURCE,
    ROLE_LABEL,
    RUN_LABEL,
    SUBMISSION_LABEL,
)
from lockstep.workloads.launch.kubernetes.kueue import QUEUE_LABEL
from lockstep.workloads.launch.kubernetes.settings import (
    COLLECTOR,
    WORKER,
    Settings,
    labels,
    object_name,
    team_labels,
)
from lockstep.workloads.spec import RunSpec

Manifest = dict[str, Any]

SUBMITTED = "LOCKSTEP_SUBMITTED"
"""Variable with the time at which a run was asked for; the ledger counts queueing from there."""
RUNS_FOLDER = "/runs"
RINGS_FOLDER = "/run/lockstep"
"""On the node and in the pod; the chart's DaemonSet reads the node's."""
USER = 1000
"""`mpiuser`, as in the images of the MPI Operator: sshd lets in only who has an account."""
CPU_OF_A_RANK, MEMORY_OF_A_RANK = 500, "1Gi"
"""Millicores without a GPU: an emulated device waits most of its time."""
RAS_PORT = 28028
COLLECTOR_PORT = 9410
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where NCCL and gloo exchange inside a pod
STOPPING = "python -m lockstep.workloads.launch.ring_state {0}; rm -rf {0}/*"
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
LAUNCHER_RESOURCES: Manifest = {"requests": {"cpu": "500m", "memory": "1Gi"}}


def archive_folder(spec: RunSpec) -> str:
    """Where the archive lies on the claim, as pods see it."""
    return f"{RUNS_FOLDER}/{spec.run}"


def resources(spec: RunSpec) -> Manifest:
    """What the ranks of one node ask for."""
    ranks = spec.layout.ranks_per_node
    memory = f"{ranks * int(MEMORY_OF_A_RANK[:-2])}Gi"
    if spec.device == "cuda":
        gpus = {GPU_RESOURCE: str(ranks)}
        return {"requests": {**gpus, "memory": memory}, "limits": gpus}
    return {"requests": {"cpu": f"{ranks * CPU_OF_A_RANK}m", "memory": memory}}


def environment() -> list[Manifest]:
    """Variables of a pod with ranks."""
    return [
        _of_the_pod("POD_UID", "metadata.uid"),
        _of_the_pod("POD_IP", "status.podIP"),
        _of_the_pod("LOCKSTEP_NODE", "spec.nodeName"),
        {"name": "LOCKSTEP_DIR", "value": RINGS_FOLDER},
        {"name": "NCCL_RAS_ADDR", "value": f"$(POD_IP):{RAS_PORT}"},
    ]


def mounts(spec: RunSpec, settings: Settings) -> list[Manifest]:
    """Of a container with ranks.

    The ranks' own folder of the run is the mount, so that rings lie one level below the node's
    folder, under the pod's uid: that is where its collector looks.
    """
    rings: Manifest = {"name": "rings", "mountPath": f"{RINGS_FOLDER}/{spec.run}"}
    if settings.host_rings:
        rings["subPathExpr"] = "$(POD_UID)"
    return [
        rings,
        {"name": "runs", "mountPath": RUNS_FOLDER},
        {"name": "shared-memory", "mountPath": SHARED_MEMORY},
    ]


def worker(spec: RunSpec, settings: Settings, ranks: Manifest, *, sidecar: bool) -> Manifest:
    """The template of a pod that holds the ranks of one node.

    Args:
        ranks: The container's own part: name, command and what goes with it.
        sidecar: With a collector beside the ranks, whose page the launcher records.
    """
    run, rings = spec.run, f"{RINGS_FOLDER}/{spec.run}"
    whole = {
        "image": settings.image,
        "resources": resources(spec),
        "securityContext": RESTRICTED,
        "volumeMounts": mounts(spec, settings),
        # A pod that somebody deletes says so for its ranks, and leaves no rings on the node.
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", STOPPING.format(rings)]}}},
        **ranks,
        "env": [*environment(), *ranks.get("env", ())],
    }
    template = _template(spec, WORKER, [whole, *([_collector(spec, settings)] if sidecar else [])])
    pod = template["spec"]
    if settings.host_rings:
        pod["initContainers"] = [_opens_rings(spec, settings)]
    if sidecar:
        pod["shareProcessNamespace"] = True  # it sees whether a rank lives
    pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {RUN_LABEL: run, ROLE_LABEL: WORKER}},
    }]}}  # fmt: skip
    if spec.device == "cuda":
        pod["tolerations"] = [{"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}]
    pod["volumes"] = [
        {"name": "rings", **_rings(settings)},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        claim_volume(settings),
    ]
    return template


def single(spec: RunSpec, settings: Settings, role: str, container: Manifest) -> Manifest:
    """The template of a pod without ranks."""
    whole = {
        "image": settings.image,
        "resources": LAUNCHER_RESOURCES,
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "runs", "mountPath": RUNS_FOLDER}],
        **container,
    }
    template = _template(spec, role, [whole])
    template["spec"]["volumes"] = [claim_volume(settings)]
    return template


def claim_volume(settings: Settings) -> Manifest:
    """What keeps archives."""
    return {"name": "runs", "persistentVolumeClaim": {"claimName": settings.claim}}


def pod_security() -> Manifest:
    """What the restricted Pod Security profile asks of a pod."""
    return {
        "runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip


def owned_by(made: Mapping[str, Any]) -> list[Manifest]:
    """The owner whose end is the end of what is his, by the garbage collector of the cluster."""
    about = made["metadata"]
    return [{
        "apiVersion": made["apiVersion"], "kind": made["kind"], "name": about["name"],
        "uid": about["uid"],
    }]  # fmt: skip


def metadata(spec: RunSpec, settings: Settings) -> Manifest:
    """Of the one object that owns all others."""
    own = {SUBMISSION_LABEL: settings.submission} if settings.submission else {}
    if settings.queue and not settings.chain:  # of a chain the job that it creates is queued
        own[QUEUE_LABEL] = settings.queue
    return {
        "name": object_name(spec.run),
        "namespace": settings.namespace,
        "labels": {**labels(spec.run), **team_labels(spec.team), **own},
    }


def _template(spec: RunSpec, role: str, containers: Sequence[Manifest]) -> Manifest:
    return {
        "metadata": {"labels": {**labels(spec.run, role), **team_labels(spec.team)}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 20,
            "securityContext": pod_security(),
            "containers": list(containers),
        },
    }


def _collector(spec: RunSpec, settings: Settings) -> Manifest:
    return {
        "name": COLLECTOR,
        "image": settings.image,
        "command": ["lockstep", "collect"],
        "args": [
            f"--listen=0.0.0.0:{COLLECTOR_PORT}", f"--lockstep-dir={RINGS_FOLDER}/{spec.run}",
            f"--ras=$(POD_IP):{RAS_PORT}",
        ],
        "env": [*environment(), _of_the_pod("LOCKSTEP_COLLECTOR_NODE_NAME", "spec.nodeName")],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
        "securityContext": RESTRICTED,
        "volumeMounts": [{**mounts(spec, settings)[0], "readOnly": True}],
    }  # fmt: skip


def _opens_rings(spec: RunSpec, settings: Settings) -> Manifest:
    """Lets our user write: the kubelet makes a sub-path of a host path root's, for nobody else."""
    folder = f"{RINGS_FOLDER}/{spec.run}"
    return {
        "name": "rings",
        "image": settings.image,
        "command": ["chmod", "1777", folder],
        "env": environment()[:1],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "securityContext": {**RESTRICTED, "runAsUser": 0, "runAsNonRoot": False},
        "volumeMounts": mounts(spec, settings)[:1],
    }


def _rings(settings: Settings) -> Manifest:
    if settings.host_rings:
        return {"hostPath": {"path": RINGS_FOLDER, "type": "DirectoryOrCreate"}}
    return {"emptyDir": {"sizeLimit": "256Mi"}}


def _of_the_pod(name: str, field: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}
