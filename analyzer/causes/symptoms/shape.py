"""One symptom: whether it is there, how strong, and whether it began with the finding."""

from dataclasses import dataclass, replace

from lockstep.analyzer.shapes.run import Basis

ALIKE = 0.5
"""Spearman's rho from which own time follows a signal: a step in both, with noise on one, gives
sqrt(3 p (1 - p)) with p = the share of the windows inside: 0.87 at half, 0.52 at a tenth.
Chosen, so that a tenth is enough."""
UNLIKE = 0.15
"""Below, the signal moves without the rank's own time: chosen, as far as chance takes rho
over 44 windows (1 / sqrt(n - 1))."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """A symptom as the telemetry tells it.

    Attributes:
        seen: Whether it is there beyond before and beyond the peers.
        text: That in one sentence part, with numbers; empty where there is nothing to show.
        query: The PromQL that shows it.
        began: Seconds from the finding's onset to its begin; NaN = no onset to compare with.
        with_onset: Whether it began with the finding; None = nobody can tell.
        near: Whether it began at another time, and that is not far for the length of the run.
        follows: Spearman's rho of own time, over the peers', with it; NaN = too little moved.
        grave: Whether it is there in full, and not in part only.
        far: Robust deviations beyond what is usual; NaN = not told by a series.
        basis: What it is read from.
    """

    seen: bool
    text: str
    query: str
    began: float = float("nan")
    with_onset: bool | None = None
    near: bool = False
    follows: float = float("nan")
    grave: bool = True
    far: float = float("nan")
    basis: Basis = Basis.TELEMETRY

    @property
    def explains(self) -> bool:
        """Whether it can be why the rank is slow: there, and not from another time."""
        return self.seen and self.with_onset is not False

    @property
    def states(self) -> tuple[str, ...]:
        """What is so of it, each a word that the table of weights knows (docs/method/causes.md)."""
        if not self.seen:
            return ("none",)
        told = ["strong" if self.grave else "mild"]
        if self.with_onset is False:
            told.append("near" if self.near else "elsewhen")
        if self.follows >= ALIKE:
            told.append("follows")
        elif self.follows < UNLIKE:
            told.append("apart")
        return tuple(told)


def with_more(
    first: Symptom | None, other: Symptom | None, said: str, joined: str = " and"
) -> Symptom | None:
    """Of two things that are told of a part the first if it is there, with the words of the other.

    Args:
        first: What matters more.
        other: The other one.
        said: Beginning of its words that the first has said.
        joined: What is between.
    """
    if not first or not first.seen:
        return other or first
    more = f"{joined}{other.text.removeprefix(said)}" if other and other.seen else ""
    return replace(first, text=first.text + more)
