"""A node that is called otherwise while a finding about it is open: it stays the same finding."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from lockstep.analyzer.findings.finding import Detection
from lockstep.analyzer.findings.finding_lifecycle import Course
from lockstep.watch.judge.hardware import Target
from lockstep.watch.judge.members import Members


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
