"""How many false alarms a node may give, and the evidence that an alarm needs for it."""

import math
from dataclasses import dataclass

NODE_MONTH_SECONDS = 30 * 86_400.0
"""docs/method/sequential-test.md counts 43,200 minutes a month."""


class BudgetError(ValueError):
    """A budget makes no sense; the message says which figure, and what would be right."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A setting: what may be said of healthy hardware.

    Attributes:
        false_alarms: Per node and month (docs/method/sequential-test.md: page 0.01, record 0.1).
        check_seconds: Time between two checks of a stream.
        streams: Streams of a node: its GPUs times the metrics watched.

    Raises:
        BudgetError: A figure is not positive.
    """

    false_alarms: float = 0.01
    check_seconds: float = 15.0
    streams: int = 160

    def __post_init__(self) -> None:
        for name in ("false_alarms", "check_seconds", "streams"):
            if not 0 < getattr(self, name) < math.inf:
                raise BudgetError(
                    f"{name} of the budget is {getattr(self, name)}; it must be above 0"
                )

    @property
    def checks(self) -> float:
        """Checks of all streams of a node in a month."""
        return self.streams * NODE_MONTH_SECONDS / self.check_seconds

    @property
    def nats(self) -> float:
        """Evidence h for an alarm, h = ln(checks / false alarms).

        An e-detector that alarms at e^h has an average run length of at least e^h checks, whatever
        its stream has in common with others (Shin, Ramdas and Rinaldo, arXiv 2203.03532, section
        2; docs/method/sequential-test.md: 20.4 nats at 60 s and 21.7 at 15 s for 160 streams and
        0.01).
        """
        return math.log(self.checks / self.false_alarms)
