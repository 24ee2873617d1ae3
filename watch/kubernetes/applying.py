"""Carries a write out: the event first, then the patch, and what a refusal means.

Whoever is killed in between tells the same event again under the same name, which exists already.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Protocol

from lockstep.collector.contract.kubernetes import API_DOMAIN, FAULTS
from lockstep.watch.kubernetes.client import EVENT_NAMESPACE
from lockstep.watch.kubernetes.conditions import MAX_MESSAGE
from lockstep.watch.kubernetes.shapes import (
    ConflictError,
    GoneError,
    Known,
    LacksRightError,
    Node,
    RefusedError,
    UnreachableError,
    Write,
)
from lockstep.watch.kubernetes.view import faults_text, may_be_touched, node, text_of

# Actions -> JSON of the API. What is not named in a patch stays as it is.

COMPONENT = f"{API_DOMAIN}/nodes"
DRY_RUN = "[dry-run] "
DEGRADED, RECOVERED = "NodeDegraded", "NodeRecovered"
MAX_NAME = 253
"""Of an object: a DNS subdomain."""
Json = dict[str, Any]


def status_patch(write: Write, node: Node) -> Json:
    """Conditions and the annotation, in one strategic merge patch of nodes/status.

    Conditions merge by type, so those of others stay. With its resourceVersion the API refuses it
    (409) where the node has changed since, or is another one of the same name.

    Args:
        write: What to write.
        node: As it is now: its version may be newer than the one that was decided on.
    """
    return {
        "metadata": {
            "resourceVersion": node.version,
            "annotations": {FAULTS: faults_text(write.faults)},
        },
        "status": {
            "conditions": [
                {
                    "type": name, "status": one.status.value, "reason": one.reason,
                    "message": one.message, "lastTransitionTime": text_of(one.since),
                    "lastHeartbeatTime": text_of(one.beat),
                }
                for name, one in write.conditions.items()
            ]
        },
    }  # fmt: skip


def events(write: Write, now: float, *, dry_run: bool) -> list[Json]:
    """What a write tells: at most one event for what began, and one for what ended."""
    told = ((DEGRADED, "Warning", write.begun), (RECOVERED, "Normal", write.ended))
    return [
        _event(write.node, reason, kind, faults, now, dry_run=dry_run)
        for reason, kind, faults in told
        if faults
    ]


def _event(
    node: Node, reason: str, kind: str, faults: Mapping[str, Known], now: float, *, dry_run: bool
) -> Json:
    """core/v1 in `default`, as the kubelet's: events.k8s.io refuses it there on 1.20."""
    values = "; ".join(sorted({one.value for one in faults.values()}))
    message = f"{values}: open in lockstep watch" if reason == DEGRADED else f"{values}: over"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": _event_name(node, reason, faults, dry_run=dry_run),
            "namespace": EVENT_NAMESPACE,
        },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.name
        },
        "reason": reason,
        "message": ((DRY_RUN if dry_run else "") + message)[:MAX_MESSAGE],
        "type": kind,
        "count": 1,
        "firstTimestamp": text_of(now),
        "lastTimestamp": text_of(now),
        "source": {"component": COMPONENT},
    }  # fmt: skip


def _event_name(node: Node, reason: str, faults: Mapping[str, Known], *, dry_run: bool) -> str:
    """The same for the same news: who is killed between event and patch tells it once.

    What was written before is part of it, so the same fault tells again when it comes back.
    """
    beats = sorted((name, one.since) for name, one in node.conditions.items())
    what = [node.uid, reason, sorted(faults), beats, dry_run]
    digits = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]
    # A name that is cut must not end in a full stop.
    return f"{node.name[: MAX_NAME - 1 - len(digits)].rstrip('.-')}.{digits}"


TRIES = 5
"""Of a patch that meets a conflict (docs/method/node-conditions.md)."""


class Result(StrEnum):
    """What became of a write."""

    DONE = "done"
    CONFLICT = "conflict"
    GONE = "gone"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


class Nodes(Protocol):
    """What is asked of a cluster here: `kubernetes.Cluster`."""

    def node(self, name: str) -> dict[str, Any]:
        """One node."""

    def patch_status(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """A strategic merge patch."""

    def create_event(self, body: dict[str, Any]) -> None:
        """An event."""


def carried_out(
    cluster: Nodes, write: Write, now: float, pause: Callable[[int], None], *, selected: bool
) -> tuple[Result, str]:
    """Write; what became of it, and why in words.

    Args:
        cluster: Where.
        write: What.
        now: Unix seconds.
        pause: Called with the number of the try after a conflict.
        selected: As `view.may_be_touched`.

    Raises:
        LacksRightError: The account may not: the other nodes need not be tried.
    """
    try:
        for body in events(write, now, dry_run=False):
            cluster.create_event(body)
        return _patched(cluster, write, pause, selected=selected)
    except LacksRightError:
        raise
    except RefusedError as error:
        return Result.REFUSED, str(error)
    except GoneError:
        return Result.GONE, f"{write.node.name} is gone"
    except ConflictError as error:
        return Result.CONFLICT, str(error)
    except UnreachableError as error:
        return Result.UNREACHABLE, str(error)


def _patched(
    cluster: Nodes, write: Write, pause: Callable[[int], None], *, selected: bool
) -> tuple[Result, str]:
    now, why = write.node, ""
    for attempt in range(TRIES):
        try:
            cluster.patch_status(now.name, status_patch(write, now))
        except ConflictError as error:
            why = str(error)
            pause(attempt)
            item = cluster.node(now.name)
            now = node(item)
            if now.uid != write.node.uid:
                return Result.GONE, f"{now.name} is another node by now"
            if not may_be_touched(item, selected=selected):
                return Result.GONE, f"{now.name} may no longer be touched"
            if _ours(now) != _ours(write.node):
                return Result.CONFLICT, f"another writer changed our conditions of {now.name}"
        else:
            return Result.DONE, ""
    return Result.CONFLICT, why


def _ours(known: Node) -> tuple[object, object]:
    """What the decision rested on: as long as it stands, the decision does."""
    return known.conditions, known.faults
