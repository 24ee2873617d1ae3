"""The objects of one submission on a cluster: created whole or not, and only its own deleted.

A name is no identity: the same run id can be given twice. The uid is one, once it was told; until
then the mark that the submission carries.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lockstep.collector.contract.kubernetes import SUBMISSION_LABEL
from lockstep.workloads.launch.kubernetes.cluster import Cluster, ClusterError, RefusedError
from lockstep.workloads.launch.kubernetes.pod import Manifest, owned_by
from lockstep.workloads.launch.kubernetes.settings import Resource
from lockstep.workloads.launch.kubernetes.submission import Submission

MISSING, TAKEN = 404, 409

Told = dict[str, Any]


class TakenError(ClusterError):
    """Somebody has created a run of that name before; nothing of it was touched."""


@dataclass(slots=True)
class Objects:
    """Of one submission.

    Attributes:
        uid: Of the object that owns all others; empty = not known, or not there.
        unsure: It may be there although the API did not say so.
    """

    cluster: Cluster
    made: Submission
    uid: str = ""
    unsure: bool = False

    def create(self) -> None:
        """Create all of it, or nothing.

        Raises:
            TakenError: There is one of that name.
            ClusterError: The API refused, or did not answer.
        """
        made = self.made
        for resource in made.started:
            if self._read(resource) is not None:
                raise self._taken(resource)
        whole = {**made.whole, "metadata": {**made.whole["metadata"], **self._owner()}}
        try:
            created = self.cluster.create(made.resource.path(made.namespace), whole)
        except RefusedError as error:  # so nothing of ours is there
            # A quota that changes meanwhile is a conflict as well.
            if error.status == TAKEN and self._read(made.resource) is not None:
                raise self._taken(made.resource) from None
            raise
        except BaseException:
            self.unsure = True
            self._try_to_delete()
            raise
        self.uid = str(created["metadata"]["uid"])
        try:
            for resource, manifest in made.owned:
                about = {**manifest["metadata"], "ownerReferences": owned_by(created)}
                self.cluster.create(
                    resource.path(made.namespace), {**manifest, "metadata": about}
                )  # fmt: skip
        except BaseException:
            self._try_to_delete()
            raise

    def look(self) -> tuple[Told | None, bool]:
        """The object that owns all others, None if it is gone; whether another has its name."""
        current = self._read(self.made.resource)
        if current is None or self._is_ours(current):
            return current, False
        return None, True

    def started(self) -> Told | None:
        """What the cluster created for it under its name; None = nothing yet, or no longer."""
        for resource in self.made.started:
            current = self._read(resource)
            if current is not None and self._is_ours(current):
                return current
        return None

    def delete(self) -> bool:
        """Delete all of it; whether anything was there.

        Raises:
            ClusterError: The API does not do it.
        """
        there = False
        for resource in (self.made.resource, *self.made.started):
            current = self._read(resource)
            if current is None or not self._is_ours(current):
                continue
            there = True
            if not current["metadata"].get("deletionTimestamp"):
                path = resource.path(self.made.namespace, self.made.name)
                self.cluster.delete(path, current["metadata"]["uid"])
        return there

    @property
    def perhaps_there(self) -> bool:
        """Whether something was created, as far as is known."""
        return bool(self.uid) or self.unsure

    @property
    def stop_command(self) -> str:
        """What a person types to end it by hand, and nobody else's."""
        return self.made.stop_command_of_ours if self.unsure else self.made.stop_command

    def _is_ours(self, current: Told) -> bool:
        about = current.get("metadata") or {}
        if self.uid and about.get("uid") == self.uid:
            return True
        mark = (about.get("labels") or {}).get(SUBMISSION_LABEL)
        return bool(self.made.mark) and mark == self.made.mark

    def _owner(self) -> Manifest:
        """The chain that this is a step of: with it, it goes too, whoever deletes the chain."""
        if self.made.owner is None:
            return {}
        with suppress(ClusterError):  # not allowed, for instance: then the launcher alone ends it
            current = self._read(self.made.owner)
            if current is not None and self._is_ours(current):
                return {"ownerReferences": owned_by(current)}
        return {}

    def _read(self, resource: Resource) -> Told | None:
        try:
            return self.cluster.read(resource.path(self.made.namespace, self.made.name))
        except RefusedError as error:
            if error.status != MISSING:
                raise
            return None

    def _taken(self, resource: Resource) -> TakenError:
        made = self.made
        return TakenError(
            f"a run of that name is already there: {resource.kind} {made.name} in namespace"
            f" {made.namespace}"
        )

    def _try_to_delete(self) -> None:
        with suppress(ClusterError):
            self.delete()
