"""The Lease that says who acts on nodes, with the breaker and a human's pause.

As client-go has it: a lease is free once nobody has renewed it for its duration by our own clock;
clocks of different machines are never compared.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Protocol

from lockstep.collector.contract.kubernetes import BREAKER, LEASE, PAUSE
from lockstep.watch.kubernetes.conditions import from_text, to_text
from lockstep.watch.kubernetes.shapes import ApiError, Breaker, ConflictError, LacksRightError

MAX_PAUSE = 200
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """The lease as it was last seen to change.

    Attributes:
        holder: Empty = nobody.
        renewed: As the lease says it.
        at: When that was seen first: monotonic seconds.
    """

    holder: str = ""
    renewed: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Term:
    """What a look at the lease gives.

    Attributes:
        body: What to write for it, after which we may act; None = nothing, somebody else leads.
        breaker: As it is now.
        paused: A human's reason; empty = not paused.
    """

    body: Json | None
    breaker: Breaker
    paused: str
    seen: ObservedLease


def term_of(
    lease: Json | None, name: str, me: str, seen: ObservedLease, breaker: Breaker, seconds: float,
    monotonic: float, now: float,
) -> Term:  # fmt: skip
    """What to do about the lease.

    Args:
        lease: As the API has it; None = there is none.
        name: Of it.
        me: Who we are; no two processes are the same.
        seen: Of the look before.
        breaker: As this process knows it.
        seconds: Of its duration.
        monotonic: Seconds.
        now: Unix seconds.
    """
    if lease is None:
        spec = _spec(me, seconds, now)
        body: Json = {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec,
            "metadata": {"name": name, "annotations": {BREAKER: to_text(breaker)}},
        }  # fmt: skip
        return Term(body, breaker, "", ObservedLease(me, spec["renewTime"], monotonic))
    metadata, spec = lease["metadata"], lease.get("spec") or {}
    notes = metadata.get("annotations") or {}
    breaker = from_text(notes.get(BREAKER), breaker, now)
    paused = " ".join(str(notes.get(PAUSE, "")).split())[:MAX_PAUSE]
    paused = f"paused: {paused or 'no reason given'}" if PAUSE in notes else ""
    holder, renewed = spec.get("holderIdentity") or "", str(spec.get("renewTime") or "")
    if (holder, renewed) != (seen.holder, seen.renewed):
        seen = ObservedLease(holder, renewed, monotonic)
    if holder not in ("", me) and monotonic - seen.at < seconds:
        return Term(None, breaker, paused, seen)
    body = {
        "metadata": {
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {BREAKER: to_text(breaker)},
        },
        "spec": _spec(me, seconds, now),
    }
    return Term(body, breaker, paused, replace(seen, at=monotonic))


def released(lease: Json) -> Json:
    """What to write when we go: the next one need not wait."""
    version = lease["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": ""}}


def breaker_body(lease: Json, breaker: Breaker) -> Json:
    """What to write when the breaker opens."""
    version = lease["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version, "annotations": {BREAKER: to_text(breaker)}}}


def _spec(me: str, seconds: float, now: float) -> Json:
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "holderIdentity": me,
        "leaseDurationSeconds": max(1, int(seconds)),
        "renewTime": moment,
    }


# The lease says who acts, whether the breaker is open, and whether a human pauses it.


class Leases(Protocol):
    """What is asked of a cluster here: `kubernetes.Cluster`."""

    def lease(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A lease."""

    def create_lease(self, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        """A new one."""

    def patch_lease(self, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """A merge patch."""


class Lead:
    """The lease of one process.

    Args:
        cluster: Where.
        namespace: Of the lease.
        me: Who we are; no two processes are the same.
        seconds: How long it holds.
        clock: Unix seconds.

    Attributes:
        breaker: As it was last known.
        paused: A human's reason; empty = not paused.
    """

    def __init__(
        self, cluster: Leases, namespace: str, me: str, seconds: float, clock: Callable[[], float]
    ) -> None:
        self.breaker = Breaker()
        self.paused = ""
        self._cluster = cluster
        self._namespace = namespace
        self._me = me
        self._seconds = seconds
        self._clock = clock
        self._seen = ObservedLease()
        self._lease: dict[str, Any] | None = None

    def renew(self) -> str:
        """Why we may not act; empty = we lead.

        Raises:
            ApiError: The lease cannot be read or written.
        """
        found = self._cluster.lease(self._namespace, LEASE)
        term = term_of(
            found, LEASE, self._me, self._seen, self.breaker, self._seconds, monotonic(),
            self._clock(),
        )  # fmt: skip
        self._seen, self.breaker, self.paused = term.seen, term.breaker, term.paused
        self._lease = None
        if term.body is None:
            return f"{term.seen.holder} leads"
        try:
            self._lease = (
                self._cluster.create_lease(self._namespace, term.body)
                if found is None
                else self._cluster.patch_lease(self._namespace, LEASE, term.body)
            )
        except ConflictError:
            return "another process changed the lease"
        except LacksRightError as error:
            if found is not None:
                raise
            what = f"there is no lease {self._namespace}/{LEASE}, which the chart brings"
            raise LacksRightError(f"{what}; {error}") from error
        return ""

    def keep(self, breaker: Breaker) -> None:
        """Write the breaker down before anything rests on it.

        Raises:
            ApiError: It cannot be written.
        """
        self.breaker = breaker
        if self._lease is not None:
            body = breaker_body(self._lease, breaker)
            self._lease = self._cluster.patch_lease(self._namespace, LEASE, body)

    def release(self) -> None:
        """The next one need not wait."""
        if self._lease is None:
            return
        try:
            self._cluster.patch_lease(self._namespace, LEASE, released(self._lease))
        except ApiError:
            return  # it runs out by itself
