"""A run that stands still: how long it may, and what the dumps of its ranks say.

Silence is the time in which no rank began or ended anything. A run may be as silent as three times
the longest silence that it ended by itself, and never less than what dumps need for a wait to be
no ordinary one (docs/method/hang.md).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.analyzer.findings.finding import Detection, Kind, Tier, Who
from lockstep.analyzer.hangs.evidence import Kind as HangKind
from lockstep.analyzer.hangs.verdict import (
    LIMIT_SECONDS,
    OF_TIME_OUT,
    TIMES_QUIET,
    HangVerdict,
    Status,
)
from lockstep.analyzer.shapes.run import Fact
from lockstep.collector.contract.words import Cause, Phase
from lockstep.watch.judge.runs import LONGEST_PAUSE_SECONDS, PAUSES
from lockstep.watch.look.members import Members

MOST_TOLD_SECONDS = OF_TIME_OUT * LONGEST_PAUSE_SECONDS / PAUSES
"""Of a silence that Prometheus alone remembers: it may have been a hang that a watchdog ended, and
with more `limit` would come after torch's."""
LONG_PHASES = frozenset({Phase.EVAL, Phase.CHECKPOINT})
"""Phases of which one may last longer than any before: data grow, storage is shared."""
CERTAIN = 3
"""Strength of what a sensor says (analyzer.hangs.evidence): stopped, ended, an XID. A process
inside the kernel (2) may be writing its checkpoint."""
MOST_NAMED = 4
"""Ranks with a finding of their own; of more it is one about the run."""

CAUSES: Mapping[str, Cause] = {
    HangKind.HOST_STOPPED: Cause.FREEZE,
    HangKind.PEER_DIED: Cause.CRASH,
    HangKind.LEFT: Cause.CRASH,
    HangKind.DATA_LOADER: Cause.DATA,
    HangKind.CHECKPOINT_STORAGE: Cause.CHECKPOINT,
    HangKind.MISMATCHED_OPERATION: Cause.SOFTWARE,
    HangKind.MISMATCHED_SHAPE: Cause.SOFTWARE,
    HangKind.MISMATCHED_DTYPE: Cause.SOFTWARE,
    HangKind.MISMATCHED_ORDER: Cause.SOFTWARE,
}
"""Kind of a hang -> the cause in the words of verdicts; of others it is not known, as of who gave
a communicator up: nobody tells why."""


def limit(longest: float, step_seconds: float | None = None) -> float:
    """Seconds of silence from which on a run stands still.

    Near torch's time-out three times would be too late: there it is that time-out less a tenth, or
    half as much again as the longest.

    Args:
        longest: Of its silences that it ended by itself, seconds.
        step_seconds: Of its steps: who tells nothing within one is silent for as long.
    """
    usual = max(longest, step_seconds or 0.0)
    most = max(OF_TIME_OUT * LONGEST_PAUSE_SECONDS, PAUSES * usual)
    return max(LIMIT_SECONDS, min(TIMES_QUIET * usual, most))


def patience(usual: float) -> float:
    """Seconds that an evaluation or a checkpoint may be silent: as long as torch would wait.

    Args:
        usual: What `limit` says.
    """
    return max(usual, OF_TIME_OUT * LONGEST_PAUSE_SECONDS)


def excused(verdict: HangVerdict | None, phases: Mapping[int, str]) -> bool:
    """Whether an evaluation or a checkpoint explains the silence.

    It does if who is waited for is in one, or anybody where nobody is named; not if a sensor tells
    that such a rank does not go on.

    Args:
        verdict: By the dumps; None = there are none.
        phases: Rank -> the phase that it is in, as far as is told.
    """
    origins = () if verdict is None else verdict.origins
    stopped = any(
        fact.strength >= CERTAIN and fact.kind not in (None, HangKind.CHECKPOINT_STORAGE)
        for one in origins
        for fact in one.facts
    )
    ranks = [one.rank for one in origins] or phases
    return not stopped and any(phases.get(rank) in LONG_PHASES for rank in ranks)


@dataclass(frozen=True, slots=True)
class Culprit:
    """A rank that a run waits for, by the dumps."""

    rank: int
    kind: str
    confidence: float
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a run that stands still.

    Attributes:
        since: Unix seconds at which it fell silent.
        limit: Seconds that it may be silent.
        status: By the dumps; None = no rank gave one.
        sentence: Of the verdict on them.
        culprits: Whom it names, and whether it can tell which of them it is.
        hang: As a verdict has it (docs/reference/verdict.md); None = no operation is known.
        lacks: Of which nodes and ranks there is no dump, and why.
        dumps, ranks: How many gave one, of how many.
        final: Whether the verdict was reached twice, or needs no second time.
    """

    run: str
    since: float
    limit: float
    status: Status | None
    sentence: str
    culprits: tuple[Culprit, ...] = ()
    hang: Mapping[str, Any] | None = None
    lacks: tuple[str, ...] = ()
    dumps: int = 0
    ranks: int = 0
    final: bool = False

    @property
    def hangs(self) -> bool:
        """Whether somebody is to be told."""
        return self.status is Status.HANG or (self.status in (None, Status.UNKNOWN) and self.final)


def of_document(tree: Mapping[str, Any]) -> tuple[tuple[Culprit, ...], Mapping[str, Any] | None]:
    """Whom a hang document names, with certainty of which, and the verdict's `hang`.

    Args:
        tree: As lockstep.analyzer.hangs.document gives it.
    """
    culprits = tuple(
        Culprit(
            one["rank"], one["kind"], one["confidence"],
            tuple(Fact(each["for"], each["text"], "") for each in one["evidence"]),
        )
        for one in tree["culprits"]
        if one["certain_which"]
    )  # fmt: skip
    where = tree["operation"]
    if where is None or tree["status"] != Status.HANG:
        return culprits, None
    missing = [one["rank"] for one in tree["culprits"]] or list(tree["suspects"])
    hang = {key: where[key] for key in ("group", "sequence", "op")}
    return culprits, {**hang, "missing_ranks": missing}


def detections(standing: Standing, members: Members, now: float) -> Iterator[Detection]:
    """What is to be told: the ranks that the dumps name, else the run, with why nobody is named."""
    if not standing.hangs:
        return
    known = [one for one in standing.culprits if (standing.run, one.rank) in members.column]
    if known and len(known) <= MOST_NAMED:
        for one in known:
            yield _detection(standing, members, one)
    else:
        yield _detection(standing, members, None, now)


def _detection(
    standing: Standing, members: Members, culprit: Culprit | None, now: float = 0.0
) -> Detection:
    if culprit is None:
        who, cause = Who(standing.run, None, None, None, None), Cause.UNKNOWN
    else:
        column = members.column[standing.run, culprit.rank]
        gpu = int(members.gpu[column])
        who = Who(
            standing.run, str(members.node[column]), culprit.rank, None if gpu < 0 else gpu, None
        )
        cause = CAUSES.get(culprit.kind, Cause.UNKNOWN)
    columns = members.columns_of_run.get(standing.run, np.array([], dtype=np.int64))
    return Detection(
        who=who,
        kind=Kind.STOP,
        scope="run" if culprit is None else "rank",
        cause=str(cause),
        tier=Tier.PAGE,
        confidence=0.0 if culprit is None else culprit.confidence,
        sentence=standing.sentence,
        onset=standing.since,
        sure=True,
        facts=facts(standing, culprit),
        attempt=int(members.attempt[columns].max()) if len(columns) else None,
        hang=standing.hang,
    )


def facts(standing: Standing, culprit: Culprit | None = None) -> tuple[Fact, ...]:
    """For and against, with what is not known."""
    said = [
        Fact(
            True,
            f"flight-recorder dumps of {standing.dumps} of {standing.ranks} ranks, taken after"
            f" {standing.limit:.0f} s of silence",
            "",
        )
    ]
    said += culprit.facts if culprit is not None else ()
    said += [Fact(False, f"no dump: {why}", "") for why in standing.lacks]
    return tuple(said)
