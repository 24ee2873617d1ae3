"""The state of a run that is alive: healthy, degraded, or unknown and why.

Healthy needs that somebody looked at everything; nothing that is missing speaks for a run. So an
input that goes away can only turn an answer into unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

HEALTHY, DEGRADED, UNKNOWN = "healthy", "degraded", "unknown"


class Reason(StrEnum):
    """Why it is not known, as the label `reason` of `lockstep_run_status`."""

    NONE = ""
    NAMESAKES = "two-of-one-name"
    NOT_HEARD = "not-heard"
    RANKS = "ranks-missing"
    STANDS = "no-steps"
    OWN_TIME = "own-time"
    TELEMETRY = "telemetry"
    NO_DIAGNOSIS = "no-diagnosis"
    UNSURE = "unsure"
    NEW = "watch-is-new"


WORDS: Mapping[str, str] = {
    Reason.NAMESAKES: (
        "two programs call themselves by its name, and their numbers are mixed; its state is known"
        " once each has its own LOCKSTEP_RUN"
    ),
    Reason.NOT_HEARD: (
        "a collector of the run was not scraped lately; its state is known once all of them answer"
    ),
    Reason.RANKS: (
        "not every rank reports that it lives; its state is known once all of its ranks are there"
    ),
    Reason.STANDS: (
        "not every rank made a step in the last minutes; its state is known once all of them do"
    ),
    Reason.OWN_TIME: (
        "the own time of a rank is unknown, because a collective of it was not timed or its page"
        " does not report it; its state is known once lockstep.recorder() times all collectives"
    ),
    Reason.TELEMETRY: (
        "a page no longer reports all that it or its peers reported before; lockstep doctor on its"
        " node says which source is missing"
    ),
    Reason.NO_DIAGNOSIS: (
        "no fresh diagnosis could judge it; the log of lockstep watch says why, or the next one can"
    ),
    Reason.UNSURE: "a suspicion is not confirmed yet; its state is known in some minutes",
    Reason.NEW: "lockstep watch has not run for long enough; its state is known in some minutes",
}
"""Reason -> why, and what would make it known: parts of a sentence."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What one cycle knows of a run.

    Attributes:
        heard: Whether the pages of all its ranks were scraped lately.
        world: How many ranks it has.
        up, stepping, known: How many are reported alive, how many made steps in the last minutes,
            and of how many the own time is known.
        untold: Whether something is missing that it, or a peer, reported before.
        verdict: Status of a fresh diagnosis; None = there is none.
        named: Whether a finding that costs time is open about it or its nodes.
        unsure: Whether something is seen that may become one.
        settled: Whether it was looked at for long enough without a pause.
        namesakes: Whether two programs have its name.
    """

    heard: bool
    world: int
    up: int
    stepping: int
    known: int
    untold: bool
    verdict: str | None
    named: bool
    unsure: bool
    settled: bool
    namesakes: bool = False


@dataclass(frozen=True, slots=True)
class Assessment:
    """HEALTHY, DEGRADED or UNKNOWN, and why that."""

    status: str
    reason: Reason = Reason.NONE


def assessed(facts: Facts) -> Assessment:
    """What these facts say: degraded by evidence, healthy by complete evidence, else unknown."""
    if facts.namesakes:
        return Assessment(UNKNOWN, Reason.NAMESAKES)
    if facts.named:
        return Assessment(DEGRADED)
    unseen = (
        (Reason.NOT_HEARD, not facts.heard),
        (Reason.RANKS, facts.up < max(1, facts.world)),
        (Reason.STANDS, facts.stepping < facts.world),
        (Reason.NO_DIAGNOSIS, facts.verdict is None),
    )
    if not any(lacks for _, lacks in unseen) and facts.verdict == DEGRADED:
        return Assessment(DEGRADED)
    doubtful = (
        (Reason.OWN_TIME, facts.known < facts.world),
        (Reason.TELEMETRY, facts.untold),
        (Reason.NO_DIAGNOSIS, facts.verdict != HEALTHY),
        (Reason.UNSURE, facts.unsure),
        (Reason.NEW, not facts.settled),
    )
    reason = next((reason for reason, lacks in (*unseen, *doubtful) if lacks), None)
    return Assessment(HEALTHY) if reason is None else Assessment(UNKNOWN, reason)
