"""MPI Operator v0.8.2, kubeflow.org/v2beta1: what it makes of an MPIJob.

The API server refuses by the structural schema alone (tests/cluster/mpijob_crd.py). What the
operator itself refuses it tells in an event `ValidationError`, and then creates nothing and writes
no condition. Sources: https://github.com/kubeflow/mpi-operator at caa3c47 (v0.8.2):
pkg/apis/kubeflow/v2beta1/{types,default}.go, pkg/apis/kubeflow/validation/validation.go,
pkg/controller/mpi_job_controller.go and mpi_job_controller_status.go.
"""

from typing import Any

from tests.cluster.controllers import DNS_1035, Manifest, at, broken, filled

VERSION = "v0.8.2"
POLICIES, IMPLEMENTATIONS = ("None", "Running", "All"), ("Intel", "MPICH", "OpenMPI")
RESTARTS = ("Never", "OnFailure")
MANAGERS = ("kubeflow.org/mpi-operator", "kueue.x-k8s.io/multikueue")
DEFAULTS = {
    "spec.runPolicy.cleanPodPolicy": "None",
    "spec.slotsPerWorker": 1,
    "spec.sshAuthMountPath": "/root/.ssh",
    "spec.mpiImplementation": "OpenMPI",
    "spec.launcherCreationPolicy": "AtStartup",
    "spec.mpiReplicaSpecs.Launcher.restartPolicy": "OnFailure",
    "spec.mpiReplicaSpecs.Launcher.replicas": 1,
    "spec.mpiReplicaSpecs.Worker.restartPolicy": "Never",
    "spec.mpiReplicaSpecs.Worker.replicas": 0,
}
WHY = {
    "Created": "MPIJobCreated", "Running": "MPIJobRunning", "Succeeded": "MPIJobSucceeded",
    "Failed": "MPIJobFailed", "Suspended": "MPIJobSuspended",
}  # fmt: skip
FINISHED = ("Succeeded", "Failed")


def defaulted(job: Manifest) -> Manifest:
    """As the operator sees it."""
    whole = filled(job, {"spec.runPolicy": {}})
    return filled(whole, DEFAULTS)


def validation_errors(job: Manifest) -> list[str]:
    """What its event `ValidationError` says; empty = it is reconciled."""
    job = defaulted(job)
    name, workers = job["metadata"]["name"], at(job, "spec.mpiReplicaSpecs.Worker.replicas", 1)
    last = f"{name}-worker-{max(workers, 1) - 1}"
    policy = at(job, "spec.runPolicy", {})
    said = broken(job, [
        (f"metadata.name: invalid DNS label {last}", lambda _: bool(DNS_1035.fullmatch(last))),
        ("spec.mpiReplicaSpecs[Launcher]: must have Launcher replica spec",
         lambda job: bool(at(job, "spec.mpiReplicaSpecs.Launcher"))),
        ("spec.mpiReplicaSpecs[Launcher].replicas: must be 1",
         lambda job: at(job, "spec.mpiReplicaSpecs.Launcher.replicas", 1) == 1),
        ("spec.slotsPerWorker: must not be negative",
         lambda job: at(job, "spec.slotsPerWorker") >= 0),
        ("spec.mpiImplementation: not supported",
         lambda job: at(job, "spec.mpiImplementation") in IMPLEMENTATIONS),
        ("spec.runPolicy.cleanPodPolicy: not supported",
         lambda job: at(job, "spec.runPolicy.cleanPodPolicy") in POLICIES),
        ("spec.runPolicy.managedBy: not supported",
         lambda job: at(job, "spec.runPolicy.managedBy", MANAGERS[0]) in MANAGERS),
    ])  # fmt: skip
    for field in ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"):
        if policy.get(field, 0) < 0:
            said.append(f"spec.runPolicy.{field}: must not be negative")
    for role, replicas in at(job, "spec.mpiReplicaSpecs", {}).items():
        where = f"spec.mpiReplicaSpecs[{role}]"
        if role == "Worker" and at(job, "spec.mpiReplicaSpecs.Worker.replicas") <= 0:
            said.append(f"{where}.replicas: must be greater than or equal to 1")
        if replicas.get("restartPolicy") not in RESTARTS:
            said.append(f"{where}.restartPolicy: not supported")
        if not at(replicas, "template.spec.containers"):
            said.append(f"{where}.template.spec.containers: must define at least one container")
    return said


def launcher_job(job: Manifest) -> Manifest:
    """The `batch/v1` Job of the launcher: what of the run policy is its alone."""
    policy = defaulted(job)["spec"]["runPolicy"]
    handed_on = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    spec = {name: policy[name] for name in handed_on if name in policy}
    return spec | ({"suspend": True} if policy.get("suspend") else {})


def swept(job: Manifest, phases: dict[str, str]) -> list[str]:
    """Workers that it deletes once the job has finished, or is suspended, by name -> phase.

    With `Running`, pending ones go as well; what failed or succeeded stays.
    """
    policy = at(defaulted(job), "spec.runPolicy.cleanPodPolicy")
    suspended = bool(at(job, "spec.runPolicy.suspend"))
    if policy == "None" and not suspended:
        return []
    return [
        name for name, phase in phases.items()
        if policy != "Running" or phase in ("Running", "Pending")
    ]  # fmt: skip


def told(conditions: list[dict[str, Any]], kind: str, status: str, reason: str = "",
         message: str = "") -> list[dict[str, Any]]:  # fmt: skip
    """Its conditions after one more: of a type there is one, and the end makes others false.

    An end that comes after another (an eviction is `Failed` at once, and the launcher may go on)
    makes the first false.
    """
    found = next((one for one in conditions if one["type"] == kind), None)
    reason = reason or WHY.get(kind, kind)
    if found and (found["status"], found["reason"]) == (status, reason):
        return conditions
    ends = kind in FINISHED
    kept = [
        {**one, "status": "False"} if ends and one["type"] in ("Running", "Failed") else one
        for one in conditions if one["type"] != kind
    ]  # fmt: skip
    return [*kept, {"type": kind, "status": status, "reason": reason, "message": message}]
