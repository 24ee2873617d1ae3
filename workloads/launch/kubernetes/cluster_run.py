"""A run on a cluster, from where it was submitted: created, waited for, ended, its logs fetched."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

from lockstep.workloads.launch.kubernetes import conditions
from lockstep.workloads.launch.kubernetes.cluster import (
    Cluster,
    ClusterError,
    RefusedError,
    UnreachableError,
)
from lockstep.workloads.launch.kubernetes.conditions import Phase, Pod
from lockstep.workloads.launch.kubernetes.kueue import (
    WORKLOADS,
    never,
    suspended,
    taken_back,
    waits_behind,
)
from lockstep.workloads.launch.kubernetes.objects import MISSING, Objects
from lockstep.workloads.launch.kubernetes.settings import (
    MPIJOB,
    POD,
    STEP,
    WORKER,
    WORKFLOW,
    Settings,
    selector,
)
from lockstep.workloads.launch.kubernetes.submission import Submission
from lockstep.workloads.launch.kubernetes.workflow import ON_TOP_SECONDS

POLL_SECONDS = 2.0
AWAY_SECONDS = 600.0
"""For so long an API that does not answer is waited for: the run goes on without it."""
LOST_SECONDS = 45.0
"""After a worker has failed, its run gets so long to say so itself and to close its archive."""
GONE_SECONDS = 60.0
"""A pod has 20 s to end; until its node has said that it did, it runs. When its node forgets it is
not waited for: a kubelet before 1.22 takes up to a minute more."""
LOG_BYTES = 4 << 20
Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended there.

    Attributes:
        pods: As last seen.
        ran: Whether all of its pods ever did.
        noted: What went wrong and did not end it, a sentence each.
        queued: Seconds for which Kueue held it back.
    """

    phase: Phase
    reason: str
    pods: tuple[Pod, ...]
    ran: bool
    noted: tuple[str, ...] = ()
    queued: float = 0.0


@dataclass(slots=True)
class ClusterRun:
    """One run.

    Attributes:
        clock: Monotonic seconds.
        pause: Sleeps for so many seconds.
        leaving: Pods that `end` deleted, of which their nodes have not said yet that they ended.
    """

    cluster: Cluster
    made: Submission
    run: str
    settings: Settings
    clock: Callable[[], float] = monotonic
    pause: Callable[[float], None] = sleep
    objects: Objects = field(init=False)
    leaving: tuple[Pod, ...] = ()
    _known: dict[str, Pod] = field(default_factory=dict)
    _noted: dict[str, str] = field(default_factory=dict)
    _began: float = 0.0
    _looked: float = 0.0
    _queued: float = 0.0
    _ran_after: float | None = None
    """Seconds from its begin, those in the queue left out, until all its pods ran; None = not yet.
    """
    _lost: float | None = None
    _others: list[Told] = field(default_factory=list)
    """Workloads of Kueue in the namespace, of the last look at one that it holds back."""

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
        self._began = self._looked = self.clock()
        away: float | None = None
        while True:
            try:
                whole, pods = self._look()
                held = self._held(whole, pods)
            except UnreachableError as error:
                away = self.clock() if away is None else away
                if self.clock() - away > AWAY_SECONDS:
                    raise
                tell("waiting for the cluster", str(error))
            else:
                away = None
                if ended := self._ended(whole, pods, held):
                    return ended
                tell(*(self._stage(pods) if held is None else ("queued", self._waits(held))))
            self.pause(POLL_SECONDS)

    def _held(self, whole: Told | None, pods: tuple[Pod, ...]) -> Told | None:
        """The job that Kueue holds back, which has not run yet; None = there is none."""
        now, before = self.clock(), self._looked
        self._looked = now
        if not self.settings.queue:
            return None
        chain = not self.made.workers
        began = any(pod.role == WORKER for pod in pods) if chain else self._ran_after is not None
        job = None if began else self.objects.started() if chain else whole
        if not suspended(job):
            return None
        self._queued += now - before
        self._others = self._workloads()
        return job

    def _ended(
        self, whole: Told | None, pods: tuple[Pod, ...], held: Told | None
    ) -> Ended | None:  # fmt: skip
        """How it ended, or why it must; None = it goes on."""
        if held is not None and self.made.workers:
            # Its pods go, which is no loss: let in again, an Indexed Job has some of other names.
            self._known.clear()
            self._lost = None
        missing = conditions.gone(self._known, pods)
        if held is None:
            self._known.update({pod.name: pod for pod in pods if not pod.deleted})
        launched = self.made.resource is MPIJOB
        if self._ran_after is None and conditions.running(
            pods, self.made.workers, launched=launched
        ):
            self._ran_after = self._spent
        self._noted.update({pod.name: pod.noted for pod in pods if pod.noted})

        def ended(phase: Phase, why: str) -> Ended:
            noted = tuple(self._noted.values())
            ran = self._ran_after is not None
            return Ended(phase, why, (*pods, *missing), ran, noted, self._queued)

        if whole is None:
            return ended(Phase.STOPPED, f"{self._name} was deleted")
        trouble = self._trouble(pods, missing if self.made.workers else [])
        if state := conditions.ended(whole):
            phase, why = state
            if phase is Phase.SUCCEEDED:
                return ended(phase, "")
            if phase is Phase.FAILED and any(pod.late for pod in pods):
                phase = Phase.LATE
            return ended(phase, "; ".join(filter(None, (trouble, why))))
        if held is not None and self.made.workers:
            why = self._never(held)
            return ended(Phase.FAILED, why) if why else None
        if state := self._suspended(whole):
            return ended(*state)
        if why := self._must_end(pods, trouble):
            return ended(Phase.FAILED, why)
        return ended(Phase.LATE, self._late) if self._is_late() else None

    @property
    def queued(self) -> float:
        """Seconds for which Kueue held it back, so far."""
        return self._queued

    @property
    def _spent(self) -> float:
        """Seconds since it was created, those in the queue left out."""
        return self.clock() - self._began - self._queued

    @property
    def _late(self) -> str:
        return f"it took longer than --timeout {self.settings.timeout:g}"

    def _is_late(self) -> bool:
        """Whether its time is over, counted from when all its pods ran.

        A Job's own limit counts from when it may start, images and all, so it is the last resort;
        of an MPIJob that is its launcher's. Of a chain the launcher in its first step counts.
        """
        if self._ran_after is None:
            return False
        settings = self.settings
        most = settings.timeout
        if not self.made.workers:
            most += settings.start_timeout + ON_TOP_SECONDS
        return self._spent - self._ran_after > most

    def _never(self, held: Told) -> str:
        """Why what Kueue holds back is not waited for any longer; empty = it is."""
        if word := never(_uid(held), self._others):
            return f"Kueue would never let it in: {word}"
        if self._queued > self.settings.queue_timeout:
            return f"it waited {self.settings.queue_timeout:g} s {self._waits(held)}"
        return ""

    def _waits(self, held: Told) -> str:
        """In which queue, and behind whom, as far as may be seen."""
        return waits_behind(self.settings.queue, _uid(held), self._others)

    def _suspended(self, whole: Told) -> tuple[Phase, str] | None:
        """How a run ended that was suspended after it had run; None = it was not."""
        if self._ran_after is None or not self.made.workers or not suspended(whole):
            return None
        gone = "after it had run, and its ranks are gone"
        if not self.settings.queue:
            return Phase.STOPPED, f"it was suspended {gone}"
        why = taken_back(_uid(whole), self._workloads())
        by = f"Kueue took its quota back ({why})" if why else "it was suspended"
        return Phase.FAILED, f"{by} {gone}"

    def _workloads(self) -> list[Told]:
        """Of Kueue, in the version that is served; none where they may not be seen."""
        for version in WORKLOADS:
            with suppress(RefusedError):
                return list(self.cluster.read(version.path(self.made.namespace)).get("items") or ())
        return []

    def _must_end(self, pods: tuple[Pod, ...], trouble: str) -> str:
        """Why it is not waited for any longer; empty = it is.

        Args:
            trouble: Which of its pods failed.
        """
        now, chain = self.clock(), not self.made.workers
        for pod in pods:
            if pod.hopeless:
                return f"{pod.described} cannot start: {pod.waits_for}"
        # Workers of a chain are its first step's to judge: they go while the analysis runs.
        lost = trouble and not chain
        self._lost = (now if self._lost is None else self._lost) if lost else None
        if self._lost is not None and now - self._lost > LOST_SECONDS:
            return trouble
        if self._ran_after is None and self._spent > self.settings.start_timeout:
            why = conditions.waits(pods) or "no controller creates its pods"
            return f"not all of its pods ran within {self._spent:.0f} s: {why}"
        return ""

    def logs(self, pods: tuple[Pod, ...]) -> dict[str, str]:
        """The logs of its pods, by `<pod>.<container>`; of what cannot be had, the reason."""
        logs: dict[str, str] = {}
        for pod in pods:
            path = f"{POD.path(self.made.namespace, pod.name)}/log"
            for name in pod.containers:
                try:
                    text = self.cluster.text(path, container=name, limitBytes=str(LOG_BYTES))
                except ClusterError as error:
                    if isinstance(error, RefusedError) and error.status == MISSING:
                        continue  # gone, by the clean-up or with its node
                    text = f"no log could be had: {error}\n"
                logs[f"{pod.name}.{name}"] = text
        return logs

    def end(self) -> bool:
        """Delete all of it; whether nothing of it is left that runs, or could.

        Raises:
            ClusterError: The API does not do it.
        """
        self.objects.delete()
        deadline = self.clock() + GONE_SECONDS
        while self.clock() < deadline:
            with suppress(UnreachableError):  # it goes on without us
                # Again: the first step of a chain may have created a run in the meantime.
                there = self.objects.delete()
                pods = tuple(pod for pod in self._look()[1] if not pod.over)
                if not there and not pods:
                    self.leaving = ()
                    return True
                deleted = not there and all(pod.deleted for pod in pods)
                self.leaving = pods if deleted else ()
            self.pause(min(POLL_SECONDS, 0.5))
        return False

    @property
    def _name(self) -> str:
        return f"{self.made.resource.kind} {self.made.name}"

    def _look(self) -> tuple[Told | None, tuple[Pod, ...]]:
        """The object, None if it is gone, and the pods that are there."""
        whole, anothers = self.objects.look()
        if anothers:  # and so are the pods
            return None, ()
        listed = self.cluster.read(POD.path(self.made.namespace), labelSelector=selector(self.run))
        pods = (conditions.pod(item) for item in listed.get("items") or ())
        # Steps of a chain carry the run's label, and we may be in one: only the chain is made of
        # them.
        own = (pod for pod in pods if pod.role != STEP or self.made.resource is WORKFLOW)
        return whole, tuple(sorted(own, key=lambda each: each.name))

    def _trouble(self, pods: tuple[Pod, ...], missing: list[Pod]) -> str:
        words = [
            conditions.trouble(pods),
            *(f"worker {pod.described} is gone" for pod in missing),
        ]
        return "; ".join(filter(None, words))

    def _stage(self, pods: tuple[Pod, ...]) -> tuple[str, str]:
        if self._lost is not None:
            return "failing", self._trouble(pods, conditions.gone(self._known, pods))
        if self._ran_after is not None:
            up = f"{sum(pod.phase == 'Running' for pod in pods)} pods"
            return "running", "; ".join((up, *self._noted.values()))
        return "waiting for pods", conditions.waits(pods) or f"of {self._name}"


def _uid(whole: Told | None) -> str:
    return str(((whole or {}).get("metadata") or {}).get("uid", ""))
