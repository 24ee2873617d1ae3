"""What a cycle sees: verdicts, the sequential test, stops, hard events and mixed names."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lockstep.analyzer.findings.finding import Detection, Kind, Tier, Who, who_of
from lockstep.analyzer.hardware.sequential_test.alarms import Alarm
from lockstep.analyzer.shapes.run import Culprit, Fact, Verdict
from lockstep.collector.contract.words import Cause
from lockstep.watch.hangs.standing import Standing
from lockstep.watch.hangs.standing import detections as dumps_tell
from lockstep.watch.judge import hardware
from lockstep.watch.judge.diagnoses import Diagnoses
from lockstep.watch.judge.runs import Progress
from lockstep.watch.look.members import Members, clock, who_at
from lockstep.watch.look.panel import CLOCK, OWN, POWER, TEMPERATURE, TOLD_AS, stream_names
from lockstep.watch.look.snapshot import Look
from lockstep.watch.settings import Settings

WORTH = 1.05
"""A rank that takes less than this much more than its peers, and that no diagnosis names, opens no
finding: it costs a synchronous run less than the noise of its steps."""
MOST_NODES = 8
"""In a sentence."""
GONE = frozenset({Cause.CRASH, Cause.FREEZE, Cause.XID})
"""Causes by which a rank cannot be in a checkpoint."""
CAUSE_OF = {CLOCK: Cause.SLOW_GPU, TEMPERATURE: Cause.THERMAL, POWER: Cause.POWER}
WORDS = {
    OWN: "takes {effect:.2f}x its usual time beside its peers",
    CLOCK: "runs at {effect:.2f}x its usual clock beside its peers",
    TEMPERATURE: "is {effect:.0f} °C hotter beside its peers than it was",
    POWER: "takes {effect:.2f}x its usual power beside its peers",
}


def of_verdict(
    verdict: Verdict, alarmed: Collection[int], members: Members, now: float
) -> Iterator[Detection]:
    """Its culprits; those of whom the slowness is over are not seen.

    Args:
        verdict: Of one run.
        alarmed: Ranks of the run whose own time the sequential test reports now.
        members: Of all runs.
        now: Unix seconds: the onset where the verdict knows none.
    """
    for culprit in verdict.culprits:
        stopped = culprit.slowdown is None
        if culprit.to_step is not None and not stopped:
            continue
        named = _ranks(verdict.run, culprit, members)
        yield Detection(
            who=who_of(verdict.run, culprit),
            kind=Kind.STOP if stopped else Kind.SLOW,
            scope=culprit.scope,
            cause=str(culprit.cause),
            tier=Tier(culprit.tier),
            confidence=culprit.confidence,
            sentence=verdict.sentence,
            onset=_unix(culprit.since, now),
            sure=stopped or not named.isdisjoint(alarmed),
            slowdown=culprit.slowdown,
            facts=culprit.evidence,
            attempt=_attempt(verdict.run, members),
            uuid=culprit.uuid,
            from_step=culprit.from_step,
            place_confidence=culprit.place_confidence,
        )


def of_alarms(
    alarms: Sequence[Alarm], members: Members, named: Sequence[Who], now: float, patience: float
) -> Iterator[Detection]:
    """Streams that are on and that no verdict explains: for the record, with their cause or none.

    Args:
        alarms: Of the last pass.
        members: Of all runs.
        named: Who is named by verdicts already.
        now: Unix seconds.
        patience: Seconds in which a rank's own time, and a diagnosis, may say what its GPU costs.
    """
    column_of = columns_by_stream(members)
    for alarm in alarms:
        told = TOLD_AS.get(alarm.metric)
        column = column_of.get((alarm.node, alarm.uuid))
        if alarm.until is not None or told is None or column is None:
            continue
        if told == OWN and alarm.effect < WORTH:
            continue
        who = who_at(members, column)
        if any(other.covers(who) for other in named):
            continue
        words = WORDS[told].format(effect=alarm.effect)
        costs = "" if told == OWN else "; no diagnosis says that it costs time"
        yield Detection(
            who=who,
            kind=Kind.SLOW if told == OWN else Kind.HARDWARE,
            scope="rank" if told == OWN else "gpu",
            cause=str(CAUSE_OF.get(told, Cause.UNKNOWN)),
            tier=Tier.RECORD,
            confidence=1.0 - min(1.0, 1.0 / max(alarm.e_value, 1.0)),
            sentence=f"{_place(who)} of run {who.run} {words} since {clock(alarm.since)}{costs}.",
            onset=alarm.since,
            sure=told != OWN and now - alarm.at >= patience,
            slowdown=alarm.effect if told == OWN else None,
            facts=(Fact(True, f"the sequential test reports {alarm.metric}", alarm.metric),),
            attempt=int(members.attempt[column]),
            uuid=str(members.uuid[column]) or None,
        )


def alarmed_ranks(alarms: Sequence[Alarm], members: Members) -> Mapping[str, Mapping[int, float]]:
    """By run and rank, since when (unix seconds) its own time is reported."""
    column_of = columns_by_stream(members) if alarms else {}
    found: dict[str, dict[int, float]] = {}
    for alarm in alarms:
        column = column_of.get((alarm.node, alarm.uuid))
        on = alarm.until is None and TOLD_AS.get(alarm.metric) == OWN
        if on and column is not None:
            found.setdefault(str(members.run[column]), {})[int(members.rank[column])] = alarm.since
    return found


def stuck(sighting: Detection) -> bool:
    """Whether it stopped its run for no reason that is known, as a checkpoint does too."""
    return sighting.kind is Kind.STOP and sighting.cause not in GONE


def stalled(run: str, since: float, now: float, members: Members) -> Detection:
    """A run that makes no step and of which no verdict names who stopped it."""
    return Detection(
        who=Who(run, None, None, None, None),
        kind=Kind.STOP,
        scope="run",
        cause=str(Cause.UNKNOWN),
        tier=Tier.PAGE,
        confidence=1.0,
        sentence=(
            f"Run {run} has made no step for {now - since:.0f} s, since {clock(since)}; who"
            " stopped it is unknown."
        ),
        onset=since,
        sure=True,
        attempt=_attempt(run, members),
    )


def of_namesakes(
    namesakes: Mapping[str, Sequence[str]], members: Members, now: float
) -> Iterator[Detection]:
    """Runs whose name two programs have: that is all that is known of them."""
    for run, nodes in namesakes.items():
        yield Detection(
            who=Who(run, None, None, None, None),
            kind=Kind.EVENT,
            scope="run",
            cause=str(Cause.SOFTWARE),
            tier=Tier.RECORD,
            confidence=1.0,
            sentence=(
                f"Two programs call themselves run {run}, on {', '.join(nodes[:MOST_NODES])}: their"
                " numbers are mixed, so none of its ranks is judged. Give each its own"
                " LOCKSTEP_RUN."
            ),
            onset=now,
            sure=True,
            attempt=_attempt(run, members),
        )


def columns_by_stream(members: Members) -> Mapping[tuple[str, str], int]:
    """(node, what stands for the uuid in the fleet's state) -> column."""
    names = zip(members.node.tolist(), stream_names(members).tolist(), strict=True)
    return {name: column for column, name in enumerate(names)}


def _ranks(run: str, culprit: Culprit, members: Members) -> frozenset[int]:
    """The ranks that a culprit is or has."""
    if culprit.rank is not None:
        return frozenset((culprit.rank,))
    columns = members.columns_of_run.get(run)
    if columns is None or culprit.link is not None:
        return frozenset()
    here = columns[members.node[columns] == culprit.node]
    return frozenset(members.rank[here].tolist())


def _attempt(run: str, members: Members) -> int | None:
    columns = members.columns_of_run.get(run)
    return None if columns is None else int(members.attempt[columns].max())


def _place(who: Who) -> str:
    gpu = "" if who.gpu is None else f", GPU {who.gpu}"
    return f"Rank {who.rank} ({who.node}{gpu})"


def _unix(since: str | None, otherwise: float) -> float:
    return otherwise if since is None else datetime.fromisoformat(since).timestamp()


# What one cycle sees, of all sources.

PATIENCE_CHECKS = 12
"""A GPU that deviates opens a finding after so many, if nothing says that it costs time."""
BLIND = 2.0
"""A run that stands for so many times its patience is a finding without any diagnosis."""


@dataclass(frozen=True, slots=True)
class Still:
    """Runs that stand: what the dumps of their ranks tell.

    Attributes:
        standing: By run.
        excused: Those whose silence an evaluation or a checkpoint explains.
        longest: Seconds of the longest silence that each run ended by itself.
    """

    standing: Mapping[str, Standing] = field(default_factory=dict)
    excused: frozenset[str] = frozenset()
    longest: Mapping[str, float] = field(default_factory=dict)

    @property
    def named(self) -> frozenset[str]:
        """Runs of which they name somebody."""
        return frozenset(run for run, one in self.standing.items() if one.hangs and one.culprits)


def of_runs(
    seen: Look,
    runs: Mapping[str, Progress],
    diagnoses: Diagnoses,
    reported: Mapping[str, Mapping[int, float]],
    alarms: tuple[Alarm, ...],
    settings: Settings,
    still: Still,
) -> Iterator[Detection]:
    """What verdicts and the sequential test say, and runs that stand.

    Args:
        seen: What Prometheus told.
        runs: How each run goes.
        diagnoses: Of this cycle and those before.
        reported: By run, since when the own time of a rank is reported.
        alarms: Of the sequential test.
        settings: How to work.
        still: What dumps tell of runs that stand.
    """
    now, members = seen.now, seen.members
    named: list[Who] = []
    stopped: set[str] = set()
    for run in members.runs:
        judged = diagnoses.last.get(run)
        if judged is None or now - judged.at > settings.window:
            continue
        agreed = _agreed(diagnoses, run, runs[run])
        verdict = replace(judged.verdict, sentence=judged.told or judged.verdict.sentence)
        for one in of_verdict(verdict, reported.get(run, {}), members, now):
            if one.kind is Kind.STOP:
                if runs[run].since > judged.at:
                    continue  # it goes on again
                if run in still.named:
                    continue  # dumps tell it better
                if stuck(one) and run in still.excused:
                    continue
                if stuck(one) and (agreed is None or one.who not in agreed):
                    continue  # it may be a checkpoint
                stopped.add(run)
            yield one
        named += [who_of(run, each) for each in judged.verdict.culprits]
    patience = PATIENCE_CHECKS * settings.interval
    yield from of_alarms(alarms, members, named, now, patience)
    for run, columns in members.columns_of_run.items():
        alive, progress = bool(seen.living[columns].any()), runs[run]
        standing = still.standing.get(run)
        if alive and standing is not None and standing.hangs:
            if run in still.named or run not in stopped:
                yield from dumps_tell(standing, members, now)
            continue
        if run in still.excused:
            continue  # an evaluation or a checkpoint, and not for too long
        # Whose steps are not told at this check does not stand for all that is known.
        if not alive or run in stopped or progress.seen < now or not progress.stalled(now):
            continue
        if _agreed(diagnoses, run, progress) is not None or progress.stalled(now, BLIND):
            yield stalled(run, progress.since, now, members)


def of_hardware(
    seen: Look, events: Mapping[hardware.Gpu, hardware.Event], names: Mapping[hardware.Target, str]
) -> Iterator[Detection]:
    """What the drivers say."""
    told = {hardware.gpu_of(labels, names) for labels, _ in seen.xids}
    yield from hardware.xids({gpu: one for gpu, one in events.items() if gpu in told})
    yield from hardware.lost(seen.lost, names, seen.now)


def _agreed(diagnoses: Diagnoses, run: str, progress: Progress) -> frozenset[Who] | None:
    """Whom the diagnosis before the last says to have stopped the run.

    None = it was not made while the run stood for longer than a checkpoint may take.
    """
    before = diagnoses.before.get(run)
    if before is None or not progress.stands(before.at):
        return None
    return frozenset(who_of(run, each) for each in before.verdict.culprits if each.slowdown is None)
