"""A node object of the API -> what of it concerns us. Annotations may have been edited by hand."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.kubernetes import (
    CONDITIONS,
    CONTROL_PLANE_LABELS,
    EXCLUDE_LABEL,
    FAULTS,
    GPU_LABEL,
    GPU_RESOURCE,
    QUARANTINE,
    TAINT,
)
from lockstep.watch.kubernetes.shapes import Condition, Known, Node, Quarantine, Status

MAX_JSON = 262_144
"""Bytes that all annotations of an object may have."""
MAX_FAULTS = 256
MAX_TEXT = 512
RACK_LABELS = ("topology.kubernetes.io/rack", "cloud.provider.com/topology-rack")
"""As load.prometheus.node_labels has them."""
NEVER = 0.0
Json = Mapping[str, Any]


def may_be_touched(item: Json, *, selected: bool) -> bool:
    """Whether a node is one of those that are acted on.

    Args:
        item: Of the API.
        selected: Whether a human's selector chose it: else it needs GPUs.
    """
    metadata, status = item.get("metadata", {}), item.get("status", {})
    labels = metadata.get("labels") or {}
    if EXCLUDE_LABEL in labels or metadata.get("deletionTimestamp"):
        return False
    if selected:
        return True
    if any(label in labels for label in CONTROL_PLANE_LABELS):
        return False
    has = (status.get("capacity") or {}).get(GPU_RESOURCE, "0")
    return labels.get(GPU_LABEL) == "true" or str(has) not in ("0", "")


def node(item: Json) -> Node:
    """A node, as of this object."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    all_conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    done = quarantine(annotations.get(QUARANTINE))
    taints = [one for one in spec.get("taints") or () if one.get("key") == TAINT]
    ready = all_conditions.get("Ready", {}).get("status") == Status.TRUE
    return Node(
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        conditions={
            name: _condition(all_conditions[name]) for name in CONDITIONS if name in all_conditions
        },
        faults=faults(annotations.get(FAULTS)),
        quarantine=done,
        tainted=bool(taints),
        ours=any(one.get("value", "") == taint_value(done) for one in taints),
        away=bool(spec.get("unschedulable")) or not ready,
        rack=next((labels[label] for label in RACK_LABELS if label in labels), ""),
    )


def faults(text: str | None) -> dict[str, Known]:
    """The annotation of faults; what is damaged is left out, and is told again if it is open."""
    found = {}
    for fault, tree in list(_tree(text).items())[:MAX_FAULTS]:
        try:
            found[fault[:MAX_TEXT]] = Known(
                _finite(tree["since"]), str(tree["cause"])[:MAX_TEXT],
                str(tree["source"])[:MAX_TEXT], str(tree["value"])[:MAX_TEXT],
            )  # fmt: skip
        except (KeyError, TypeError, ValueError):
            continue
    return found


def quarantine(text: str | None) -> Quarantine:
    """The annotation of a quarantine; a damaged one is none, so what it spoke of is not ours."""
    tree = _tree(text)
    try:
        return Quarantine(
            _maybe(tree.get("since"), _finite), frozenset(map(str, tree.get("why", ()))),
            tuple(map(_finite, tree.get("before", ()))), _maybe(tree.get("released"), _finite),
        )  # fmt: skip
    except (TypeError, ValueError):
        return Quarantine()


def taint_value(done: Quarantine) -> str | None:
    """The value of our taint, by which it is told from one that a human put there later."""
    return None if done.since is None else f"since-{int(done.since)}"


def faults_text(known: Mapping[str, Known]) -> str:
    """The annotation of faults."""
    tree = {
        fault: {"since": one.since, "cause": one.cause, "source": one.source, "value": one.value}
        for fault, one in sorted(known.items())
    }
    return json.dumps(tree, separators=(",", ":"), allow_nan=False)


def moment(text: object) -> float:
    """RFC 3339 -> unix seconds; `NEVER` for what is no time."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except (ValueError, OverflowError):
        return NEVER


def text_of(when: float) -> str:
    """Unix seconds -> RFC 3339 in whole seconds, as the API has them."""
    return datetime.fromtimestamp(int(when), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def touchable(items: Iterable[Json], *, selected: bool) -> list[Node]:
    """Nodes that may be touched."""
    return [node(item) for item in items if may_be_touched(item, selected=selected)]


def _condition(tree: Json) -> Condition:
    status = {one.value: one for one in Status}.get(str(tree.get("status")), Status.UNKNOWN)
    return Condition(
        status,
        str(tree.get("reason", "")), str(tree.get("message", "")),
        moment(tree.get("lastTransitionTime")), moment(tree.get("lastHeartbeatTime")),
    )  # fmt: skip


def _tree(text: str | None) -> dict[str, Any]:
    if not text or len(text) > MAX_JSON:
        return {}
    try:
        tree = bounded_json.loads(text)
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _finite(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no time")
    return float(value)


def _maybe(value: object, parse: Callable[[object], float]) -> float | None:
    return None if value is None else parse(value)
