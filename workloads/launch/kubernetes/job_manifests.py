"""A run as an MPIJob, or as an Indexed Job where there is no MPI Operator.

An Indexed Job runs torchrun in one pod a node. Its ranks meet at the first pod, which a headless
Service names. Such a run is not recorded: its steps and samples are on the page of the node's
collector, for Prometheus.

Sources: https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication/ and
https://docs.pytorch.org/docs/stable/elastic/run.html.
"""

from collections.abc import Sequence
from pathlib import Path

from lockstep.workloads.launch.joining.job_file import Job
from lockstep.workloads.launch.kubernetes.pod import (
    RAS_PORT,
    RINGS_FOLDER,
    SUBMITTED,
    Manifest,
    archive_folder,
    metadata,
    single,
    worker,
)
from lockstep.workloads.launch.kubernetes.settings import (
    JOB,
    JOB_INDEX,
    LAUNCHER,
    MPIJOB,
    RANKS,
    SERVICE,
    WORKER,
    Settings,
    labels,
    object_name,
)
from lockstep.workloads.spec import RunSpec

# An MPIJob v2beta1: workers wait at sshd, one launcher runs mpirun.
#
# The launcher is `lockstep run --launcher mpirun` itself: it records the collectors of the workers
# and writes the archive onto the claim. Two things there are known to go wrong without a word, and
# are told here: Open MPI 5 takes no notice of the host file that the operator names in variables of
# Open MPI 4 (kubeflow/mpi-operator, issue 842), so mpirun is given the file, and every rank checks
# how many there are on how many hosts (workloads/launch/joining/meeting.py).
#
# Fields: https://github.com/kubeflow/mpi-operator, pkg/apis/kubeflow/v2beta1/types.go.

HOSTFILE = "/etc/mpi/hostfile"
HOME = "/home/mpiuser"
SSH_PORT = 2222
"""Of an sshd that is not root, as in the operator's own images."""
MEETING_PORT = 29500
KEPT_SECONDS = 3600
"""A finished Job or Workflow is removed by the cluster after that, where nobody else did; of an
MPIJob its launcher's Job alone, for the operator hands the number on and deletes no MPIJob."""
MPI_VARIABLES = {
    "LOCKSTEP_DIR": RINGS_FOLDER,
    # The host file has names of pods; who is paged looks for nodes (lockstep/runs/launching.py).
    "LOCKSTEP_NODE_NAMES": "collectors",
    # One value for all hosts, so it is no pod's own address: RAS listens on all of a pod's.
    "NCCL_RAS_ADDR": f"0.0.0.0:{RAS_PORT}",
    "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10",
    "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
}


def mpi_job(spec: RunSpec, settings: Settings, command: Sequence[str]) -> Manifest:
    """The MPIJob.

    Args:
        command: What the launcher runs, with HOSTFILE as its host file.
    """
    name = object_name(spec.run)
    variables = {
        **MPI_VARIABLES,
        # Where rank 0 is, by the operator's own name for it: ranks meet without mpi4py, too.
        "MASTER_ADDR": f"{name}-worker-0.{name}.{settings.namespace}.svc",
        "MASTER_PORT": str(MEETING_PORT),
        **({SUBMITTED: settings.submitted} if settings.submitted else {}),
    }
    launcher: Manifest = {
        "name": LAUNCHER,
        "command": list(command),
        "env": [{"name": each, "value": value} for each, value in variables.items()],
    }
    sshd: Manifest = {
        "name": RANKS,
        "command": ["/usr/sbin/sshd"],
        "args": ["-De", "-f", f"{HOME}/.sshd_config"],
        "ports": [{"name": "ssh", "containerPort": SSH_PORT}],
        "readinessProbe": {"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 2},
    }
    return {
        "apiVersion": MPIJOB.api_version,
        "kind": MPIJOB.kind,
        "metadata": metadata(spec, settings),
        "spec": {
            "slotsPerWorker": spec.layout.ranks_per_node,
            "runLauncherAsWorker": False,
            # Otherwise it fails until sshd answers everywhere, and counts as failed.
            "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiImplementation": "OpenMPI",
            "sshAuthMountPath": f"{HOME}/.ssh",
            "runPolicy": {
                # Frees the GPUs at once; the launcher and what failed stay for their logs.
                "cleanPodPolicy": "Running",
                "backoffLimit": 0,
                # Of the launcher's Job, from when it may start: cluster_run.py counts the run.
                "activeDeadlineSeconds": round(settings.timeout + settings.start_timeout),
                "ttlSecondsAfterFinished": KEPT_SECONDS,
                "suspend": False,
            },
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "restartPolicy": "Never",
                    "template": single(spec, settings, LAUNCHER, launcher),
                },
                "Worker": {
                    "replicas": spec.layout.nodes,
                    "restartPolicy": "Never",
                    "template": worker(spec, settings, sshd, sidecar=True),
                },
            },
        },
    }


INDEX = "LOCKSTEP_POD_INDEX"


def service(spec: RunSpec, settings: Settings) -> Manifest:
    """Gives every pod a name, also before it is ready: ranks meet on the way there."""
    return {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": metadata(spec, settings),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels(spec.run, WORKER),
            "ports": [{"name": "meeting", "port": MEETING_PORT}],
        },
    }


def indexed_job(spec: RunSpec, settings: Settings) -> Manifest:
    """The Job; the service must be in the same namespace under the same name."""
    layout, name = spec.layout, object_name(spec.run)
    rank_job = Job(spec, Path(archive_folder(spec)), hosts=layout.nodes)
    ranks: Manifest = {
        "name": RANKS,
        "command": ["torchrun"],
        "args": [
            f"--nnodes={layout.nodes}", f"--nproc-per-node={layout.ranks_per_node}",
            f"--node-rank=$({INDEX})", f"--master-addr={name}-0.{name}",
            f"--master-port={MEETING_PORT}", "-m", "lockstep.workloads", rank_job.text(),
        ],
        "env": [{
            "name": INDEX,
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{JOB_INDEX}']"}},
        }],
    }  # fmt: skip
    template = worker(spec, settings, ranks, sidecar=False)
    template["spec"]["subdomain"] = name
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": metadata(spec, settings),
        "spec": {
            "completionMode": "Indexed",
            "completions": layout.nodes,
            "parallelism": layout.nodes,
            "backoffLimit": 0,  # ranks that are left cannot go on without the others
            # It counts from when the Job may start, images and all: cluster_run.py counts the run.
            "activeDeadlineSeconds": round(settings.timeout + settings.start_timeout),
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": template,
        },
    }
