"""A run on a cluster, from where it was submitted: created, waited for, ended, its logs fetched."""

from collections.abc import Callable
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
from workloads.launchers.kubernetes.names import POD, selector
from workloads.launchers.kubernetes.pod import owned_by
from workloads.launchers.kubernetes.settings import Settings
from workloads.launchers.kubernetes.submission import Submission

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
MISSING = 404


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended there.

    Attributes:
        pods: As last seen.
        ran: Whether all of its workers ever did.
    """

    phase: Phase
    reason: str
    pods: tuple[Pod, ...]
    ran: bool


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
    _known: dict[str, Pod] = field(default_factory=dict)
    _began: float = 0.0
    _lost: float | None = None
    _ran: bool = False

    def create(self) -> None:
        """Create all of it, or nothing.

        Raises:
            ClusterError: The API refused.
        """
        made = self.made
        try:
            whole = self.cluster.create(made.resource.path(made.namespace), made.whole)
            for resource, manifest in made.owned:
                about = {**manifest["metadata"], "ownerReferences": owned_by(whole)}
                path = resource.path(made.namespace)
                self.cluster.create(path, {**manifest, "metadata": about})
        except BaseException:
            self._try_to_delete()
            raise

    def wait(self, tell: Callable[[str, str], None]) -> Ended:
        """Until it has ended, or must be ended.

        Args:
            tell: Takes where it stands: a stage, and words.

        Raises:
            ClusterError: The API does not answer for AWAY_SECONDS, or no longer knows us.
        """
        self._began = self.clock()
        away: float | None = None
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
                if ended := self._ended(whole, pods):
                    return ended
                tell(*self._stage(pods))
            self.pause(POLL_SECONDS)

    def _ended(self, whole: dict[str, Any] | None, pods: tuple[Pod, ...]) -> Ended | None:
        """How it ended, or why it must; None = it goes on."""
        missing = conditions.gone(self._known, pods)
        self._known.update({each.name: each for each in pods})
        self._ran = self._ran or conditions.running(pods, self.made.workers)
        known = (*pods, *missing)
        if whole is None:
            return Ended(Phase.FAILED, f"somebody deleted {self._name}", known, self._ran)
        told = self._trouble(pods, missing)
        if found := conditions.ended(whole):
            why = "" if found[0] is Phase.SUCCEEDED else "; ".join(filter(None, (told, found[1])))
            return Ended(found[0], why, known, self._ran)
        why = self._must_end(pods, told)
        return Ended(Phase.FAILED, why, known, self._ran) if why else None

    def _must_end(self, pods: tuple[Pod, ...], told: str) -> str:
        """Why it is not waited for any longer; empty = it is.

        Args:
            told: Which of its pods failed.
        """
        now = self.clock()
        took = now - self._began
        for each in pods:
            if each.hopeless:
                return f"{each.place} cannot start: {each.waits_for}"
        self._lost = (now if self._lost is None else self._lost) if told else None
        if self._lost is not None and now - self._lost > LOST_SECONDS:
            return told
        if not self._ran and took > self.settings.start_timeout:
            why = conditions.waits(pods) or "nobody creates its pods"
            return f"not all of its pods ran within {took:.0f} s: {why}"
        if took > self.settings.timeout + SLACK_SECONDS:
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
        self.cluster.delete(self.made.path)
        deadline = self.clock() + GONE_SECONDS
        while self.clock() < deadline:
            try:
                whole, pods = self._look()
            except UnreachableError:
                pass  # it goes on without us
            else:
                if whole is None and not pods:
                    return True
            self.pause(min(POLL_SECONDS, 0.5))
        return False

    @property
    def _name(self) -> str:
        return f"{self.made.resource.kind} {self.made.name}"

    def _look(self) -> tuple[dict[str, Any] | None, tuple[Pod, ...]]:
        """The object, None if it is gone, and the pods that are there."""
        whole: dict[str, Any] | None
        try:
            whole = self.cluster.read(self.made.path)
        except RefusedError as error:
            if error.status != MISSING:
                raise
            whole = None
        found = self.cluster.read(POD.path(self.made.namespace), labelSelector=selector(self.run))
        pods = tuple(conditions.pod(each) for each in found.get("items") or ())
        return whole, tuple(sorted(pods, key=lambda each: each.name))

    def _trouble(self, pods: tuple[Pod, ...], missing: list[Pod]) -> str:
        words = [conditions.trouble(pods), *(f"worker {each.place} is gone" for each in missing)]
        return "; ".join(filter(None, words))

    def _stage(self, pods: tuple[Pod, ...]) -> tuple[str, str]:
        if self._lost is not None:
            return "failing", self._trouble(pods, conditions.gone(self._known, pods))
        if self._ran:
            return "running", f"{sum(each.phase == 'Running' for each in pods)} pods"
        return "waiting for pods", conditions.waits(pods) or f"of {self._name}"

    def _try_to_delete(self) -> None:
        try:
            self.cluster.delete(self.made.path)
        except ClusterError:
            return
