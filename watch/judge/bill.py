"""What an open finding has cost so far: counted look by look, so that it never falls.

Lost seconds = share of the step time that is lost * ranks * seconds (docs/method/cost.md, there
summed over steps). A diagnosis sees its window only; a finding may last for days.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lockstep.analyzer.findings.finding import Change, Kind, WatchFinding, Who, is_named
from lockstep.analyzer.findings.finding_lifecycle import Course
from lockstep.analyzer.shapes.run import Verdict


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
