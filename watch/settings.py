"""How `lockstep watch` was asked to work."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lockstep.analyzer.findings.finding_lifecycle import Pace
from lockstep.analyzer.hardware.sequential_test.false_alarms import Budget
from lockstep.analyzer.read.prometheus.access import Access

WINDOW_CHECKS = 40
LEAST_WINDOW_SECONDS = 120.0
CLOSE_CHECKS = 20
LEAST_CLOSE_SECONDS = 120.0
"""Also where cycles are short: a few that took long, or found nothing, say little."""
RECOVER_CHECKS = 8
LEAST_RECOVER_SECONDS = 60.0
"""Of own time that is as before in every look, each over a minute."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one `watch`.

    Attributes:
        access: To the Prometheus.
        out: Folder of the archives; None = none are written.
        state: Folder of what is remembered; None = nothing is.
        interval: Seconds between two cycles.
        false_alarms: Per node and month, as fleet.budget.
        baselines: (workload, ranks) -> steps per second.
    """

    access: Access
    out: Path | None
    state: Path | None
    interval: float = 15.0
    false_alarms: float = 0.01
    baselines: Mapping[tuple[str, int], float] = field(default_factory=dict)

    @property
    def window(self) -> float:
        """Seconds that a diagnosis looks back: ten minutes at 15 s."""
        return max(LEAST_WINDOW_SECONDS, WINDOW_CHECKS * self.interval)

    @property
    def pace(self) -> Pace:
        """What is not sure must be seen for a whole window.

        A finding that was not seen for five minutes at 15 s is over; one of a rank whose own time
        is as before, after two.
        """
        close = max(LEAST_CLOSE_SECONDS, CLOSE_CHECKS * self.interval)
        recover = max(LEAST_RECOVER_SECONDS, RECOVER_CHECKS * self.interval)
        return Pace(confirm=self.window, close=close, recover=recover)

    def budget(self, streams: int) -> Budget:
        """Of the sequential test, for nodes with so many streams."""
        return Budget(self.false_alarms, self.interval, max(1, streams))
