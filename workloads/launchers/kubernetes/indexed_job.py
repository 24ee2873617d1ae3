"""A run as an Indexed Job, where there is no MPI Operator: torchrun in one pod a node.

Ranks meet at the first pod, which a headless Service names. Nobody records such a run: its steps
and samples are on the page of the node's collector, for Prometheus.

Sources: https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication/ and
https://docs.pytorch.org/docs/stable/elastic/run.html.
"""

from pathlib import Path

from lockstep.workloads.joining.job_file import Job
from lockstep.workloads.launchers.kubernetes.mpijob import KEPT_SECONDS, MEETING_PORT
from lockstep.workloads.launchers.kubernetes.names import (
    JOB,
    JOB_INDEX,
    RANKS,
    SERVICE,
    WORKER,
    labels,
    object_name,
)
from lockstep.workloads.launchers.kubernetes.pod import Manifest, archive_folder, metadata, worker
from lockstep.workloads.launchers.kubernetes.settings import Settings
from lockstep.workloads.spec import RunSpec

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


def job(spec: RunSpec, settings: Settings) -> Manifest:
    """The Job; the service must be in the same namespace under the same name."""
    layout, name = spec.layout, object_name(spec.run)
    told = Job(spec, Path(archive_folder(spec)), hosts=layout.nodes)
    ranks: Manifest = {
        "name": RANKS,
        "command": ["torchrun"],
        "args": [
            f"--nnodes={layout.nodes}", f"--nproc-per-node={layout.ranks_per_node}",
            f"--node-rank=$({INDEX})", f"--master-addr={name}-0.{name}",
            f"--master-port={MEETING_PORT}", "-m", "lockstep.workloads", told.text(),
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
