"""From the log odds of all causes to one cause with a probability; `unknown` always competes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.analyzer.shapes.run import Evidence, Fact
from lockstep.collector.contract.words import Cause

WORTH_NAMING = 0.01


@dataclass(frozen=True, slots=True)
class Posterior:
    """The likeliest cause, what speaks for and against it, and the others."""

    cause: str
    probability: float
    facts: tuple[Fact, ...]
    alternatives: tuple[Mapping[str, Any], ...]


def posterior(evidences: Sequence[Evidence], seen: Sequence[Fact] = ()) -> Posterior:
    """Softmax of the log odds with an explicit unknown.

    Facts are those of the named cause; for an unknown cause what is `seen` all the same, and those
    of the two likeliest, because that is what a person will look at next.
    """
    names = [evidence.cause for evidence in evidences] + [Cause.UNKNOWN.value]
    odds = np.array([evidence.log_odds for evidence in evidences] + [0.0])
    weights = np.exp(odds - odds.max())
    shares = weights / weights.sum()
    order = [int(place) for place in np.argsort(-shares, kind="stable")]
    best = order[0]
    ranked = [place for place in order if place < len(evidences)]
    shown = [best] if best < len(evidences) else ranked[:2]
    facts = tuple(seen) if best == len(evidences) else ()
    facts += tuple(fact for place in shown for fact in evidences[place].facts)
    missing = [word for place in shown for word in evidences[place].missing]
    if missing:
        words = ", ".join(dict.fromkeys(missing))
        facts += (Fact(False, f"not known: {words}", "absent series"),)
    return Posterior(
        cause=str(names[best]),
        probability=float(shares[best]),
        facts=facts,
        alternatives=tuple(
            {"cause": str(names[place]), "confidence": float(shares[place])}
            for place in order[1:]
            if shares[place] >= WORTH_NAMING
        ),
    )
