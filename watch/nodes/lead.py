"""Holds the lease: who acts, whether the breaker is open, whether a human pauses it."""

from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

from lockstep.collector.contract.kubernetes import LEASE
from lockstep.watch.node_conditions import election
from lockstep.watch.node_conditions.errors import ApiError, ConflictError, LacksRightError
from lockstep.watch.node_conditions.shapes import Breaker


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
        self._seen = election.ObservedLease()
        self._lease: dict[str, Any] | None = None

    def renew(self) -> str:
        """Why we may not act; empty = we lead.

        Raises:
            ApiError: The lease cannot be read or written.
        """
        found = self._cluster.lease(self._namespace, LEASE)
        term = election.term(
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
            return "somebody else changed the lease"
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
            body = election.breaker_body(self._lease, breaker)
            self._lease = self._cluster.patch_lease(self._namespace, LEASE, body)

    def release(self) -> None:
        """The next one need not wait."""
        if self._lease is None:
            return
        try:
            self._cluster.patch_lease(self._namespace, LEASE, election.released(self._lease))
        except ApiError:
            return  # it runs out by itself
