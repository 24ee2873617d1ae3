"""Actions -> JSON of the API. What is not named in a patch stays as it is."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from lockstep.collector.contract.kubernetes import API_DOMAIN, FAULTS
from lockstep.watch.node_conditions.actions import Write
from lockstep.watch.node_conditions.conditions import MAX_MESSAGE
from lockstep.watch.node_conditions.rights import EVENT_NAMESPACE
from lockstep.watch.node_conditions.shapes import Known, Node
from lockstep.watch.node_conditions.view import faults_text, text_of

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
