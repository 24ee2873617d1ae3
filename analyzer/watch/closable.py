"""Of what a cycle can say that it is over: what nobody looked at stays as it is."""

from collections.abc import Mapping
from dataclasses import dataclass

from analyzer.watch.finding import Kind, Who

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Closable:
    """What one cycle has an answer about.

    Attributes:
        now: Unix seconds.
        runs: Whose newest scrape is fresh, and those that are gone; the empty name for hardware
            without a run.
        diagnosed: run -> unix seconds of its newest diagnosis that could tell who is slow; of now
            for one that is gone.
        silent: Nodes whose collector does not answer.
        dark: Nodes whose hardware is not told of, though it was before.
        moving: Runs all of whose ranks make steps: nobody stops them.
        blind: Kinds of findings that nothing was told of.
    """

    now: float
    runs: frozenset[str]
    diagnosed: Mapping[str, float]
    silent: frozenset[str] = frozenset()
    dark: frozenset[str] = frozenset()
    moving: frozenset[str] = frozenset()
    blind: frozenset[Kind] = frozenset()

    def tells_of(self, who: Who) -> bool:
        """Whether what is wrong with somebody could be seen now."""
        return who.run in self.runs and who.node not in self.silent

    def looked(self, who: Who, kind: Kind) -> float:
        """Unix seconds of the newest look at somebody; -inf = none that counts.

        Whether somebody is slow, or who stopped a run, only a diagnosis tells.
        """
        if not self.tells_of(who) or kind in self.blind:
            return NEVER
        if kind in (Kind.EVENT, Kind.HARDWARE):
            return NEVER if who.node in self.dark else self.now
        if kind is Kind.STOP and who.run in self.moving:
            return self.now
        return self.diagnosed.get(who.run, NEVER)
