"""One symptom of trouble: whether it is there, and whether it began with the finding."""

from dataclasses import dataclass

ALIKE = 0.5
"""Spearman's rho from which own time follows a signal: a step in both, with noise on one, gives
sqrt(3 p (1 - p)) with p = the share of the windows inside: 0.87 at half, 0.52 at a tenth."""
UNLIKE = 0.15
"""Below, the signal moves without the rank's own time."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """A trouble as the telemetry tells it.

    Attributes:
        seen: Whether it is there beyond before and beyond the peers.
        text: That in one sentence part, with numbers.
        query: The PromQL that shows it.
        began: Seconds from the finding's onset to its begin; NaN = no onset to compare with.
        with_onset: Whether it began with the finding; None = nobody can tell.
        follows: Spearman's rho of own time, over the peers', with it; NaN = too little moved.
        grave: Whether it is the kind that slows a GPU for certain; corrected errors are not.
    """

    seen: bool
    text: str
    query: str
    began: float = float("nan")
    with_onset: bool | None = None
    follows: float = float("nan")
    grave: bool = True

    @property
    def explains(self) -> bool:
        """Whether it can be why the rank is slow: there, and not from another time."""
        return self.seen and self.with_onset is not False
