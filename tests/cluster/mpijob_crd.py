"""MPIJob v2beta1 as far as we write it: for the real API server, and closed as a schema.

Written from the fields' documentation in https://github.com/kubeflow/mpi-operator,
pkg/apis/kubeflow/v2beta1/types.go; it is not the operator's own file.
"""

from typing import Any

Schema = dict[str, Any]

_WHOLE = {"type": "integer", "minimum": 0}
_TEMPLATE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_REPLICAS = {
    "type": "object",
    "required": ["template"],
    "properties": {
        "replicas": _WHOLE,
        "restartPolicy": {"type": "string", "enum": ["Never", "OnFailure"]},
        "template": _TEMPLATE,
    },
}
SPEC: Schema = {
    "type": "object",
    "required": ["mpiReplicaSpecs"],
    "properties": {
        "slotsPerWorker": {"type": "integer", "minimum": 1, "default": 1},
        "runLauncherAsWorker": {"type": "boolean", "default": False},
        "launcherCreationPolicy": {
            "type": "string", "enum": ["AtStartup", "WaitForWorkersReady"], "default": "AtStartup",
        },
        "mpiImplementation": {
            "type": "string", "enum": ["OpenMPI", "Intel", "MPICH"], "default": "OpenMPI",
        },
        "sshAuthMountPath": {"type": "string", "default": "/root/.ssh"},
        "runPolicy": {
            "type": "object",
            "properties": {
                "cleanPodPolicy": {"type": "string", "enum": ["None", "Running", "All"]},
                "ttlSecondsAfterFinished": _WHOLE,
                "activeDeadlineSeconds": _WHOLE,
                "backoffLimit": _WHOLE,
                "suspend": {"type": "boolean", "default": False},
            },
        },
        "mpiReplicaSpecs": {
            "type": "object",
            "required": ["Launcher"],
            "properties": {"Launcher": _REPLICAS, "Worker": _REPLICAS},
        },
    },
}  # fmt: skip
CRD: Schema = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "mpijobs.kubeflow.org"},
    "spec": {
        "group": "kubeflow.org",
        "scope": "Namespaced",
        "names": {
            "kind": "MPIJob", "listKind": "MPIJobList", "plural": "mpijobs", "singular": "mpijob",
        },
        "versions": [{
            "name": "v2beta1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": SPEC,
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }},
        }],
    },
}  # fmt: skip


def closed(schema: Any) -> Any:
    """The schema for jsonschema, which then refuses every field that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(each) for name, each in schema.items() if not name.startswith("x-")}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields")
    if "properties" in schema and not is_open:
        inner["additionalProperties"] = False
    return inner
