"""Takes off a node what was written on it: our conditions and our annotation, nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lockstep.collector.contract.kubernetes import CONDITIONS, FAULTS
from lockstep.watch.node_conditions.applying import TRIES, Nodes
from lockstep.watch.node_conditions.errors import ConflictError, GoneError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Left:
    """What of ours a node carries.

    Attributes:
        conditions: Their types, in the order of `CONDITIONS`.
        annotated: Whether the annotation of faults is there, even an empty one.
    """

    name: str
    version: str
    conditions: tuple[str, ...]
    annotated: bool

    def __str__(self) -> str:
        """For people, without the domain."""
        words = [name.partition("/")[2] for name in self.conditions]
        return f"{self.name}: {', '.join([*words, *(['annotation'] * self.annotated)])}"


def our_marks(item: Json) -> Left | None:
    """What of ours a node object carries; None = nothing."""
    metadata, status = item["metadata"], item.get("status") or {}
    there = {one.get("type") for one in status.get("conditions") or ()}
    conditions = tuple(name for name in CONDITIONS if name in there)
    annotated = FAULTS in (metadata.get("annotations") or {})
    if not conditions and not annotated:
        return None
    return Left(metadata["name"], metadata["resourceVersion"], conditions, annotated)


def body(what: Left) -> Json:
    """A strategic merge patch of nodes/status: conditions go by type, so those of others stay.

    SOURCE: kubernetes/community, contributors/devel/sig-api-machinery/strategic-merge-patch.md,
    "Delete Directive"; tests/cluster/test_nodes_remove.py holds a real server to it.
    """
    metadata: Json = {"resourceVersion": what.version}
    if what.annotated:
        metadata["annotations"] = {FAULTS: None}
    gone = [{"$patch": "delete", "type": name} for name in what.conditions]
    return {"metadata": metadata} | ({"status": {"conditions": gone}} if gone else {})


def remove_from_node(cluster: Nodes, item: Json, pause: Callable[[int], None]) -> bool:
    """Take it off one node; whether there was something.

    Args:
        cluster: Where.
        item: The node, as it was listed.
        pause: Called with the number of the try after a conflict.

    Raises:
        ApiError: It may still be there.
    """
    for attempt in range(TRIES):
        what = our_marks(item)
        if what is None:
            return attempt > 0
        try:
            cluster.patch_status(what.name, body(what))
        except GoneError:
            return True  # the node, and all that was on it
        except ConflictError:
            if attempt + 1 == TRIES:
                raise
            pause(attempt)
            try:
                item = cluster.node(what.name)
            except GoneError:
                return True
        else:
            return True
    raise AssertionError("the last try returns or raises")
