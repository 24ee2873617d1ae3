"""How a run is put onto a cluster: everything that RunSpec does not say."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lockstep.collector.contract.kubernetes import (
    ROLE_LABEL,
    RUN_LABEL,
    RUNS_ACCOUNT,
    RUNS_NAMESPACE,
    TEAM_LABEL,
)

DEFAULT_CLAIM = RUNS_ACCOUNT
"""The claim of the chart; its name is the account's."""


class Kind(StrEnum):
    """What starts the ranks there."""

    MPIJOB = "mpijob"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one run.

    Attributes:
        image: Of every pod, with the extras `workloads`, `collector` and `kubernetes`.
        analyzer_image: Of the steps after the run in a Workflow, with the extra `analyzer`.
        claim: PersistentVolumeClaim that keeps archive, logs and checkpoints, at `/runs`.
        chain: The run, its analysis and its report, as a Workflow.
        timeout: Seconds of the run itself, counted from when all its pods run: neither the time in
            a queue nor that of images is of them.
        start_timeout: Seconds within which every pod must run.
        host_rings: Whether rings lie on the node, where its DaemonSet reads them; else in the pod.
        submission: Tells what this launch creates from all else of that name; empty = its uid does.
        queue: LocalQueue of Kueue in which its job waits for quota; empty = none.
        measured: After an MPIJob, a Job analyzes its archive and tells how fast it was.
        queue_timeout: Seconds that it may wait there.
        submitted: When somebody asked for the run, RFC 3339; empty = nobody says.
        step: The run is a step of the chain that has the same `submission`, which owns it.
    """

    image: str
    analyzer_image: str = ""
    namespace: str = RUNS_NAMESPACE
    kind: Kind = Kind.MPIJOB
    claim: str = DEFAULT_CLAIM
    chain: bool = False
    timeout: float = 3600.0
    start_timeout: float = 300.0
    host_rings: bool = True
    submission: str = ""
    step: bool = False
    measured: bool = False
    submitted: str = ""
    queue_timeout: float = math.inf
    queue: str = ""


# Names of the objects of a run, and their paths in the API.
#
# Sources: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ (DNS labels),
# the MPIJob API v2beta1 of https://github.com/kubeflow/mpi-operator, and Argo's
# https://argo-workflows.readthedocs.io/en/latest/fields/.

JOB_INDEX = "batch.kubernetes.io/job-completion-index"
LAUNCHER, WORKER, STEP = "launcher", "worker", "step"
"""Roles of pods; ROLE_LABEL says them."""
RANKS, COLLECTOR = "ranks", "collector"
"""Containers of a worker."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object.

    Attributes:
        group: Of its API; empty = core.
        plural: As the API's paths and RBAC have it.
    """

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        """As a manifest says it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_path(self) -> str:
        """Where the API says what it serves of this version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str, name: str = "") -> str:
        """Of all in a namespace, or of one."""
        whole = f"{self.group_path}/namespaces/{namespace}/{self.plural}"
        return f"{whole}/{name}" if name else whole


MPIJOB = Resource("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
JOB = Resource("batch", "v1", "Job", "jobs")
WORKFLOW = Resource("argoproj.io", "v1alpha1", "Workflow", "workflows")
SERVICE = Resource("", "v1", "Service", "services")
POD = Resource("", "v1", "Pod", "pods")
CLAIM = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
QUOTA = Resource("", "v1", "ResourceQuota", "resourcequotas")


_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
"""A name of a Service and of a host: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/."""

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
"""https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set;
an empty one says nothing."""


def object_name(run: str) -> str:
    """What the API calls a run: its id in lower case."""
    return run.lower()


def is_hosts_name(run: str, nodes: int) -> bool:
    """Whether a Service and its last worker may be called so.

    The MPI Operator creates nothing for an MPIJob whose workers may not, and says so in an event
    alone (v0.8, pkg/apis/kubeflow/validation).
    """
    return bool(_DNS_1035.fullmatch(f"{object_name(run)}-worker-{nodes - 1}")) and bool(
        _DNS_1035.fullmatch(object_name(run))
    )


def labels(run: str, role: str = "") -> dict[str, str]:
    """On everything that a run creates."""
    by_key = {"app.kubernetes.io/part-of": "lockstep", RUN_LABEL: run}
    return {**by_key, ROLE_LABEL: role} if role else by_key


def team_labels(team: str) -> dict[str, str]:
    """Who pays, where a label can say it; beside `labels`, which select and must not change."""
    return {TEAM_LABEL: team} if _LABEL_VALUE.fullmatch(team) else {}


def selector(run: str) -> str:
    """Selects every object of a run."""
    return f"{RUN_LABEL}={run}"


def stop_command(resources: Sequence[Resource], namespace: str, which: str) -> str:
    """What a person types to end a run by hand.

    Args:
        resources: The first owns all else; others may be gone already.
        which: A name, or a selector of labels with its option.
    """
    kinds = ",".join(f"{resource.plural}.{resource.group}" for resource in resources)
    missing = " --ignore-not-found" if len(resources) > 1 else ""
    return f"kubectl -n {namespace} delete {kinds} {which}{missing}"
