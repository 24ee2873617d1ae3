"""Nodes that were taken away on purpose, as an autoscaler does: nothing is expected of them.

Prometheus says which pages it scrapes (`up`): of one whose scrape fails there is a sample, of one
that its service discovery dropped there is none. Where kube-state-metrics tells of nodes, one that
it still lists is only without its collector.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from lockstep.analyzer.findings.finding import Detection
from lockstep.analyzer.findings.finding_lifecycle import Course
from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.watch.judge.freshness import answering
from lockstep.watch.judge.hardware import Seen, Target
from lockstep.watch.judge.memory import Memory
from lockstep.watch.look.members import Members
from lockstep.watch.look.snapshot import Look

# A node that is called otherwise while a finding about it is open: it stays the same finding.


def renamed(
    before: Mapping[str, str],
    known: Mapping[Target, tuple[str, float]],
    names: Mapping[Target, str],
    course: Course,
    another: Collection[Target] = (),
) -> dict[str, str]:
    """New name -> the name by which open findings call the node.

    A page that tells another name than before tells of the same node, unless another page has the
    old name now.

    Args:
        before: The same, in the cycle before.
        known: Target -> the name that it had, and when.
        names: Target -> the name that it has now.
        course: What is open.
        another: Targets behind which another machine is than before.
    """
    found, here = dict(before), set(names.values())
    for target, name in names.items():
        old = known[target][0] if target in known else name
        if old != name and old not in here and target not in another:
            found[name] = before.get(old, old)
    wanted = {who.node for who, _ in (*course.open, *course.waiting)}
    return {new: old for new, old in found.items() if old in wanted and new != old}


def gpus(members: Members) -> dict[Target, frozenset[str]]:
    """Target -> the GPUs (uuids) of the ranks that its page tells of, where they have some."""
    found: dict[Target, set[str]] = {}
    rows = zip(members.job.tolist(), members.instance.tolist(), members.uuid.tolist(), strict=True)
    for job, instance, uuid in rows:
        if uuid:
            found.setdefault((job, instance), set()).add(uuid)
    return {target: frozenset(some) for target, some in found.items()}


def other_machines(
    before: Mapping[Target, frozenset[str]], now: Mapping[Target, frozenset[str]]
) -> frozenset[Target]:
    """Targets whose address another machine has now, as of a pod: none of its GPUs is the same."""
    return frozenset(target for target, some in now.items() if not some & before.get(target, some))


def by_old_names(
    sightings: Iterable[Detection], names: Mapping[str, str], course: Course
) -> Iterator[Detection]:
    """Sightings of what is open already under the node's old name, by that name.

    Args:
        sightings: What is seen.
        names: As `renamed` has it.
        course: What is open.
    """
    for one in sightings:
        old = names.get(one.who.node or "")
        who = one.who if old is None else replace(one.who, node=old)
        key = who, one.tier
        yield replace(one, who=who) if key in course.open or key in course.waiting else one


LOG = logging.getLogger(__name__)

SILENT_SECONDS = 150.0
"""Two scrapes of a minute, and some: a page that was tried in this time is still scraped."""


def taken_away(
    connection: Connection, seen: Look, memory: Memory, interval: float
) -> dict[Target, str]:
    """Pages that nobody scrapes any more, and the nodes that they told of.

    Args:
        connection: To the Prometheus.
        seen: Of this cycle.
        memory: With the nodes that are expected.
        interval: Seconds between two cycles.
    """
    here, now = answering(seen, interval), seen.now
    quiet = {
        target: node for target, (node, when) in memory.nodes.items()
        if target not in here and now - when >= SILENT_SECONDS
    }  # fmt: skip
    if not quiet or not here:
        return {}
    jobs = sorted({job for job, _ in (*quiet, *here)})
    try:
        tried = {
            (labels.get("job", ""), labels.get("instance", "")): value
            for labels, value in connection.instant(
                ask.reached(jobs, SILENT_SECONDS), now, every=True
            )
        }
        if not any(tried.get(page) for page in here):
            return {}  # nobody says what is scraped
        gone = {target: node for target, node in quiet.items() if target not in tried}
        listed = _listed(connection, now) if gone else frozenset()
    except SourceError as error:
        LOG.info("whether nodes were taken away is not told now: %s", error)
        return {}
    kept = {memory.nodes[one][0] for one in here if one in memory.nodes} | listed
    return {target: node for target, node in gone.items() if node not in kept}


def old_names(
    memory: Memory, names: Mapping[Target, str], another: Collection[Target]
) -> frozenset[str]:
    """Names that no node has any more: the page that had one tells another of the same machine.

    Args:
        memory: With the names that were told before.
        names: Page -> the node that it tells now.
        another: Pages behind which another machine is than before.
    """
    here = frozenset(names.values())
    return frozenset(
        node for target, (node, _) in memory.nodes.items()
        if target in names and target not in another and node not in here
    )  # fmt: skip


def without(
    memory: Memory, gone: Mapping[Target, str], old: Collection[str] = frozenset()
) -> Memory:
    """A memory that expects nothing of nodes that were taken away, nor of names that were."""
    nodes = frozenset((*gone.values(), *old))
    inventory = memory.inventory

    def left(known: Seen) -> Seen:
        return {names: one for names, one in known.items() if names[0] not in nodes}

    return replace(
        memory,
        nodes={target: one for target, one in memory.nodes.items() if target not in gone},
        inventory=replace(
            inventory, nodes=left(inventory.nodes), links=left(inventory.links),
            ports=left(inventory.ports),
        ),
    )  # fmt: skip


def _listed(connection: Connection, now: float) -> frozenset[str]:
    """Nodes that kube-state-metrics tells of; none where it is not there."""
    answer = connection.instant(ask.NODES, now, every=True)
    return frozenset(labels.get("node", "") for labels, _ in answer)
