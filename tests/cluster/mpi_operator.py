"""A test double of the MPI Operator: an MPIJob -> worker pods, then the launcher's Job.

It follows the names, labels and conditions of mpi-operator 0.8, on a real API server, and the rules
of tests/cluster/controllers/mpi_operator.py; it makes no SSH keys and no host file, and nothing
runs in hollow pods. How a run ends, a test says.
"""

import threading
from contextlib import suppress
from copy import deepcopy
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.cluster.controllers import mpi_operator as rules

GROUP, VERSION, PLURAL = "kubeflow.org", "v2beta1", "mpijobs"
JOB_NAME, ROLE, INDEX = (
    f"training.kubeflow.org/{name}" for name in ("job-name", "job-role", "replica-index")
)
PERIOD_SECONDS = 0.2


class MpiOperator:
    """Reconciles the MPIJobs of one namespace in a thread, until it is closed.

    Args:
        scheduler: Who places the pods; a name that nobody has leaves them to `phase`.

    Attributes:
        events: What it said of jobs that it does not take, once each: it says it nowhere else.
    """

    def __init__(self, api: client.ApiClient, namespace: str, scheduler: str = "") -> None:
        self._core, self._batch = client.CoreV1Api(api), client.BatchV1Api(api)
        self._custom = client.CustomObjectsApi(api)
        self._namespace = namespace
        self._scheduler = scheduler
        self._closing = threading.Event()
        self._ended: dict[str, tuple[str, str]] = {}
        self.events: list[str] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "MpiOperator":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(10)

    def finish(self, name: str, how: str, message: str = "") -> None:
        """The launcher of a run ends: `Succeeded` or `Failed`."""
        self._ended[name] = (how, message)

    def phase(self, pod: str, phase: str, **container: Any) -> None:
        """What a kubelet would say of a pod that nobody placed."""
        state = container or {"running": {}}
        status = {"phase": phase, "containerStatuses": [{
            "name": name, "image": "i", "imageID": "", "ready": False, "restartCount": 0,
            "state": state,
        } for name in ("ranks", "collector")]}  # fmt: skip
        self._core.patch_namespaced_pod_status(pod, self._namespace, {"status": status})

    def _work(self) -> None:
        while not self._closing.wait(PERIOD_SECONDS):
            with suppress(ApiException):
                for job in self._custom.list_namespaced_custom_object(
                    GROUP, VERSION, self._namespace, PLURAL
                )["items"]:
                    # Deleted under our hands, or changed: seen again in a moment.
                    with suppress(ApiException):
                        self._reconcile(job)

    def _reconcile(self, job: dict[str, Any]) -> None:
        name = job["metadata"]["name"]
        if said := rules.validation_errors(job):
            told = f"ValidationError {name}: Found validation errors: {'; '.join(said)}"
            self.events += [told] if told not in self.events else []
            return
        conditions = job.get("status", {}).get("conditions", ())
        true = {one["type"] for one in conditions if one["status"] == "True"}
        if true & set(rules.FINISHED):
            self._clean(job)
            return
        self._say(job, "Created")
        if job["spec"]["runPolicy"].get("suspend"):
            self._clean(job)
            self._say(job, "Suspended")
            return
        ready = self._workers(job)
        if name in self._ended:
            self._say(job, *self._ended[name])
        elif ready:
            self._launcher(job)
            self._say(job, "Running")

    def _workers(self, job: dict[str, Any]) -> bool:
        """Whether all run; those that are missing are created, once."""
        name, replicas = job["metadata"]["name"], job["spec"]["mpiReplicaSpecs"]["Worker"]
        there = self._pods(name, "worker")
        if not there and not self._ran(job):
            for index in range(replicas["replicas"]):
                about = {JOB_NAME: name, ROLE: "worker", INDEX: str(index)}
                template = self._template(job, replicas, about)
                template["metadata"]["name"] = f"{name}-worker-{index}"
                template["spec"] |= {"hostname": f"{name}-worker-{index}", "subdomain": name}
                self._core.create_namespaced_pod(self._namespace, template)
        running = [each for each in there if each.status.phase == "Running"]
        return len(running) == replicas["replicas"]

    def _launcher(self, job: dict[str, Any]) -> None:
        name, replicas = job["metadata"]["name"], job["spec"]["mpiReplicaSpecs"]["Launcher"]
        template = self._template(job, replicas, {JOB_NAME: name, ROLE: "launcher"})
        owners = template["metadata"].pop("ownerReferences")
        launcher = {
            "metadata": {"name": f"{name}-launcher", "ownerReferences": owners},
            "spec": {"template": template, **rules.launcher_job(job)},
        }
        with suppress(ApiException):  # it is there
            self._batch.create_namespaced_job(self._namespace, launcher)

    def _template(
        self, job: dict[str, Any], replicas: dict[str, Any], labels: dict[str, str]
    ) -> dict[str, Any]:
        template = deepcopy(replicas["template"])
        about = template.get("metadata", {})
        owner = {
            "apiVersion": f"{GROUP}/{VERSION}", "kind": "MPIJob", "controller": True,
            "name": job["metadata"]["name"], "uid": job["metadata"]["uid"],
        }  # fmt: skip
        spec = {**template["spec"], "restartPolicy": replicas.get("restartPolicy", "Never")}
        if self._scheduler:
            spec["schedulerName"] = self._scheduler
        return {
            "metadata": {
                "labels": {**about.get("labels", {}), **labels}, "ownerReferences": [owner],
            },
            "spec": spec,
        }  # fmt: skip

    def _clean(self, job: dict[str, Any]) -> None:
        pods = {one.metadata.name: one for one in self._pods(job["metadata"]["name"], "worker")}
        there = {name: one.status.phase for name, one in pods.items()
                 if not one.metadata.deletion_timestamp}  # fmt: skip
        for name in rules.swept(job, there):
            self._core.delete_namespaced_pod(name, self._namespace)

    def _ran(self, job: dict[str, Any]) -> bool:
        told = job.get("status", {}).get("conditions", ())
        return any((one["type"], one["status"]) == ("Running", "True") for one in told)

    def _pods(self, name: str, role: str) -> list[Any]:
        chosen = f"{JOB_NAME}={name},{ROLE}={role}"
        found = self._core.list_namespaced_pod(self._namespace, label_selector=chosen)
        return list(found.items)

    def _say(self, job: dict[str, Any], kind: str, message: str = "") -> None:
        status = job.setdefault("status", {})
        known = status.get("conditions", [])
        told = rules.told(known, kind, "True", message=message)
        if kind == "Suspended":
            told = rules.told(told, "Running", "False", rules.WHY[kind])
        if told == known:
            return
        status["conditions"] = told
        self._custom.patch_namespaced_custom_object_status(
            GROUP, VERSION, self._namespace, PLURAL, job["metadata"]["name"], {"status": status}
        )
