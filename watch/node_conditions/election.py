"""Who acts on nodes now: a Lease, which also carries the breaker and a human's pause.

As client-go has it: a lease is free once nobody has renewed it for its duration by our own clock;
clocks of different machines are never compared.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from lockstep.collector.contract.kubernetes import BREAKER, PAUSE
from lockstep.watch.node_conditions.breaker import from_text, to_text
from lockstep.watch.node_conditions.shapes import Breaker

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


def term(
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
