"""What has become of a run: conditions of its object and its pods -> a state, with a reason.

Conditions decide, never `replicaStatuses`: a job that has failed can count active ones still
(kubeflow/mpi-operator, issue 552). Which worker failed the object does not say (issue 90); its pods
do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from lockstep.collector.contract.kubernetes import ROLE_LABEL
from lockstep.workloads.launch.kubernetes.settings import COLLECTOR, LAUNCHER, RANKS, WORKER

Told = Mapping[str, Any]
SUCCEEDED_CONDITIONS, FAILED_CONDITIONS = ("Succeeded", "Complete"), ("Failed",)
SUCCEEDED_PHASES, FAILED_PHASES = ("Succeeded",), ("Failed", "Error")
"""Of a Workflow, whose phase is what its API says to decide on."""
DEADLINE = "DeadlineExceeded"
"""Reason of a Job whose `activeDeadlineSeconds` are over, which the MPI Operator hands on, and of a
pod likewise (https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup)."""
NEVER_STARTS = (
    "ErrImageNeverPull", "InvalidImageName", "ImagePullBackOff", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError",
)  # fmt: skip
"""Reasons of a waiting container that do not pass by themselves; after ErrImagePull it is tried
once more."""
ABOUT_TO_START = ("ContainerCreating", "PodInitializing")
"""Why a container waits that may run at any moment (the kubelet's names)."""
SHOWN = 300


class Phase(StrEnum):
    """Where a run stands."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LATE = "late"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a run.

    Attributes:
        node: Empty = not placed yet.
        waits_for: Why it does not run yet.
        hopeless: It waits for what does not come by itself.
        failed: How it failed; empty = it did not.
        late: Its time was over, and its node ended it.
        noted: What of it ended without ending the run: its collector; empty = nothing.
        containers: Their names.
        image: Digest that its node pulled for the ranks; empty = not told.
        placed: When it was scheduled, RFC 3339; empty = it was not, or nobody says.
        ran: When its ranks' container first ran, likewise; between both its image was pulled.
        deleted: Somebody deleted it, and it has its time to end.
        over: It was deleted and nothing of it runs, as its node says: it has only to be forgotten.
    """

    name: str
    role: str
    node: str
    phase: str
    waits_for: str = ""
    hopeless: bool = False
    failed: str = ""
    late: bool = False
    noted: str = ""
    containers: tuple[str, ...] = ()
    image: str = ""
    placed: str = ""
    ran: str = ""
    deleted: bool = False
    over: bool = False

    @property
    def described(self) -> str:
        """Its name and node."""
        return f"{self.name} on node {self.node}" if self.node else self.name

    @property
    def began(self) -> bool:
        """Whether it runs, or has run; one that somebody deleted does no longer."""
        return not self.deleted and (self.phase in ("Running", "Succeeded") or bool(self.ran))


def ended(whole: Told) -> tuple[Phase, str] | None:
    """How the object of a run says that it ended; None = it did not."""
    status = whole.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in FAILED_CONDITIONS:
            late = condition.get("reason") == DEADLINE
            words = _words(condition.get("reason"), condition.get("message"))
            return Phase.LATE if late else Phase.FAILED, words
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in SUCCEEDED_CONDITIONS:
            return Phase.SUCCEEDED, ""
    if status.get("phase") in SUCCEEDED_PHASES:
        return Phase.SUCCEEDED, ""
    if status.get("phase") in FAILED_PHASES:
        words = _words(status.get("phase"), status.get("message"))
        shut_down = (whole.get("spec") or {}).get("shutdown")  # `argo stop`, `argo terminate`
        return Phase.STOPPED if shut_down else Phase.FAILED, words
    return None


def pod(manifest: Told) -> Pod:
    """A pod by what the API says of it."""
    about, status = manifest.get("metadata") or {}, manifest.get("status") or {}
    labels = about.get("labels") or {}
    waits_for, hopeless = _waiting(status)
    spec = manifest.get("spec") or {}
    result = Pod(
        name=str(about.get("name", "")),
        role=str(labels.get(ROLE_LABEL, "")),
        node=str(spec.get("nodeName") or ""),
        phase=str(status.get("phase", "Pending")),
        waits_for=waits_for,
        hopeless=hopeless,
        failed=_failure(status),
        late=status.get("reason") == DEADLINE,
        containers=tuple(str(container.get("name")) for container in spec.get("containers") or ()),
        image=_digest(status),
        placed=_placed(status),
        ran=_ran(status),
        deleted=bool(about.get("deletionTimestamp")),
        over=bool(about.get("deletionTimestamp")) and _stands(status),
    )
    if result.deleted or result.phase != "Running" or result.failed:
        return result  # then its collector ends, too
    return replace(result, noted=_without_collector(result, status))


def trouble(pods: Sequence[Pod]) -> str:
    """The pods that failed, in words; empty = none."""
    return "; ".join(
        f"{each.role or 'pod'} {each.described} {each.failed}" for each in pods if each.failed
    )


def waits(pods: Sequence[Pod]) -> str:
    """Why not all run yet: the first reason, and how many pods have it."""
    reasons = [each.waits_for for each in pods if each.waits_for]
    if not reasons:
        return ""
    others = len(reasons) - 1
    return f"{reasons[0]}{f' (and {others} more)' if others else ''}"


def running(pods: Sequence[Pod], workers: int, *, launched: bool) -> bool:
    """Whether every worker runs, or has done so.

    Args:
        pods: That are there.
        workers: How many there must be; 0 = others start them, and any pod will do.
        launched: A pod of its own starts the ranks, and must run as well. Once it has failed its
            workers may be gone: it was created when all were ready.
    """
    up = [each.role for each in pods if each.began]
    if not workers:
        return bool(up)
    if any(each.role == LAUNCHER and each.failed and each.ran for each in pods):
        return True
    return up.count(WORKER) >= workers and (not launched or LAUNCHER in up)


def gone(known: Mapping[str, Pod], pods: Sequence[Pod]) -> list[Pod]:
    """Workers that were there and are not: somebody evicted them, or their node vanished."""
    there = {each.name for each in pods}
    return [each for name, each in known.items() if name not in there and each.role == WORKER]


def _waiting(status: Told) -> tuple[str, bool]:
    for container in _containers(status):
        state = (container.get("state") or {}).get("waiting") or {}
        reason = state.get("reason", "")
        if reason in NEVER_STARTS and container.get("name") != COLLECTOR:
            return (
                f"{container.get('image', 'the image')}: {_words(reason, state.get('message'))}",
                True,
            )
    if status.get("phase", "Pending") != "Pending":
        return "", False
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _words(condition.get("reason"), condition.get("message")), False
    for container in _containers(status):
        state = (container.get("state") or {}).get("waiting") or {}
        if state:
            return _words(state.get("reason"), state.get("message")), False
    return "it starts", False


def _failure(status: Told) -> str:
    """Of its ranks, or of what it is there for; a collector beside them ends no run."""
    for container in _containers(status):
        name = container.get("name", RANKS)
        last = _terminated(container)
        if last.get("exitCode", 0) and name != COLLECTOR:
            where = "" if name in (RANKS, LAUNCHER) else f" in its container {name}"
            return f"{_code(last)}{where}"
    if status.get("phase") == "Failed":
        why = _words(status.get("reason"), status.get("message"))
        return f"failed: {why or _collectors_end(status) or 'the reason is unknown'}"
    return ""


def _collectors_end(status: Told) -> str:
    for container in _containers(status):
        if container.get("name") == COLLECTOR and _terminated(container).get("exitCode", 0):
            return f"its collector {_code(_terminated(container))}"
    return ""


def _without_collector(pod: Pod, status: Told) -> str:
    for container in status.get("containerStatuses") or ():
        last = _terminated(container)
        if last and container.get("name") == COLLECTOR:
            return f"the collector of {pod.described} {_code(last)}: what it saw ends there"
    return ""


def _terminated(one: Told) -> Told:
    last: Told = (one.get("state") or {}).get("terminated") or {}
    return last


def _code(last: Told) -> str:
    why = last.get("reason", "")
    return (
        f"ended with code {last.get('exitCode', 0)}"
        f"{f' ({why})' if why not in ('', 'Error', 'Completed') else ''}"
    )


def _containers(status: Told) -> list[Told]:
    return [
        *(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())
    ]  # fmt: skip


def _stands(status: Told) -> bool:
    """Whether its node tells of its containers, and that none runs or is about to."""
    containers = _containers(status)
    return bool(containers) and all(
        _still(container.get("state") or {}) for container in containers
    )


def _still(state: Told) -> bool:
    """Whether a container has ended, or waits for what a deleted pod is not given any more."""
    if state.get("terminated"):
        return True
    reason = (state.get("waiting") or {}).get("reason")
    return reason is not None and reason not in ABOUT_TO_START


def _digest(status: Told) -> str:
    """Of the image of its ranks, as the runtime resolved it: `sha256:` and 64 digits."""
    for container in status.get("containerStatuses") or ():
        if container.get("name") in (RANKS, LAUNCHER):
            _, at, digest = str(container.get("imageID") or "").rpartition("@")
            return digest if at else ""
    return ""


def _placed(status: Told) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return str(condition.get("lastTransitionTime") or "")
    return ""


def _ran(status: Told) -> str:
    """Of a container that was started again nobody tells when it first ran."""
    for container in status.get("containerStatuses") or ():
        if container.get("name") in (RANKS, LAUNCHER) and not container.get("restartCount"):
            state = container.get("state") or {}
            span = state.get("running") or state.get("terminated") or {}
            return str(span.get("startedAt") or "")
    return ""


def _words(reason: object, message: object) -> str:
    text = ": ".join(str(each) for each in (reason, message) if each)
    return " ".join(text.split())[:SHOWN]
