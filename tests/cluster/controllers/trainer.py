"""Kubeflow Trainer v2.3, trainer.kubeflow.org/v1alpha1: what it makes of a TrainJob.

Of runtimes its own `torch-distributed` is known here, by what a TrainJob may change of it. Sources:
https://github.com/kubeflow/trainer at 8c0f505 (after v2.3.0-rc.3):
pkg/apis/trainer/v1alpha1/trainjob_types.go (schema, CEL rules),
pkg/runtime/framework/plugins/{torch,jobset} (what its webhook refuses),
manifests/base/runtimes/torch_distributed.yaml.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from tests.cluster.controllers import (
    DNS_1035,
    DOMAIN_PATH,
    InvalidError,
    Manifest,
    at,
    broken,
    filled,
    unchanged,
)

VERSION = "v2.3"
NODE = "node"
"""The job of a runtime whose pods train, and the container in them."""
CONTAINERS: Mapping[str, tuple[str, ...]] = {NODE: (NODE,)}
"""Jobs of `torch-distributed`, and their containers."""
NO_ENV = (NODE, "dataset-initializer", "model-initializer")
RESERVED = (
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
)
MANAGERS = ("trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue")
DEFAULTS = {
    "spec.suspend": False,
    "spec.managedBy": MANAGERS[0],
    "spec.runtimeRef.apiGroup": "trainer.kubeflow.org",
    "spec.runtimeRef.kind": "ClusterTrainingRuntime",
}
IMMUTABLE = (
    "spec.runtimeRef", "spec.initializer", "spec.trainer", "spec.activeDeadlineSeconds",
    "spec.managedBy",
)  # fmt: skip
PATCHED = (
    "serviceAccountName", "volumes", "initContainers", "containers", "imagePullSecrets",
    "securityContext", "nodeSelector", "affinity", "tolerations", "schedulingGates",
    "terminationGracePeriodSeconds",
)  # fmt: skip
"""Of a pod's spec; the schema drops everything else."""


def admitted(job: Manifest, before: Manifest | None = None) -> Manifest:
    """As it is kept, with its defaults.

    Raises:
        InvalidError: The schema, a CEL rule or the webhook refuses it.
    """
    job = filled(job, DEFAULTS)
    name, trainer = job["metadata"]["name"], at(job, "spec.trainer", {})
    said = broken(job, [
        ("metadata.name must match RFC 1035 DNS label format, of 63 characters",
         lambda _: bool(DNS_1035.fullmatch(name))),
        ("spec.runtimeRef.name: required", lambda each: bool(at(each, "spec.runtimeRef.name"))),
        ("ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue",
         lambda each: at(each, "spec.managedBy") in MANAGERS),
        ("spec.activeDeadlineSeconds: must be at least 1",
         lambda each: at(each, "spec.activeDeadlineSeconds", 1) >= 1),
        ("spec.trainer.numNodes: must be at least 0", lambda _: trainer.get("numNodes", 0) >= 0),
        ("numProcPerNode must be greater than or equal to 1",
         lambda _: trainer.get("numProcPerNode", 1) >= 1),
        ("must not have reserved envs",
         lambda _: not {one["name"] for one in trainer.get("env", ())} & set(RESERVED)),
    ])  # fmt: skip
    for patch in at(job, "spec.runtimePatches", []):
        said += _of_a_patch(patch)
    if before is not None:
        said += unchanged(filled(before, DEFAULTS), job, IMMUTABLE, "field is immutable")
        changed = at(before, "spec.runtimePatches") != at(job, "spec.runtimePatches")
        if changed and not (at(before, "spec.suspend") or at(job, "spec.suspend")):
            said.append("RuntimePatches can only be modified when the TrainJob is suspended")
    if said:
        raise InvalidError(said)
    return job


def pod(job: Manifest) -> dict[str, Any]:
    """The spec of a pod that trains: the runtime's, with what the job changes of it."""
    job = admitted(job)
    trainer = at(job, "spec.trainer", {})
    node: dict[str, Any] = {"name": NODE, "image": trainer.get("image", "the runtime's")}
    node |= {key: trainer[key] for key in ("command", "args") if key in trainer}
    count = trainer.get("numNodes", 1)
    own = {"PET_NNODES": str(count), "PET_MASTER_PORT": "29500",
           "PET_MASTER_ADDR": f"{job['metadata']['name']}-{NODE}-0-0.{job['metadata']['name']}",
           "PET_NPROC_PER_NODE": str(trainer.get("numProcPerNode", "auto"))}  # fmt: skip
    node["env"] = [*trainer.get("env", ()), *({"name": k, "value": v} for k, v in own.items())]
    node["volumeMounts"] = []
    spec: dict[str, Any] = {"containers": [node], "volumes": []}
    for place in _patched(job):
        spec["volumes"] += place.get("volumes", [])
        for one in place.get("containers", ()):
            node["volumeMounts"] += one.get("volumeMounts", [])
        spec |= {key: deepcopy(value) for key, value in place.items()
                 if key in PATCHED and key not in ("volumes", "containers")}  # fmt: skip
    return spec


def _of_a_patch(patch: Manifest) -> list[str]:
    said = []
    if not DOMAIN_PATH.fullmatch(patch.get("manager", "")):
        said.append("spec.runtimePatches.manager: must be a domain-prefixed path")
    for one in at(patch, "trainingRuntimeSpec.template.spec.replicatedJobs", []):
        if one["name"] not in CONTAINERS:
            said.append(
                "must not have replicated job that doesn't exist in the runtime job template"
            )
            continue
        place = at(one, "template.spec.template.spec", {})
        said += [f"unknown field {field}" for field in place if field not in PATCHED]
        for container in (*place.get("containers", ()), *place.get("initContainers", ())):
            if container["name"] not in CONTAINERS[one["name"]]:
                said.append(f"must not have container that doesn't exist in the job {one['name']}")
            elif container.get("env") and container["name"] in NO_ENV:
                said.append(f"must not have envs for the {', '.join(NO_ENV)} containers")
    return said


def _patched(job: Manifest) -> list[dict[str, Any]]:
    return [
        at(one, "template.spec.template.spec", {})
        for patch in at(job, "spec.runtimePatches", [])
        for one in at(patch, "trainingRuntimeSpec.template.spec.replicatedJobs", [])
    ]
