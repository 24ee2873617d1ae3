"""What dumps tell goes into the findings of their run, and how a stop was over into its end."""

from collections.abc import Mapping
from dataclasses import replace

from lockstep.analyzer.findings.closable import WENT_ON
from lockstep.analyzer.findings.finding import ByDumps, Change, Kind, WatchFinding
from lockstep.analyzer.findings.finding_lifecycle import Course
from lockstep.watch.judge.standing import Standing, facts

NO_LONGER: Mapping[Kind, str] = {
    Kind.SLOW: "it is no slower than its peers any more",
    Kind.HARDWARE: "its readings are those of its peers again",
    Kind.EVENT: "it is told of no more",
}
"""How others are over, where their run goes on or there is none."""
GONE = "nothing tells of the run any more"


def with_dumps(
    course: Course,
    change: Change,
    standing: Mapping[str, Standing],
    moving: frozenset[str],
    living: frozenset[str] = frozenset(),
) -> tuple[Course, Change]:
    """The same with what dumps tell, and how what closed was over.

    Args:
        course: After a cycle.
        change: What the cycle did.
        standing: Runs that stand, by what dumps tell of them.
        moving: Runs all of whose ranks make steps.
        living: Runs that are told of.
    """
    told: dict[str, WatchFinding] = {}
    for one in change.open:
        known = standing.get(one.who.run)
        if one.kind is Kind.STOP and known is not None and known.hangs:
            told[one.folder] = _with(one, known)
    after = replace(
        change,
        opened=tuple(told.get(one.folder, one) for one in change.opened),
        closed=tuple(_over(one, moving, living) for one in change.closed),
        still=tuple(told.get(one.folder, one) for one in change.still),
    )
    open_now = {key: told.get(one.folder, one) for key, one in course.open.items()}
    return replace(course, open=open_now), after


def _with(finding: WatchFinding, known: Standing) -> WatchFinding:
    """With what the dumps of its last standstill tell, once."""
    if known.sentence in finding.words or (finding.hang and finding.hang == known.hang):
        return finding  # it says so, maybe by an earlier process
    culprit = next((one for one in known.culprits if one.rank == finding.who.rank), None)
    more = tuple(one for one in facts(known, culprit) if one not in finding.facts)
    return replace(
        finding,
        hang=known.hang or finding.hang,
        by_dumps=ByDumps(known.sentence, more),
    )


def _over(finding: WatchFinding, moving: frozenset[str], living: frozenset[str]) -> WatchFinding:
    """With how it was over, where nobody said that yet."""
    if finding.ending:
        return finding
    run = finding.who.run
    if finding.kind is Kind.STOP:
        return replace(finding, ending=WENT_ON if run in moving else GONE)
    return replace(finding, ending=NO_LONGER[finding.kind] if not run or run in living else GONE)
