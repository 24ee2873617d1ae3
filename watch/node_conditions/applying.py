"""Carries a write out: the event first, then the patch, and what a refusal means.

Whoever is killed in between tells the same event again under the same name, which exists already.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

from lockstep.watch.node_conditions.actions import Write
from lockstep.watch.node_conditions.bodies import events, status_patch
from lockstep.watch.node_conditions.errors import (
    ConflictError,
    GoneError,
    LacksRightError,
    RefusedError,
    UnreachableError,
)
from lockstep.watch.node_conditions.shapes import Node
from lockstep.watch.node_conditions.view import may_be_touched, node

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
                return Result.CONFLICT, f"somebody else wrote our conditions of {now.name}"
        else:
            return Result.DONE, ""
    return Result.CONFLICT, why


def _ours(known: Node) -> tuple[object, object]:
    """What the decision rested on: as long as it stands, the decision does."""
    return known.conditions, known.faults
