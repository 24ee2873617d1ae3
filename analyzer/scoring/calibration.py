"""Whether confidence means what it says, and what would make it: temperature and Platt scaling.

Fitted on labelled verdicts of some seeds, judged on others (docs/method/causes.md). Both maps keep
the order of confidences; neither makes a wrong verdict right.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log1p, logit

EDGE = 1e-3
"""Confidences are taken as at least this far from 0 and 1, where a logit has no value."""
COLDEST, HOTTEST = 0.1, 10.0
FEWEST = 10
"""Fewer labelled verdicts fit noise."""

Pairs = Sequence[tuple[float, bool]]
"""(confidence, whether it was right)."""


class CalibrationError(ValueError):
    """Too few labelled verdicts, or no confidences; the message says what would do."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """confidence -> expit(slope * logit(confidence) + shift).

    Temperature scaling (Guo et al., ICML'17) is slope 1 / T and shift 0, Platt scaling (Platt 1999)
    fits both.
    """

    slope: float = 1.0
    shift: float = 0.0

    @property
    def temperature(self) -> float:
        """Above 1: the confidences were too far from one half."""
        return 1.0 / self.slope

    def __call__(self, confidence: float) -> float:
        """The confidence as it should have been told."""
        return float(expit(self.slope * logit(np.clip(confidence, EDGE, 1 - EDGE)) + self.shift))

    def over(self, pairs: Pairs) -> list[tuple[float, bool]]:
        """The pairs with scaled confidences."""
        return [(self(confidence), right) for confidence, right in pairs]


def temperature(pairs: Pairs) -> Scaling:
    """The temperature of the least log loss.

    Raises:
        CalibrationError: Fewer than FEWEST pairs, or a confidence outside 0 to 1.
    """
    odds, targets = _arrays(pairs)
    found = minimize_scalar(
        lambda log_slope: _log_loss(np.exp(log_slope) * odds, targets),
        bounds=(-np.log(HOTTEST), -np.log(COLDEST)),
        method="bounded",
    )
    return Scaling(float(np.exp(found.x)))


def platt(pairs: Pairs) -> Scaling:
    """Slope and shift of the least log loss; the slope stays positive, so that order is kept.

    Raises:
        CalibrationError: As `temperature`.
    """
    odds, targets = _arrays(pairs)

    def loss(line: NDArray[np.float64]) -> float:
        return _log_loss(np.exp(line[0]) * odds + line[1], targets)

    found = minimize(
        loss,
        x0=np.zeros(2),
        bounds=((-np.log(HOTTEST), -np.log(COLDEST)), (-10.0, 10.0)),
    )
    return Scaling(float(np.exp(found.x[0])), float(found.x[1]))


def brier(pairs: Pairs) -> float | None:
    """Mean squared difference of confidence and outcome (Brier 1950); None without a pair."""
    if not pairs:
        return None
    confidence, right = np.array(pairs, dtype=float).T
    return float(np.mean((confidence - right) ** 2))


def _arrays(pairs: Pairs) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(logits, targets); Platt's targets, which know that the next verdict may be another."""
    if len(pairs) < FEWEST:
        raise CalibrationError(
            f"{len(pairs)} labelled verdicts are too few to fit; give at least {FEWEST}"
        )
    confidence, right = np.array(pairs, dtype=float).T
    if not ((confidence >= 0) & (confidence <= 1)).all():
        raise CalibrationError("a confidence is no number from 0 to 1")
    good = right.sum()
    bad = len(right) - good
    targets = np.where(right > 0, (good + 1) / (good + 2), 1 / (bad + 2))
    return logit(np.clip(confidence, EDGE, 1 - EDGE)), targets


def _log_loss(odds: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
    # -t log p - (1 - t) log(1 - p), p = expit(odds), in the form that never overflows.
    return float(np.mean(np.maximum(odds, 0) - odds * targets + log1p(np.exp(-np.abs(odds)))))
