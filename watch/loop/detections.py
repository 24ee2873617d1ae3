"""Everything wrong that one cycle sees."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from lockstep.analyzer.findings.finding import Detection, Kind, Who, who_of
from lockstep.analyzer.hardware.sequential_test.alarms import Alarm
from lockstep.watch.judge import hardware
from lockstep.watch.judge.detections import of_alarms, of_verdict, stalled, stuck
from lockstep.watch.judge.progress import Progress
from lockstep.watch.judge.standing import Standing
from lockstep.watch.judge.standing import detections as dumps_tell
from lockstep.watch.loop.diagnoses import Diagnoses
from lockstep.watch.loop.look import Look
from lockstep.watch.loop.settings import Settings

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
