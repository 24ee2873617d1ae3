"""`lockstep nodes --remove`: what is written on nodes goes again, and the lease."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, NoReturn

from lockstep.collector.contract.kubernetes import (
    CONDITIONS,
    EXCLUDE_LABEL,
    FAULTS,
    LEASE,
    MANAGED_BY_LABEL,
)
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import data, fail, note
from lockstep.watch.kubernetes.applying import TRIES, Nodes
from lockstep.watch.kubernetes.client import Cluster
from lockstep.watch.kubernetes.loop import LEAST_LEASE_SECONDS, lease_seconds
from lockstep.watch.kubernetes.program import (
    MOST_INTERVAL,
    Asked,
    cluster_of,
    namespace_of,
)
from lockstep.watch.kubernetes.shapes import (
    ApiError,
    ConflictError,
    GoneError,
    LacksRightError,
    UnreachableError,
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Left:
    """Our conditions and our annotation on a node; nothing else is removed.

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


PAUSE_SECONDS = 0.1
"""After a conflict, doubled each time, and as much again by chance."""
LOOK_SECONDS = 1.0
"""Between two looks at a lease that somebody holds."""
MOST_NAMES = 5
"""In one sentence; each has a line of its own before."""


def remove(asked: Asked) -> int:
    """Take our conditions and our annotation off the nodes, and delete our lease.

    Returns:
        0 where nothing of ours is left.

    Raises:
        CommandError: 65, the kubeconfig is wrong; 69, somebody acts on nodes, the cluster does not
            answer, or something is left: then it says where, and may be run again.
    """
    cluster, namespace = cluster_of(asked), namespace_of(asked)
    try:
        items = cluster.nodes(asked.selector)
        lease = cluster.lease(namespace, LEASE)
        # Who acts leaves excluded nodes alone, so they may be cleaned beside it.
        alone = bool(asked.selector) and all(
            EXCLUDE_LABEL in (item["metadata"].get("labels") or {}) for item in items
        )
        if asked.dry_run:
            _tell(items, lease, namespace, asked.selector)
            return ExitCode.OK
        if lease is not None and not alone:
            _refuse_a_live_holder(cluster, namespace, lease)
    except ApiError as error:
        fail(ExitCode.UNREACHABLE, str(error))
    done = _take_off(cluster, items)
    before = None if alone else _holder(lease)
    data(_forgotten(cluster, namespace, asked.selector, before, done))
    return ExitCode.OK


def _tell(items: list[Json], lease: Json | None, namespace: str, selector: str) -> None:
    found = [one for one in map(our_marks, items) if one is not None]
    for one in found:
        data(str(one))
    data(f"would be removed from {len(found)} nodes; {len(items) - len(found)} carry nothing")
    data(
        _stays(lease, namespace, selector, len(found))
        or f"lease {namespace}/{LEASE} would be deleted"
    )
    if holder := _holder(lease)[0]:
        note(f"{holder} holds the lease: while it renews it, --remove is refused")


def _refuse_a_live_holder(cluster: Cluster, namespace: str, lease: Json) -> None:
    """Whoever still acts would write it all again.

    Clocks of different machines are never compared: it is live if it renews while we look.
    """
    before = _holder(lease)
    holder, seconds = before[0], _seconds(lease)
    if not holder:
        return
    note(f"{holder} holds the lease: does it renew it within {seconds:.0f} s?")
    until = monotonic() + seconds
    while (rest := until - monotonic()) > 0:
        sleep(min(LOOK_SECONDS, rest))
        now = _holder(cluster.lease(namespace, LEASE))
        if not now[0]:
            return
        if now != before:
            fail(
                ExitCode.UNREACHABLE,
                f"{now[0]} acts on nodes and would write it all again; scale it to 0 first:"
                f" kubectl -n {namespace} scale deployment lockstep-nodes --replicas=0",
            )


def _holder(lease: Json | None) -> tuple[str, str]:
    """Who holds it, and when that was renewed; empty = nobody."""
    spec = (lease or {}).get("spec") or {}
    return str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")


def _seconds(lease: Json) -> float:
    told = float(lease["spec"].get("leaseDurationSeconds") or LEAST_LEASE_SECONDS)
    return min(told, lease_seconds(MOST_INTERVAL))


def _take_off(cluster: Cluster, items: list[Json]) -> int:
    """Take it off all of them; of how many there was something to take."""
    done, failed = 0, dict[str, str]()
    for item in items:
        name = item["metadata"]["name"]
        try:
            done += remove_from_node(cluster, item, _pause)
        except (LacksRightError, UnreachableError) as error:
            _incomplete(done, {**failed, name: str(error)}, "; the nodes after it were not tried")
        except ApiError as error:
            failed[name] = str(error)
    if failed:
        _incomplete(done, failed, "")
    data(f"removed from {done} nodes; {len(items) - done} carried nothing")
    return done


def _incomplete(done: int, failed: dict[str, str], rest: str) -> NoReturn:
    for name, why in failed.items():
        note(f"{name}: {why}")
    fail(
        ExitCode.UNREACHABLE,
        f"removed from {done} nodes, not from {_some(failed)}{rest}; mend that and run it again",
    )


def _some(failed: dict[str, str]) -> str:
    names = list(failed)
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _forgotten(
    cluster: Cluster, namespace: str, selector: str, before: tuple[str, str] | None, done: int
) -> str:
    """Delete the lease where it is ours to delete; what became of it.

    `before` is who held it at the first look; None = whoever holds it does not matter.
    """
    try:
        lease = cluster.lease(namespace, LEASE)
        now = _holder(lease)
        if before is not None and now[0] and now != before:
            _taken(namespace)  # it was free for a moment, as while a pod is replaced
        stays = _stays(lease, namespace, selector, done)
        if lease is None or stays:
            return stays
        cluster.delete_lease(namespace, LEASE, lease["metadata"]["resourceVersion"])
    except ConflictError:
        _taken(namespace)
    except ApiError as error:
        fail(ExitCode.UNREACHABLE, f"the lease is left: {error}")
    return f"lease {namespace}/{LEASE} deleted"


def _taken(namespace: str) -> NoReturn:
    fail(
        ExitCode.UNREACHABLE,
        f"another process took the lease {namespace}/{LEASE} meanwhile and may have written again;"
        " end that and run this again",
    )


def _stays(lease: Json | None, namespace: str, selector: str, count: int) -> str:
    """Why the lease is not deleted; empty = it is.

    One that a chart brought is needed by its process, which may not make another. Who wrote on
    the nodes that were found to carry something had a lease somewhere.
    """
    what = f"lease {namespace}/{LEASE}"
    if lease is None:
        elsewhere = "; if it runs in another namespace, give --namespace" if count else ""
        return f"there is no {what}{elsewhere}"
    if selector:
        return f"{what} stays: --selector chose some nodes only"
    if MANAGED_BY_LABEL in (lease["metadata"].get("labels") or {}):
        return f"{what} stays: it goes with the release that brought it"
    return ""


def _pause(attempt: int) -> None:
    longest = PAUSE_SECONDS * 2**attempt
    sleep(longest / 2 + random.random() * longest / 2)  # noqa: S311 - no secret
