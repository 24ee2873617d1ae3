"""What a run creates on a cluster, in order, and what it needs the right to do."""

from collections.abc import Sequence
from dataclasses import dataclass

from lockstep.collector.contract.kubernetes import SUBMISSION_LABEL
from lockstep.workloads.launch.kubernetes import job_manifests, workflow
from lockstep.workloads.launch.kubernetes.pod import Manifest
from lockstep.workloads.launch.kubernetes.settings import (
    CLAIM,
    JOB,
    MPIJOB,
    POD,
    SERVICE,
    WORKFLOW,
    Kind,
    Resource,
    Settings,
    object_name,
    stop_command,
)
from lockstep.workloads.spec import RunSpec


@dataclass(frozen=True, slots=True)
class Right:
    """One thing that must be allowed in the namespace; a subresource stands behind a slash."""

    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


@dataclass(frozen=True, slots=True)
class Submission:
    """Everything of a run.

    Attributes:
        resource: Of the one object that owns all others: with it, all go.
        whole: Its manifest.
        owned: What is created after it, with the resource of each.
        workers: Pods with ranks that will be there; 0 = others start them (a Workflow).
        started: What the cluster creates under the same name for it, beside its pods.
        owner: What owns it in turn, under the same name, if it is there.
        mark: `Settings.submission`.
    """

    resource: Resource
    namespace: str
    name: str
    whole: Manifest
    owned: tuple[tuple[Resource, Manifest], ...] = ()
    workers: int = 0
    started: tuple[Resource, ...] = ()
    owner: Resource | None = None
    mark: str = ""

    @property
    def path(self) -> str:
        """Of the object that owns all others."""
        return self.resource.path(self.namespace, self.name)

    @property
    def stop_command(self) -> str:
        """What a person types to end it by hand."""
        return stop_command((self.resource, *self.started), self.namespace, self.name)

    @property
    def stop_command_of_ours(self) -> str:
        """The same, where somebody else's may have that name."""
        chosen = f"-l {SUBMISSION_LABEL}={self.mark}" if self.mark else self.name
        return stop_command((self.resource, *self.started), self.namespace, chosen)


def submission(spec: RunSpec, settings: Settings, command: Sequence[str]) -> Submission:
    """What is created.

    Args:
        command: What the launcher of an MPIJob, or the first step of a Workflow, runs.
    """
    namespaced = (settings.namespace, object_name(spec.run))
    nodes, mark = spec.layout.nodes, settings.submission
    if settings.chain:
        whole = workflow.argo_workflow(spec, settings, command)
        return Submission(WORKFLOW, *namespaced, whole, started=kinds(settings)[1:], mark=mark)
    owner = WORKFLOW if settings.step else None
    if settings.kind is Kind.MPIJOB:
        whole = job_manifests.mpi_job(spec, settings, command)
        return Submission(MPIJOB, *namespaced, whole, workers=nodes, owner=owner, mark=mark)
    service = (SERVICE, job_manifests.service(spec, settings))
    whole = job_manifests.indexed_job(spec, settings)
    return Submission(JOB, *namespaced, whole, (service,), nodes, owner=owner, mark=mark)


def kinds(settings: Settings) -> tuple[Resource, ...]:
    """What the cluster must know; the first owns all else."""
    run = MPIJOB if settings.kind is Kind.MPIJOB else JOB
    return (WORKFLOW, run) if settings.chain else (run,)


def rights(settings: Settings) -> tuple[Right, ...]:
    """What the account that submits must be allowed, and what the chart's role grants."""
    resource, *started = kinds(settings)
    needed = [Right(verb, resource.group, resource.plural) for verb in ("create", "get", "delete")]
    needed += [
        Right(verb, kind.group, kind.plural) for kind in started for verb in ("get", "delete")
    ]
    if resource is JOB:
        needed.append(Right("create", SERVICE.group, SERVICE.plural))
    if settings.measured and resource is not JOB:
        needed += [Right(verb, JOB.group, JOB.plural) for verb in ("create", "get")]
    return (
        *needed,
        Right("list", POD.group, POD.plural),
        Right("get", POD.group, f"{POD.plural}/log"),
        Right("get", CLAIM.group, CLAIM.plural),
    )
