"""What dumps tell goes into the findings of their run, and how a stop was over into its end."""

from collections.abc import Mapping
from dataclasses import replace

from analyzer.watch.finding import Change, Kind, WatchFinding
from analyzer.watch.finding_lifecycle import Course
from analyzer.watch.standing import Standing, facts

WENT_ON = "the run went on"
GONE = "nothing tells of the run any more"


def with_dumps(
    course: Course,
    change: Change,
    standing: Mapping[str, Standing],
    moving: frozenset[str],
) -> tuple[Course, Change]:
    """The same with what dumps tell.

    Args:
        course: After a cycle.
        change: What the cycle did.
        standing: Runs that stand, by what dumps tell of them.
        moving: Runs all of whose ranks make steps.
    """
    told: dict[str, WatchFinding] = {}
    for one in change.open:
        known = standing.get(one.who.run)
        if one.kind is Kind.STOP and known is not None and known.hangs:
            told[one.folder] = _told(one, known)
    after = Change(
        tuple(told.get(one.folder, one) for one in change.opened),
        tuple(_over(one, moving) for one in change.closed),
        tuple(told.get(one.folder, one) for one in change.still),
    )
    open_now = {key: told.get(one.folder, one) for key, one in course.open.items()}
    return replace(course, open=open_now), after


def _told(finding: WatchFinding, known: Standing) -> WatchFinding:
    """With the sentence of the dumps, once."""
    if known.sentence in finding.sentence or (finding.hang and finding.hang == known.hang):
        return finding  # it says so, maybe by an earlier process
    culprit = next((one for one in known.culprits if one.rank == finding.who.rank), None)
    more = tuple(one for one in facts(known, culprit) if one not in finding.facts)
    return replace(
        finding,
        sentence=f"{finding.sentence} {known.sentence}",
        hang=known.hang or finding.hang,
        facts=(*more, *finding.facts),
    )


def _over(finding: WatchFinding, moving: frozenset[str]) -> WatchFinding:
    """With how it was over."""
    if finding.kind is not Kind.STOP:
        return finding
    ending = WENT_ON if finding.who.run in moving else GONE
    return replace(finding, ending=ending, sentence=f"{finding.sentence} It is over: {ending}.")
