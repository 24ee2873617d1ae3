"""What stands in a finding beside its verdict: its cost, its incident, and what dumps say.

The cost is counted look by look, so that it never falls.

Lost seconds = share of the step time that is lost * ranks * seconds (docs/method/cost.md, there
summed over steps). A diagnosis sees its window only; a finding may last for days.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lockstep.analyzer.findings.closable import WENT_ON
from lockstep.analyzer.findings.finding import (
    ByDumps,
    Change,
    Former,
    Incident,
    Kind,
    Tier,
    WatchFinding,
    Who,
    is_named,
)
from lockstep.analyzer.findings.finding_lifecycle import GPU_SLOW, Course
from lockstep.analyzer.shapes.run import Verdict
from lockstep.collector.contract.words import Cause
from lockstep.watch.hangs.standing import Standing, facts
from lockstep.watch.judge.diagnoses import Judged
from lockstep.watch.judge.runs import Progress
from lockstep.watch.look.snapshot import Look


@dataclass(frozen=True, slots=True)
class RunCost:
    """What a run loses now.

    Attributes:
        ranks: How many it has.
        unit: What they are told as: GPU, or rank where there is none.
        verdict: The newest that is fresh; None = there is none.
        stands_since: Unix seconds of its last step where it lives and stands; None = it does not.
    """

    ranks: int
    unit: str
    verdict: Verdict | None = None
    stands_since: float | None = None
    fixes: Mapping[str, float] = field(init=False)

    def __post_init__(self) -> None:
        told = () if self.verdict is None else self.verdict.what_if.get("fixes", ())
        fixes = {str(one["remove"]): float(one["gain"]) for one in told}
        object.__setattr__(self, "fixes", fixes)

    def share(self, who: Who, among: Sequence[Who]) -> float | None:
        """Share of the step time that is lost by somebody slow; None = no diagnosis tells it.

        What mending the node gives back, where several are slow; else the run's slowdown. Findings
        that one gain, or one slowdown, is told of share it, so that their sum is what the run lost.

        Args:
            who: The finding's.
            among: Everybody slow of this run that is seen now, with `who`.
        """
        if self.verdict is None or not is_named(self.verdict, who):
            return None
        named = [one for one in among if is_named(self.verdict, one)]
        gain = self._gain(who)
        if gain is not None:
            return max(0.0, gain) / max(1, sum(one.node == who.node for one in named))
        slowdown = self.verdict.slowdown
        if slowdown is None:
            return None
        gains = [self.fixes[node] for node in {one.node or "" for one in named} & self.fixes.keys()]
        rest = 1.0 - 1.0 / max(slowdown, 1.0) - sum(max(0.0, each) for each in gains)
        return max(0.0, rest) / max(1, sum(self._gain(one) is None for one in named))

    def _gain(self, who: Who) -> float | None:
        return None if who.link is not None else self.fixes.get(who.node or "")


STANDING_CHECKS = 2
"""A run without a step for more intervals stands, where somebody is said to have stopped it."""


def run_costs(
    seen: Look,
    runs: Mapping[str, Progress],
    living: frozenset[str],
    verdicts: Mapping[str, Judged],
    interval: float,
) -> dict[str, RunCost]:
    """What each run loses now that findings are about, or may be."""
    losses = {}
    for run in living:
        columns = seen.members.columns_of_run[run]
        last = verdicts.get(run)
        # A rate tells of the minute before; the last step, of now.
        still = seen.now - runs[run].since > STANDING_CHECKS * interval
        losses[run] = RunCost(
            max(len(columns), int(seen.members.world[columns].max())),
            "GPU" if (seen.members.gpu[columns] >= 0).any() else "rank",
            None if last is None else last.verdict,
            runs[run].since if still and runs[run].seen == seen.now else None,
        )
    return losses


def with_costs(
    course: Course, change: Change, runs: Mapping[str, RunCost], now: float
) -> tuple[Course, Change]:
    """The same with what each finding has cost up to now.

    Args:
        course: After a cycle.
        change: What the cycle did.
        runs: Those that live.
        now: Unix seconds.
    """
    slow: dict[str, list[Who]] = defaultdict(list)
    for one in change.open:
        if one.kind is Kind.SLOW and one.seen >= now:
            slow[one.who.run].append(one.who)
    billed = {
        one.folder: _billed(one, runs.get(one.who.run), now, slow[one.who.run])
        for one in change.open
    }
    after = replace(
        change,
        opened=tuple(billed[one.folder] for one in change.opened),
        still=tuple(billed[one.folder] for one in change.still),
    )
    open_now = {key: billed.get(one.folder, one) for key, one in course.open.items()}
    return replace(course, open=open_now), after


def _billed(
    finding: WatchFinding, run: RunCost | None, now: float, slow: Sequence[Who]
) -> WatchFinding:
    """With what was lost since it was counted last, if it is seen now.

    Of the time in which nobody looked, what was lost before and is lost now was lost all along.
    """
    if run is None or finding.seen < now:
        return replace(finding, counted=now) if finding.counted is not None else finding
    begin = finding.onset if finding.counted is None else finding.counted
    if finding.kind is Kind.STOP:
        if run.stands_since is None:
            return replace(finding, unit=run.unit)
        share: float | None = 1.0
        begin = max(begin, run.stands_since)
    else:
        share = run.share(finding.who, slow) if finding.kind is Kind.SLOW else None
    if share is None:
        return replace(finding, counted=now) if finding.counted is not None else finding
    more = share * run.ranks * max(0.0, now - begin)
    lost = (finding.lost_seconds or 0.0) + more
    return replace(finding, lost_seconds=lost, counted=now, unit=run.unit)


# Incidents: one alert reports the findings of one run with one signature in the same minutes. Each
# finding stays separate on pages and metrics. The alert keeps the labels of the finding that began
# the incident while that finding is open; then the oldest open finding gives them, so that labels
# never name a healthy place.

JOIN_SECONDS = 300.0
"""What opens so long after an incident began belongs to it."""
MOST_FORMER = 8
COMPUTE = frozenset({Cause.THERMAL, Cause.POWER, Cause.SLOW_GPU})
"""Clocks fall by heat, by a power cap, and for no reason that is told: one signature of a GPU."""


def with_incidents(course: Course, change: Change, now: float) -> tuple[Course, Change]:
    """The same, with the alert that tells of each finding.

    Args:
        course: After a cycle.
        change: What the cycle did.
        now: Unix seconds.
    """
    told = _assigned(change.open, now)
    after = replace(
        change,
        opened=tuple(told[one.folder] for one in change.opened),
        still=tuple(told[one.folder] for one in change.still),
    )
    open_now = {key: told.get(one.folder, one) for key, one in course.open.items()}
    return replace(course, open=open_now), after


def _assigned(findings: tuple[WatchFinding, ...], now: float) -> dict[str, WatchFinding]:
    """Each finding, by its folder, with its incident."""
    heads = {
        (one.folder, one.tier): replace(one.incident, who=one.who, cause=one.cause)
        for one in findings if one.incident is not None and one.incident.folder == one.folder
        and one.incident.tier is one.tier
    }  # fmt: skip
    left: dict[tuple[str, Tier], list[WatchFinding]] = {}
    for one in findings:
        if one.incident is not None and one.incident.tier is one.tier:
            left.setdefault((one.incident.folder, one.tier), []).append(one)
    found: dict[str, WatchFinding] = {}
    groups: dict[Hashable, Incident] = {}
    new: list[WatchFinding] = []
    for one in findings:
        if one.incident is None or one.incident.tier is not one.tier:
            new.append(one)
            continue
        told_by = one.incident.folder, one.tier
        if told_by not in heads:  # its first finding is over, or became a page
            heads[told_by] = min((each.alone for each in left[told_by]), key=_opened)
        incident = heads[told_by]
        found[one.folder] = _told_by(one, incident, now)
        known = groups.setdefault(_group(one), incident)
        if incident.opened > known.opened:  # the newest takes what comes
            groups[_group(one)] = incident
    for one in new:
        incident = one.alone
        known = groups.get(_group(one), incident)
        # What an older process opened keeps its own.
        if one.quiet or incident.opened < now or now - known.opened > JOIN_SECONDS:
            known = incident
        if not one.quiet:
            groups[_group(one)] = known
        found[one.folder] = _told_by(one, known, now)
    return found


def _opened(incident: Incident) -> float:
    return incident.opened


def _told_by(finding: WatchFinding, incident: Incident, now: float) -> WatchFinding:
    before = finding.incident
    if before is None or before.labels == incident.labels:
        return replace(finding, incident=incident)
    former = (*finding.former, Former(before, now))[-MOST_FORMER:]
    return replace(finding, incident=incident, former=former)


def _group(finding: WatchFinding) -> Hashable:
    """What findings have in common that one alert tells of.

    Another error, or another stop, is another thing, though it came in the same minute.
    """
    cause = finding.signature or finding.cause
    if finding.kind in GPU_SLOW:
        kind, cause = "slow", "compute" if finding.cause in COMPUTE else finding.cause
    else:
        kind = str(finding.kind)
    place = finding.who.run or finding.who.node
    attempt = finding.attempt if finding.kind is Kind.STOP else None
    return place, finding.tier, kind, cause, attempt


# What dumps say goes into the findings of their run; a stop that is over says how it ended.

NO_LONGER: Mapping[Kind, str] = {
    Kind.SLOW: "it is no slower than its peers any more",
    Kind.HARDWARE: "its readings are those of its peers again",
    Kind.EVENT: "nothing reports it any more",
}
"""How others are over, where their run goes on or there is none."""
GONE = "nothing reports the run any more"


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
