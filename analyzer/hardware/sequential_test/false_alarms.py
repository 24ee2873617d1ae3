"""How many false alarms a node may give, and the evidence that an alarm needs for it.

Of many streams in one cycle: online false discovery control by e-values.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


ALPHA = 0.05
"""Share of the reported streams that may be healthy, on average over cycles."""


def recency(age: NDArray[np.float32]) -> NDArray[np.float64]:
    """Weight of a change that is `age` >= 1 checks old, 1 / (age (age + 1)).

    The weights of all ages add up to 1. The best likelihood ratio over all starts, times the weight
    of its start, is at most the weighted sum over starts, so that its expectation in a healthy
    stream is at most 1: an e-value of "it changed some time before now" at any fixed check.
    """
    weight = np.asarray(age, dtype=np.float64)
    return np.asarray(1 / (weight * (weight + 1)))


def e_bh(e_values: NDArray[np.float64], tested: int, alpha: float = ALPHA) -> NDArray[np.bool_]:
    """Those reported at level `alpha`: the k largest, k the most with k e_(k) >= tested / alpha.

    The expected share of healthy ones among the reported is at most alpha under any dependence,
    so also where streams share their peers (Wang and Ramdas, arXiv 2009.02824).

    Args:
        e_values: Of the streams that could be reported, (n,); NaN is none.
        tested: How many streams were judged in the cycle, those left out as hopeless included.
    """
    values = np.nan_to_num(e_values, nan=0.0)
    order = np.argsort(-values, kind="stable")
    enough = np.flatnonzero(np.arange(1, len(values) + 1) * values[order] >= tested / alpha)
    reported = np.zeros(len(values), dtype=np.bool_)
    if enough.size:
        reported[order[: enough[-1] + 1]] = True
    return reported
