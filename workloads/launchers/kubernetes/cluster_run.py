"""A run on a cluster, from where it was submitted: created, waited for, ended, its logs fetched."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

from workloads.launchers.kubernetes import conditions
from workloads.launchers.kubernetes.cluster import (
    Cluster,
    ClusterError,
    RefusedError,
    UnreachableError,
)
from workloads.launchers.kubernetes.conditions import Phase, Pod
from workloads.launchers.kubernetes.kueue import WORKLOADS, suspended, taken_back, waits_behind
from workloads.launchers.kubernetes.names import POD, STEP, WORKFLOW, selector
from workloads.launchers.kubernetes.objects import MISSING, Objects
from workloads.launchers.kubernetes.settings import Settings
from workloads.launchers.kubernetes.submission import Submission
from workloads.launchers.kubernetes.workflow import ON_TOP_SECONDS

POLL_SECONDS = 2.0
AWAY_SECONDS = 600.0
"""For so long an API that does not answer is waited for: the run goes on without it."""
LOST_SECONDS = 45.0
"""After a worker has failed, its run gets so long to say so itself and to close its archive."""
SLACK_SECONDS = 60.0
"""After `timeout`, which the cluster keeps; then we do."""
GONE_SECONDS = 60.0
"""A pod has 20 s to end; until its node has said that it did, it is there."""
LOG_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended there.

    Attributes:
        pods: As last seen.
        ran: Whether all of its workers ever did.
        noted: What went wrong and did not end it, a sentence each.
    """

    phase: Phase
    reason: str
    pods: tuple[Pod, ...]
    ran: bool
    noted: tuple[str, ...] = ()


@dataclass(slots=True)
class ClusterRun:
    """One run.

    Attributes:
        clock: Monotonic seconds.
        pause: Sleeps for so many seconds.
    """

    cluster: Cluster
    made: Submission
    run: str
    settings: Settings
    clock: Callable[[], float] = monotonic
    pause: Callable[[float], None] = sleep
    objects: Objects = field(init=False)
    _known: dict[str, Pod] = field(default_factory=dict)
    _noted: dict[str, str] = field(default_factory=dict)
    _began: float = 0.0
    _lost: float | None = None
    _ran: bool = False

    def __post_init__(self) -> None:
        self.objects = Objects(self.cluster, self.made)

    def create(self) -> None:
        """Create all of it, or nothing.

        Raises:
            TakenError: There is one of that name.
            ClusterError: The API refused.
        """
        self.objects.create()

    def wait(self, tell: Callable[[str, str], None]) -> Ended:
        """Until it has ended, or must be ended.

        Args:
            tell: Takes where it stands: a stage, and words.

        Raises:
            ClusterError: The API does not answer for AWAY_SECONDS, or no longer knows us.
        """
        self._began = self.clock()
        away: float | None = None
        queued: float | None = None
        while True:
            try:
                whole, pods = self._look()
            except UnreachableError as error:
                away = self.clock() if away is None else away
                if self.clock() - away > AWAY_SECONDS:
                    raise
                tell("waiting for the cluster", str(error))
            else:
                away = None
                if self.settings.queue and not self._ran and suspended(whole):
                    queued = self.clock() if queued is None else queued
                    self._began = self.clock()  # what is queued has not begun to start
                    tell("queued", self._queued(whole))
                    if self.clock() - queued > self.settings.queue_timeout:
                        why = f"it waited {self.settings.queue_timeout:g} s {self._queued(whole)}"
                        return Ended(Phase.FAILED, why, pods, ran=False)
                elif ended := self._ended(whole, pods):
                    return ended
                else:
                    tell(*self._stage(pods))
            self.pause(POLL_SECONDS)

    def _ended(self, whole: dict[str, Any] | None, pods: tuple[Pod, ...]) -> Ended | None:
        """How it ended, or why it must; None = it goes on."""
        missing = conditions.gone(self._known, pods)
        self._known.update({each.name: each for each in pods})
        self._ran = self._ran or conditions.running(pods, self.made.workers)
        self._noted.update({each.name: each.noted for each in pods if each.noted})

        def ended(phase: Phase, why: str) -> Ended:
            noted = tuple(self._noted.values())
            return Ended(phase, why, (*pods, *missing), self._ran, noted)

        if whole is None:
            return ended(Phase.FAILED, f"somebody deleted {self._name}")
        told = self._trouble(pods, missing if self.made.workers else [])
        if found := conditions.ended(whole):
            if found[0] is Phase.SUCCEEDED:
                return ended(Phase.SUCCEEDED, "")
            return ended(found[0], "; ".join(filter(None, (told, found[1]))))
        why = self._taken_back(whole) or self._must_end(pods, told)
        return ended(Phase.FAILED, why) if why else None

    def _queued(self, whole: dict[str, Any] | None) -> str:
        """In which queue, and behind whom, as far as may be seen."""
        return waits_behind(self.settings.queue, _uid(whole), self._workloads())

    def _taken_back(self, whole: dict[str, Any]) -> str:
        """That somebody suspended what had run; empty = nobody did."""
        if not (self._ran and suspended(whole)):
            return ""
        why = taken_back(_uid(whole), self._workloads()) if self.settings.queue else ""
        by = f"Kueue took its quota back ({why})" if why else "somebody suspended it"
        return f"{by} after it had run, and its ranks are gone"

    def _workloads(self) -> list[dict[str, Any]]:
        """Of Kueue, in the version that is served; none where they may not be seen."""
        for version in WORKLOADS:
            with suppress(RefusedError):
                return list(self.cluster.read(version.path(self.made.namespace)).get("items") or ())
        return []

    def _must_end(self, pods: tuple[Pod, ...], told: str) -> str:
        """Why it is not waited for any longer; empty = it is.

        Args:
            told: Which of its pods failed.
        """
        now, chain = self.clock(), not self.made.workers
        took = now - self._began
        for each in pods:
            if each.hopeless:
                return f"{each.place} cannot start: {each.waits_for}"
        # Workers of a chain are its first step's to judge: they go while the analysis runs.
        lost = told and not chain
        self._lost = (now if self._lost is None else self._lost) if lost else None
        if self._lost is not None and now - self._lost > LOST_SECONDS:
            return told
        if not self._ran and took > self.settings.start_timeout:
            why = conditions.waits(pods) or "nobody creates its pods"
            return f"not all of its pods ran within {took:.0f} s: {why}"
        most = self.settings.timeout + (ON_TOP_SECONDS if chain else 0.0)
        if took > most + SLACK_SECONDS:
            return f"it took longer than --timeout {self.settings.timeout:g}"
        return ""

    def logs(self, pods: tuple[Pod, ...]) -> dict[str, str]:
        """The logs of its pods, by `<pod>.<container>`; of what cannot be had, the reason."""
        found: dict[str, str] = {}
        for each in pods:
            path = f"{POD.path(self.made.namespace, each.name)}/log"
            for name in each.containers:
                try:
                    text = self.cluster.text(path, container=name, limitBytes=str(LOG_BYTES))
                except ClusterError as error:
                    if isinstance(error, RefusedError) and error.status == MISSING:
                        continue  # gone, by the clean-up or with its node
                    text = f"no log could be had: {error}\n"
                found[f"{each.name}.{name}"] = text
        return found

    def end(self) -> bool:
        """Delete all of it; whether nothing is left.

        Raises:
            ClusterError: The API does not do it.
        """
        self.objects.delete()
        deadline = self.clock() + GONE_SECONDS
        while self.clock() < deadline:
            try:
                # Again: the first step of a chain may have created a run in the meantime.
                if not self.objects.delete() and not self._look()[1]:
                    return True
            except UnreachableError:
                pass  # it goes on without us
            self.pause(min(POLL_SECONDS, 0.5))
        return False

    @property
    def _name(self) -> str:
        return f"{self.made.resource.kind} {self.made.name}"

    def _look(self) -> tuple[dict[str, Any] | None, tuple[Pod, ...]]:
        """The object, None if it is gone, and the pods that are there."""
        whole, anothers = self.objects.look()
        if anothers:  # and so are the pods
            return None, ()
        found = self.cluster.read(POD.path(self.made.namespace), labelSelector=selector(self.run))
        pods = (conditions.pod(each) for each in found.get("items") or ())
        # Steps of a chain carry the run's label, and we may be in one: only the chain is made of
        # them.
        own = (each for each in pods if each.role != STEP or self.made.resource is WORKFLOW)
        return whole, tuple(sorted(own, key=lambda each: each.name))

    def _trouble(self, pods: tuple[Pod, ...], missing: list[Pod]) -> str:
        words = [conditions.trouble(pods), *(f"worker {each.place} is gone" for each in missing)]
        return "; ".join(filter(None, words))

    def _stage(self, pods: tuple[Pod, ...]) -> tuple[str, str]:
        if self._lost is not None:
            return "failing", self._trouble(pods, conditions.gone(self._known, pods))
        if self._ran:
            up = f"{sum(each.phase == 'Running' for each in pods)} pods"
            return "running", "; ".join((up, *self._noted.values()))
        return "waiting for pods", conditions.waits(pods) or f"of {self._name}"


def _uid(whole: dict[str, Any] | None) -> str:
    return str(((whole or {}).get("metadata") or {}).get("uid", ""))
