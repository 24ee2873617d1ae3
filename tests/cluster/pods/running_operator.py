"""The MPI Operator's double, whose pods run: with SSH keys, a host file and a headless Service.

As mpi-operator v0.8.2 makes them (pkg/controller/mpi_job_controller.go, v2beta1): Secret
`<job>-ssh`, ConfigMap `<job>-config`, Service `<job>`, labels, variables and names of the pods; a
worker is waited for until its pod is Ready, since the Service tells of no other, and the end of the
launcher's Job is the MPIJob's. Not made: `runLauncherAsWorker`, Intel MPI and MPICH.
"""

import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from kubernetes.client.exceptions import ApiException

from tests.cluster.mpi_operator import JOB_NAME, ROLE, MpiOperator
from tests.cluster.pods.real_nodes import is_ready

OPERATOR_NAME = {"training.kubeflow.org/operator-name": "mpi-operator"}
LAUNCHER_VARIABLES = {
    "K_MPI_JOB_ROLE": "launcher",
    "NVIDIA_VISIBLE_DEVICES": "",
    "NVIDIA_DRIVER_CAPABILITIES": "",
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
        return running and all(map(is_ready, self._pods(job["metadata"]["name"], "worker")))

    def _beside(self, job: dict[str, Any]) -> None:
        name, namespace = job["metadata"]["name"], self._namespace
        owner = {
            "apiVersion": job["apiVersion"], "kind": "MPIJob", "name": name, "controller": True,
            "uid": job["metadata"]["uid"],
        }  # fmt: skip
        about = {"ownerReferences": [owner], "labels": {"app": name}}
        self._core.create_namespaced_service(namespace, {
            "metadata": {"name": name, **about},
            # Names only of pods that are Ready: others are published for runLauncherAsWorker alone.
            "spec": {"clusterIP": "None", "selector": {**OPERATOR_NAME, JOB_NAME: name}},
        })  # fmt: skip
        self._core.create_namespaced_secret(namespace, {
            "metadata": {"name": f"{name}-ssh", **about}, "stringData": _keys(),
            "type": "kubernetes.io/ssh-auth",
        })  # fmt: skip
        workers = job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
        hosts = [f"{name}-worker-{number}.{name}.{namespace}.svc" for number in range(workers)]
        slots = job["spec"]["slotsPerWorker"]
        found = "".join(f"echo {host}\n" for host in hosts)
        self._core.create_namespaced_config_map(namespace, {
            "metadata": {"name": f"{name}-config", **about},
            "data": {"hostfile": "".join(f"{host} slots={slots}\n" for host in hosts),
                     "discover_hosts.sh": f"#!/bin/sh\n{found}"},
        })  # fmt: skip

    def _template(
        self, job: dict[str, Any], replicas: dict[str, Any], labels: dict[str, str]
    ) -> dict[str, Any]:
        made = super()._template(job, replicas, {**OPERATOR_NAME, **labels})
        spec, name = made["spec"], job["metadata"]["name"]
        spec["subdomain"] = name
        items = [{"key": key, "path": path} for key, path in KEYS]
        secret = {"secretName": f"{name}-ssh", "items": items}
        spec["volumes"] = [*spec.get("volumes", ()), {"name": "ssh-auth", "secret": secret}]
        first = spec["containers"][0]
        mounts = [{"name": "ssh-auth", "mountPath": job["spec"]["sshAuthMountPath"]}]
        variables = {"K_MPI_JOB_ROLE": "worker"}
        if labels[ROLE] == "launcher":
            spec["hostname"] = f"{name}-launcher"
            files = {"name": f"{name}-config", "items": [
                {"key": "hostfile", "path": "hostfile", "mode": 0o444},
                {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555},
            ]}  # fmt: skip
            spec["volumes"].append({"name": "mpi-job-config", "configMap": files})
            mounts.append({"name": "mpi-job-config", "mountPath": "/etc/mpi"})
            slots = str(job["spec"]["slotsPerWorker"])
            variables = {**LAUNCHER_VARIABLES, "OMPI_MCA_orte_set_default_slots": slots}
        else:
            searches = [f"{name}.{self._namespace}.svc.cluster.local"]
            spec["dnsConfig"] = {"searches": searches}
        told = [{"name": key, "value": value} for key, value in variables.items()]
        first["env"] = [*first.get("env", ()), *told]
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
