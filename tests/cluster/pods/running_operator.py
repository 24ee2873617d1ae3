"""The MPI Operator's double, whose pods run: with SSH keys, a host file and a headless Service.

As mpi-operator 0.8 makes them (pkg/controller/mpi_job_controller.go, v2beta1): Secret `<job>-ssh`,
ConfigMap `<job>-config`, Service `<job>`, and the end of the launcher's Job is the MPIJob's.
"""

import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from kubernetes.client.exceptions import ApiException

from tests.cluster.mpi_operator import JOB_NAME, ROLE, MpiOperator

OPEN_MPI = {
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
}
KEYS = (("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"),
        ("ssh-publickey", "authorized_keys"))  # fmt: skip


class RunningMpiOperator(MpiOperator):
    """Reconciles MPIJobs whose pods run."""

    def _reconcile(self, job: dict[str, Any]) -> None:
        name = job["metadata"]["name"]
        with suppress(ApiException):
            self._beside(job)
        with suppress(ApiException):
            status = self._batch.read_namespaced_job(f"{name}-launcher", self._namespace).status
            if status.succeeded:
                self.finish(name, "Succeeded")
            elif status.failed:
                self.finish(name, "Failed", "the launcher failed")
        super()._reconcile(job)

    def _workers(self, job: dict[str, Any]) -> bool:
        running = super()._workers(job)
        pods = self._pods(job["metadata"]["name"], "worker")
        return running and all(
            each.ready for pod in pods for each in pod.status.container_statuses or ()
        )

    def _beside(self, job: dict[str, Any]) -> None:
        name, namespace = job["metadata"]["name"], self._namespace
        owner = {
            "apiVersion": job["apiVersion"], "kind": "MPIJob", "name": name, "controller": True,
            "uid": job["metadata"]["uid"],
        }  # fmt: skip
        about = {"ownerReferences": [owner], "labels": {JOB_NAME: name}}
        self._core.create_namespaced_service(namespace, {
            "metadata": {"name": name, **about},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True,
                     "selector": {JOB_NAME: name}},
        })  # fmt: skip
        self._core.create_namespaced_secret(namespace, {
            "metadata": {"name": f"{name}-ssh", **about}, "stringData": _keys(),
            "type": "kubernetes.io/ssh-auth",
        })  # fmt: skip
        workers = job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
        lines = [
            f"{name}-worker-{number}.{name}.{namespace}.svc slots={job['spec']['slotsPerWorker']}"
            for number in range(workers)
        ]
        self._core.create_namespaced_config_map(namespace, {
            "metadata": {"name": f"{name}-config", **about},
            "data": {"hostfile": "\n".join(lines) + "\n"},
        })  # fmt: skip

    def _template(
        self, job: dict[str, Any], replicas: dict[str, Any], labels: dict[str, str]
    ) -> dict[str, Any]:
        made = super()._template(job, replicas, labels)
        spec, name = made["spec"], job["metadata"]["name"]
        items = [{"key": key, "path": path} for key, path in KEYS]
        secret = {"secretName": f"{name}-ssh", "items": items}
        spec["volumes"] = [*spec.get("volumes", ()), {"name": "ssh-auth", "secret": secret}]
        first = spec["containers"][0]
        mounts = [{"name": "ssh-auth", "mountPath": job["spec"]["sshAuthMountPath"]}]
        if labels[ROLE] == "launcher":
            spec["volumes"].append({"name": "mpi", "configMap": {"name": f"{name}-config"}})
            mounts.append({"name": "mpi", "mountPath": "/etc/mpi"})
            variables = [{"name": key, "value": value} for key, value in OPEN_MPI.items()]
            first["env"] = [*first.get("env", ()), *variables]
        first["volumeMounts"] = [*first.get("volumeMounts", ()), *mounts]
        return made


def _keys() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-N", "", "-m", "PEM", "-f",
             f"{folder}/key"],
            check=True,
        )  # fmt: skip
        private, public = Path(folder, "key"), Path(folder, "key.pub")
        return {"ssh-privatekey": private.read_text(), "ssh-publickey": public.read_text()}
