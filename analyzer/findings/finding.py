"""A finding: something that is wrong now, from the moment it opened until it closed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lockstep.analyzer.shapes.run import Culprit, Fact, Verdict
from lockstep.analyzer.shapes.wording import duration, hours

FINDING_SCHEMA_VERSION = 1
WORTH_SECONDS = 60.0
"""What has lasted for less is new: nothing is said of its length."""
XID = "xid "
"""Begins the signature of an error that the driver logged; its number follows."""
LOST = "lost"
"""The signature of GPUs that the driver no longer counts."""
ALERT_SCOPE = "alert"
"""Of what a rule found, and watch itself did not."""


class Kind(StrEnum):
    """What sort of thing it is; it decides how it is confirmed."""

    SLOW = "slow"
    STOP = "stop"
    EVENT = "event"
    HARDWARE = "hardware"


class Tier(StrEnum):
    """Whom it concerns now: somebody on call, or the record."""

    PAGE = "page"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Who:
    """Whom a finding is about; what does not apply is None. `run` is empty without a run."""

    run: str
    node: str | None
    rank: int | None
    gpu: int | None
    link: str | None

    def covers(self, other: "Who") -> bool:
        """Whether what is wrong with `other` is part of what is wrong here."""
        if self.run != other.run:
            return False
        if self == other:
            return True
        if self.link is not None or other.link is not None:
            return False
        if self.rank is None and self.gpu is None:
            return self.node is None or self.node == other.node
        same_rank = self.rank is not None and self.rank == other.rank
        same_gpu = self.gpu is not None and self.gpu == other.gpu
        return self.node == other.node and (same_rank or same_gpu)

    @property
    def words(self) -> str:
        """In a word or two, the most exact that is known."""
        if self.link is not None:
            return f"the link {self.link}"
        if self.rank is not None:
            return f"rank {self.rank}"
        if self.gpu is not None:
            return f"GPU {self.gpu} of {self.node}"
        return self.node if self.node is not None else f"run {self.run}"


@dataclass(frozen=True, slots=True)
class Incident:
    """What one alert is about: what its labels name, for one finding or for several.

    Attributes:
        who: The place of the finding that it began with.
        cause, tier: Likewise, as they are now.
        opened: Unix seconds at which it began.
        folder: Of that finding.
        xid: Number of the error that all of its findings are about; "" = of something else.
    """

    who: Who
    cause: str
    tier: Tier
    opened: float
    folder: str
    xid: str = ""

    @property
    def labels(self) -> Mapping[str, str]:
        """Of its alert; empty = does not apply."""
        return {
            "run": self.who.run,
            "node": self.who.node or "",
            "rank": _text(self.who.rank),
            "gpu": _text(self.who.gpu),
            "link": self.who.link or "",
            "cause": self.cause,
            "tier": self.tier,
            "xid": self.xid,
        }


@dataclass(frozen=True, slots=True)
class Former:
    """An incident that reported a finding until another did, and unix seconds of that."""

    incident: Incident
    until: float


@dataclass(frozen=True, slots=True)
class ByDumps:
    """What dumps report a stop beside its first words: those of its last standstill."""

    sentence: str
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchFinding:
    """An open or closed finding.

    Attributes:
        who: Whom it is about.
        kind: How it was confirmed.
        scope: As lockstep.analyzer.shapes.run.Culprit.scope; `run` where nobody in it is named.
        attempt: Restart count of the run, None = not known.
        cause: A word of contract.words.Cause, as it was when it opened.
        tier: Likewise.
        confidence: Probability of the cause, 0 to 1.
        slowdown: Own time over expected own time; None where it does not apply.
        onset: Unix seconds at which it began, as far as is known.
        first_seen: Unix seconds of the first cycle that saw it.
        opened: Unix seconds of the cycle that was sure.
        seen: Unix seconds of the last cycle that saw it.
        closed: Unix seconds; None = it is open.
        sentence: For people, its first words.
        facts: For and against.
        folder: Of its archive, below the folder of all archives: `<run>/<moment>-<culprit>`.
        uuid: Of the GPU.
        from_step: First slow step; None = not known.
        place_confidence: Probability that this is the place, 0 to 1; None = nobody reported it
            apart.
        hang: In which operation the run stands and who is missing, as in a verdict.
        ending: How it was over, for people; of an open one, what is known of the end of its run;
            "" = nothing is.
        lost_seconds: GPU-seconds (of a run without GPUs rank-seconds) that it has cost so far;
            None = it is not known to cost any.
        counted: Unix seconds up to which that is counted.
        unit: Whose seconds these are.
        learnt: Unix seconds at which the cause became known; None = it was when it opened, or it
            is not.
        by_dumps: What dumps report beside that; None = nothing else.
        signature: What distinguishes errors of one cause, as the number of an XID; "" = nothing.
        quiet: Whether nobody is notified of it by Alertmanager: there is nothing to do about it.
        paged: Unix seconds at which what was for the record became a page; None = it did not.
        reading: Own time over its peers', as it was when it was seen last; None = not known.
        ended: Unix seconds at which it was over, before watch was sure of that; None = it is open,
            or was over when it closed.
        incident: The alert that reports it; None = one of its own.
        former: Alerts that reported it before.
    """

    who: Who
    kind: Kind
    scope: str
    attempt: int | None
    cause: str
    tier: Tier
    confidence: float
    slowdown: float | None
    onset: float
    first_seen: float
    opened: float
    seen: float
    closed: float | None
    sentence: str
    facts: tuple[Fact, ...]
    folder: str
    uuid: str | None = None
    from_step: int | None = None
    place_confidence: float | None = None
    hang: Mapping[str, Any] | None = None
    ending: str = ""
    lost_seconds: float | None = None
    counted: float | None = None
    unit: str = "GPU"
    learnt: float | None = None
    by_dumps: ByDumps | None = None
    signature: str = ""
    quiet: bool = False
    paged: float | None = None
    reading: float | None = None
    ended: float | None = None
    incident: Incident | None = None
    former: tuple[Former, ...] = ()

    @property
    def xid(self) -> int | None:
        """The number of the error that it is about: one of a moment; None = of something else."""
        number = self.signature.removeprefix(XID)
        return int(number) if number != self.signature and number.isdecimal() else None

    @property
    def alone(self) -> Incident:
        """An incident that begins with it, of its tier."""
        begun = self.opened if self.paged is None else self.paged
        return Incident(self.who, self.cause, self.tier, begun, self.folder, xid=_text(self.xid))

    @property
    def alerted(self) -> Incident:
        """The alert that reports it."""
        return self.alone if self.incident is None else self.incident

    @property
    def words(self) -> str:
        """What is wrong, by all that report it."""
        more = "" if self.by_dumps is None else f" {self.by_dumps.sentence}"
        return f"{self.sentence}{more}"

    @property
    def evidence(self) -> tuple[Fact, ...]:
        """For and against, by all that report it."""
        return self.facts if self.by_dumps is None else (*self.by_dumps.facts, *self.facts)

    @property
    def lasted(self) -> float:
        """Seconds from its onset to its end, or to when it was seen last."""
        over = self.closed if self.ended is None else self.ended
        return max(0.0, (self.seen if over is None else over) - self.onset)

    @property
    def summary(self) -> str:
        """All that is said of it, the same wherever: what is wrong, how long and what it cost."""
        if self.scope == ALERT_SCOPE:
            return self.sentence  # a rule reported it, and nobody knows how long it lasted
        length = duration(self.lasted)
        cost = ""
        if self.lost_seconds is not None:
            cost = f"{hours(self.lost_seconds / 3600.0, self.unit)} lost"
        if self.closed is None:
            ended = f" {self.ending[0].upper()}{self.ending[1:]}." if self.ending else ""
            so_far = f", {cost} so far" if cost else ""
            new = self.lasted < WORTH_SECONDS and not cost
            return f"{self.words}{ended}" + ("" if new else f" It lasts for {length}{so_far}.")
        all_told = f", {cost} in all" if cost else ""
        ending = f": {self.ending}" if self.ending else ""
        after = f" after {length}" if self.xid is None else ""
        return f"{self.words} It is over{after}{all_told}{ending}."

    @property
    def labels(self) -> Mapping[str, str]:
        """Of `lockstep_finding_active` but `kind`; empty = does not apply."""
        return self.alone.labels


@dataclass(frozen=True, slots=True)
class Change:
    """What one cycle did to the findings; `still` are open since before.

    Attributes:
        paged: Folders of those of `still` that were for the record until now, and are pages.
    """

    opened: tuple[WatchFinding, ...] = ()
    closed: tuple[WatchFinding, ...] = ()
    still: tuple[WatchFinding, ...] = ()
    paged: frozenset[str] = frozenset()

    @property
    def open(self) -> tuple[WatchFinding, ...]:
        """All that are open now."""
        return (*self.still, *self.opened)


@dataclass(frozen=True, slots=True)
class Detection:
    """What one cycle knows of something wrong, before anybody is notified of it.

    Attributes:
        sure: Whether it opens a finding at once: its evidence has crossed the budget, or it is a
            hard event. Others must be seen for as long as the diagnosis looks back.
        settle: Seconds for which it must be seen though it is sure: it may be over in a moment.
        Others as in Finding.
    """

    who: Who
    kind: Kind
    scope: str
    cause: str
    tier: Tier
    confidence: float
    sentence: str
    onset: float
    sure: bool
    slowdown: float | None = None
    facts: tuple[Fact, ...] = ()
    attempt: int | None = None
    uuid: str | None = None
    from_step: int | None = None
    place_confidence: float | None = None
    hang: Mapping[str, Any] | None = None
    signature: str = ""
    quiet: bool = False
    settle: float = 0.0


def who_of(run: str, culprit: Culprit) -> Who:
    """Whom a verdict names."""
    return Who(run, culprit.node, culprit.rank, culprit.gpu, culprit.link)


def is_named(verdict: Verdict, who: Who) -> bool:
    """Whether a verdict names somebody, more or less exactly."""
    named = (who_of(verdict.run, each) for each in verdict.culprits)
    return any(each.covers(who) or who.covers(each) for each in named)


def finding_json(finding: WatchFinding) -> dict[str, Any]:
    """`finding.json` without the alerts that matched it (times in unix seconds)."""
    who = finding.who
    return {
        "schema_version": FINDING_SCHEMA_VERSION,
        "run": who.run,
        "attempt": finding.attempt,
        "key": {
            "run": who.run, "scope": finding.scope, "node": who.node, "rank": who.rank,
            "gpu": who.gpu, "link": who.link, "cause": finding.cause, "tier": finding.tier.value,
        },
        "opened": finding.opened,
        "closed": finding.closed,
        "onset": finding.onset,
        "first_seen": finding.first_seen,
        "sentence": finding.summary,
        "verdict": "verdict.json",
        "alerts": [],
        "kind": finding.kind.value,
        "confidence": finding.confidence,
        "slowdown": finding.slowdown,
        "uuid": finding.uuid,
        "from_step": finding.from_step,
        "place_confidence": finding.place_confidence,
        "hang": finding.hang,
        "ending": finding.ending,
        "lasted_seconds": finding.lasted,
        "lost_seconds": finding.lost_seconds,
        "lost_unit": finding.unit,
        "learnt": finding.learnt,
        "paged": finding.paged,
        "ended": finding.ended,
        "incident": finding.alerted.folder,
        "evidence": [
            {"for": fact.supports, "text": fact.text, "query": fact.query}
            for fact in finding.evidence
        ],
    }  # fmt: skip


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
