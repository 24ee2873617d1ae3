"""Examples of known causes -> the table of weights (lockstep.analyzer.causes.cause_weights)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit

from lockstep.analyzer.causes.cause_spec import MAY
from lockstep.analyzer.causes.cause_weights import (
    CONTEXT,
    Weights,
    expected,
    expected_signs,
    expected_well,
    possible,
    shown_when_slow,
)
from lockstep.analyzer.causes.registry import CAUSES, SPECS
from lockstep.evaluation.scoring.examples import UNKNOWN, Example, symptom_of

CLASSES: tuple[str, ...] = (*(spec.cause.value for spec in CAUSES), UNKNOWN)
RIDGE = 0.1
"""Pull to what physics expects, for each weight: 1 / variance of its prior."""
STRONG = ": strong"


def _mild(strong: str) -> str:
    """The same symptom's state when it is there in part only."""
    return f"{symptom_of(strong)}: mild"


def fit(learned: Sequence[Example], ridge: float = RIDGE) -> Weights:
    """The table that makes the examples likeliest, each weight drawn to its prior."""
    told = {state for one in learned for state in one.states}
    columns = sorted(told | {_mild(state) for state in told if state.endswith(STRONG)})
    prior = _table(expected(), ("bias", *columns))
    shown, allowed, wanted = _arrays(learned, columns)
    free, tied = _free(columns), _tied(prior, ("bias", *columns))

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(prior.shape)
        shares, log_likelihood = _softmax(shown @ weights.T, allowed, wanted)
        shares[np.arange(len(wanted)), wanted] -= 1.0
        distance, pull = _drawn_back(weights - prior, tied)
        gradient = (shares.T @ shown + ridge * pull) * free
        return ridge * distance - log_likelihood, gradient.ravel()

    best = minimize(
        loss, prior.ravel(), jac=True, method="L-BFGS-B", bounds=_bounds(columns),
        options={"maxiter": 2000},
    )  # fmt: skip
    found = best.x.reshape(prior.shape)
    table = expected()
    for place, cause in enumerate(CLASSES):
        for column, state in enumerate(("bias", *columns)):
            if free[place, column]:
                table[cause][state] = round(float(found[place, column]), 3)
    return Weights(table)


def fit_well(
    weights: Weights, slow: Sequence[Example], well: Sequence[Example], ridge: float = RIDGE
) -> Weights:
    """With the states of places that are well: what tells them from slow ones, at even odds.

    Args:
        weights: Of the causes; they stay as they are.
        slow: Examples of slow places.
        well: Of those that are well.
        ridge: As of `fit`.
    """
    if not slow or not well:
        return weights
    some = (*slow, *well)
    told = [shown_when_slow(one.states) for one in some]
    columns = sorted({state for states in told for state in states})
    shown = np.array([[states.get(state, 0.0) for state in columns] for states in told])
    of_slow = np.array([weights.of_known_cause(one.states, gpu=one.gpu) for one in some])
    is_well = np.arange(len(some)) >= len(slow)
    counts = np.where(is_well, len(some) / len(well), len(some) / len(slow)) / 2
    prior = np.array([expected_well().get(state, 0.0) for state in columns])
    tied = _tied(prior, columns)

    def loss(row: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        odds, (distance, pull) = shown @ row - of_slow, _drawn_back(row - prior, tied)
        wrong = np.logaddexp(0.0, np.where(is_well, -odds, odds))
        gradient = (counts * (expit(odds) - is_well)) @ shown + ridge * pull
        return float(counts @ wrong + ridge * distance), gradient

    limits = {-1.0: (None, 0.0), 0.0: (None, None), 1.0: (0.0, None)}
    bounds = [limits[float(np.sign(each))] for each in prior]
    best = minimize(loss, prior, jac=True, method="L-BFGS-B", bounds=bounds)
    found = zip(columns, best.x.tolist(), strict=True)
    return replace(weights, well={state: round(odds, 3) for state, odds in found})


@dataclass(frozen=True, slots=True)
class _Tied:
    """Columns of what is mild, those of the same in full, and the share that the prior gives it."""

    mild: NDArray[np.intp]
    strong: NDArray[np.intp]
    share: NDArray[np.float64]


def _tied(prior: NDArray[np.float64], columns: Sequence[str]) -> _Tied:
    """The weights that learn together: what a symptom in full teaches, it teaches when mild, too.

    Of some there are many in full and hardly one that is mild.
    """
    places = {state: place for place, state in enumerate(columns)}
    full = [state for state in columns if state.endswith(STRONG) and _mild(state) in places]
    mild = np.array([places[_mild(state)] for state in full], dtype=np.intp)
    strong = np.array([places[state] for state in full], dtype=np.intp)
    whole = prior[..., strong]
    share = np.divide(prior[..., mild], whole, out=np.zeros_like(whole), where=whole != 0.0)
    return _Tied(mild, strong, share)


def _drawn_back(away: NDArray[np.float64], tied: _Tied) -> tuple[float, NDArray[np.float64]]:
    """Half of the squared distance from the prior, and its gradient.

    Args:
        away: (..., columns) weights minus their priors.
        tied: A mild one's prior moves with the weight of the same in full.
    """
    off = away.copy()
    off[..., tied.mild] -= tied.share * away[..., tied.strong]
    pull = off.copy()
    pull[..., tied.strong] -= tied.share * off[..., tied.mild]
    return float((off**2).sum()) / 2, pull


def _free(columns: Sequence[str]) -> NDArray[np.float64]:
    """(classes, 1 + columns) 1 where a weight is fitted, 0 where it stays as expected.

    Fitted is what a cause expects, for or against: of the rest the fit would learn what goes with
    what in our simulator. The bias stays, for findings that are not of slow ranks, of which there
    are few to learn from. Nor what may be there and is not: that is no evidence, or a fleet that
    does not tell of it would be surer. Odds are against "unknown", for which nothing speaks.
    """
    free = np.zeros((len(CLASSES), len(columns) + 1))
    for row, cause in enumerate(CLASSES[:-1]):
        expects = SPECS[cause].expects
        about = {name for names in expects.values() for name in names} | CONTEXT
        allowed = {f"{name}: none" for name in expects.get(MAY, ())}
        free[row, 1:] = [symptom_of(state) in about and state not in allowed for state in columns]
    return free


def _bounds(columns: Sequence[str]) -> list[tuple[float | None, float | None]]:
    """Least and most of each weight, as `_table(...).ravel()` has them: no sign against physics."""
    limits = {-1: (None, 0.0), 0: (None, None), 1: (0.0, None)}
    told = expected_signs()
    return [
        limits[told.get(cause, {}).get(state, 0)]
        for cause in CLASSES
        for state in ("bias", *columns)
    ]


def calibrated(weights: Weights, *settings: Sequence[Example]) -> Weights:
    """With the temperature at which examples that it was not fitted on are likeliest.

    Args:
        weights: The table.
        settings: The examples of each (simulated; real processes; …): all weigh the same, however
            many they have, so that none pays for another. Those after the first may only make less
            sure: that nine of nine real runs were right is no evidence that more is certain.
    """

    def likeliest(some: Sequence[Sequence[Example]]) -> float:
        def loss(temperature: float) -> float:
            now = replace(weights, temperature=float(temperature))
            return float(np.mean([log_loss(now, others) for others in some if others]))

        return float(minimize_scalar(loss, bounds=(0.3, 5.0), method="bounded").x)

    temperature = max(likeliest(settings[:1]), likeliest(settings))
    return replace(weights, temperature=round(temperature, 3))


def log_loss(weights: Weights, examples: Sequence[Example]) -> float:
    """Mean of -log of the probability of what was so."""
    columns = sorted({state for one in examples for state in one.states})
    shown, allowed, wanted = _arrays(examples, columns)
    odds = shown @ _table(weights.of, ("bias", *columns)).T / weights.temperature
    return -_softmax(odds, allowed, wanted)[1] / len(examples)


def guesses(weights: Weights, examples: Sequence[Example]) -> list[tuple[str, float]]:
    """The likeliest cause of each, and its probability."""
    columns = sorted({state for one in examples for state in one.states})
    shown, allowed, wanted = _arrays(examples, columns)
    odds = shown @ _table(weights.of, ("bias", *columns)).T / weights.temperature
    shares, _ = _softmax(odds, allowed, wanted)
    best = shares.argmax(axis=1)
    return [(CLASSES[place], float(shares[row, place])) for row, place in enumerate(best)]


def _arrays(
    examples: Sequence[Example], columns: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
    """(n, 1 + columns) what is so, (n, classes) which are possible, (n,) which it is."""
    places = {state: place for place, state in enumerate(columns, start=1)}
    shown = np.zeros((len(examples), len(columns) + 1))
    shown[:, 0] = 1.0
    for row, one in enumerate(examples):
        for state, share in one.states.items():
            shown[row, places[state]] = share
    allowed = np.array(
        [[*(possible(spec, one.kind, gpu=one.gpu) for spec in CAUSES), True] for one in examples]
    )
    wanted = np.array([CLASSES.index(one.cause) for one in examples])
    return shown, allowed, wanted


def _softmax(
    odds: NDArray[np.float64], allowed: NDArray[np.bool_], wanted: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float]:
    odds = np.where(allowed, odds, -np.inf)
    odds = odds - odds.max(axis=1, keepdims=True)
    shares = np.exp(odds)
    shares /= shares.sum(axis=1, keepdims=True)
    likelihood = np.log(np.maximum(shares[np.arange(len(wanted)), wanted], 1e-12)).sum()
    return shares, float(likelihood)


def _table(table: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[table[cause].get(state, 0.0) for state in columns] for cause in CLASSES])
