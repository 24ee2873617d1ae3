"""The findings that a cycle may close: what was not looked at stays open."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.analyzer.findings.finding import Kind, Who

NEVER = float("-inf")
AGAIN = "the run lives again"
WENT_ON = "the run went on"
TAKEN_AWAY = "its node was taken away"
TOLD_AGAIN = "the run is reported again, and how it ended is known"


@dataclass(frozen=True, slots=True)
class Closable:
    """What one cycle has an answer about.

    Attributes:
        now: Unix seconds.
        runs: Whose newest scrape is fresh, and those that are gone; the empty name for hardware
            without a run.
        diagnosed: run -> unix seconds of its newest diagnosis that could report who is slow; of now
            for one that is gone.
        silent: Nodes whose collector does not answer.
        dark: Nodes whose hardware is not reported, though it was before.
        moving: Runs all of whose ranks make steps: nobody stops them.
        blind: Kinds of findings of which nothing was reported.
        over: Runs that ended, and how, in words: their findings close now.
        held: Those of them that are still reported as stopped, and by whom, with the unix seconds
            of their end.
        unclear: Runs of whose state nothing is known: sight of them is lost, or two programs have
            their name. What was open of them before goes on.
        again: run -> unix seconds at which it lived again after an end: what stopped it before is
            over.
        lost: run -> from when to when sight of it was lost: that it vanished is over.
        went_on: run -> unix seconds since which it is known to make steps: of two looks that saw
            more steps each, the first. What stopped it before is over.
        taken_away: Nodes that are scraped no more: nothing is wrong with who is not there.
        readings: (run, rank), and (run, node) for its slowest rank -> own time over its peers' in
            the last minute.
    """

    now: float
    runs: frozenset[str]
    diagnosed: Mapping[str, float]
    silent: frozenset[str] = frozenset()
    dark: frozenset[str] = frozenset()
    moving: frozenset[str] = frozenset()
    blind: frozenset[Kind] = frozenset()
    over: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, float] = field(default_factory=dict)
    unclear: frozenset[str] = frozenset()
    again: Mapping[str, float] = field(default_factory=dict)
    lost: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    went_on: Mapping[str, float] = field(default_factory=dict)
    readings: Mapping[tuple[str, int | str], float] = field(default_factory=dict)
    taken_away: frozenset[str] = frozenset()

    def ending(self, who: Who, kind: Kind, opened: float) -> str | None:
        """How a finding is over whatever is seen, since its run ended; "" = it is held; None = not.

        An error of the hardware outlives the run that it hit.
        """
        if kind is not Kind.STOP and who.node in self.taken_away:
            return TAKEN_AWAY
        if kind is Kind.EVENT or not who.run:
            return None
        if kind is Kind.STOP and opened < self.again.get(who.run, NEVER):
            return AGAIN
        since, until = self.lost.get(who.run, (NEVER, NEVER))
        if kind is Kind.STOP and since <= opened < until:
            return TOLD_AGAIN if who.run in self.over else AGAIN
        if kind is Kind.STOP and opened < self.went_on.get(who.run, NEVER):
            return WENT_ON
        if who.run not in self.over:
            return None
        holds = who.run in self.held and (kind is Kind.STOP or who.run in self.unclear)
        return "" if holds else self.over[who.run]

    def reading(self, who: Who) -> float | None:
        """Own time of somebody over its peers' in the last minute; None = not known."""
        if not self.tells_of(who) or who.link is not None:
            return None
        place = who.node if who.rank is None else who.rank
        return None if place is None else self.readings.get((who.run, place))

    def tells_of(self, who: Who) -> bool:
        """Whether what is wrong with somebody could be seen now."""
        told = who.run in self.runs and who.run not in self.unclear
        return told and who.node not in self.silent

    def looked(self, who: Who, kind: Kind) -> float:
        """Unix seconds of the newest look at somebody; -inf = none that counts.

        Whether somebody is slow, or who stopped a run, only a diagnosis reports.
        """
        if not self.tells_of(who) or kind in self.blind:
            return NEVER
        if kind in (Kind.EVENT, Kind.HARDWARE):
            return NEVER if who.node in self.dark else self.now
        if kind is Kind.STOP and who.run in self.moving:
            return self.now
        return self.diagnosed.get(who.run, NEVER)
