"""How much each symptom says for each cause: one table, fitted on simulated fleets.

Log odds of a cause against "we do not know" are summed over the states of a finding: a symptom
without data adds nothing (a naive Bayes classifier, fitted as multinomial logistic regression;
Ng and Jordan, "On discriminative vs. generative classifiers", NIPS 2001). The fit starts from, and
is drawn back to, what physics expects (`CauseSpec.expects`); `lockstep fit` makes the file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from lockstep.analyzer.causes.cause_spec import AGAINST, MAY, MUST, CauseSpec, Expectation
from lockstep.analyzer.causes.registry import CAUSES
from lockstep.analyzer.causes.symptoms.series import ALIKE, UNLIKE, Symptom
from lockstep.analyzer.causes.symptoms.table import BY_NAME, SLOW, SYMPTOMS, measured, states_of
from lockstep.analyzer.shapes.run import Evidence, Fact, Finding, Grid
from lockstep.analyzer.stats.before_after import has_gpu
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.words import Cause

FILE = "cause_weights.json"
SURELY, RATHER, TWICE = 5.0, 1.5, 0.7
"""Natural-log odds: 150, 4.5 and 2 to 1."""
PRIOR: Mapping[Expectation, Mapping[str, float]] = {
    MUST: {"strong": SURELY, "mild": 3.0, "none": -SURELY,
           "near": -1.0, "elsewhen": -6.0, "follows": 1.0, "apart": -RATHER},
    MAY: {"strong": RATHER, "mild": TWICE, "none": 0.0, "elsewhen": -1.0},
    AGAINST: {"strong": -4.0, "mild": -2.0, "none": 0.5, "elsewhen": 2.0},
}  # fmt: skip
"""Natural-log odds before any run was looked at, chosen: of what must be there, and of what may."""
MATTERS = TWICE
"""Log odds from which the absence of what speaks against a cause is listed as a fact."""
CONTEXT = frozenset({"no GPU", "whole node", "slow finding"})
"""States of a finding besides its symptoms; every cause has weights for them."""
HARDWARE = frozenset(spec.name for spec in SYMPTOMS if SLOW in spec.kinds and not spec.of_work)
"""Symptoms that more work alone does not cause."""
STRENGTHS = (": strong", ": mild", ": none")
"""States that say whether a symptom is there; the others say how it goes with the slowdown."""
UNKNOWN_BIAS, RARE_BIAS = 1.0, -RATHER
"""Of "we do not know", and of each cause: a cause without any data is seldom the one."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The table.

    Attributes:
        of: Cause, "unknown" among them -> state (symptoms.table.states_of) -> natural-log odds.
        temperature: By which their sum is divided, so that probabilities are as often right as they
            say (Guo et al., "On Calibration of Modern Neural Networks", ICML 2017).
        well: State -> natural-log odds of a place that is well, against a slow one of an unknown
            cause: what healthy hardware shows, innocent troubles among it (`shown_when_slow`).
    """

    of: Mapping[str, Mapping[str, float]]
    temperature: float = 1.0
    well: Mapping[str, float] = field(default_factory=dict)

    def log_odds(self, cause: str, states: Mapping[str, float]) -> float:
        """Of a cause against "unknown"; each state weighs by the share of which it is so."""
        mine, unknown = self.of[cause], self.of[Cause.UNKNOWN.value]
        shares = {"bias": 1.0, **states}
        odds = sum((mine.get(s, 0.0) - unknown.get(s, 0.0)) * shares[s] for s in shares)
        return odds / self.temperature

    def log_ratio(self, states: Mapping[str, float], *, gpu: bool) -> float:
        """Log of P(states | slow, for any cause) / P(states | well); 0 without any.

        By states of the hardware alone, since times are judged elsewhere.

        Args:
            states: As of `log_odds`.
            gpu: Whether its ranks have one.
        """
        shown = shown_when_slow(states)
        well = sum(self.well.get(state, 0.0) * share for state, share in shown.items())
        return self.of_known_cause(states, gpu=gpu) - well

    def of_known_cause(self, states: Mapping[str, float], *, gpu: bool) -> float:
        """Log of P(hardware's states | slow, for any cause) / P(the same | an unknown cause).

        Args:
            states: As of `log_odds`; CONTEXT counts on both sides.
            gpu: Whether its ranks have one.
        """
        causes = [spec.cause for spec in CAUSES if possible(spec, SLOW, gpu=gpu)]
        before = {state: share for state, share in states.items() if state in CONTEXT}
        now = before | told_by_hardware(states)
        with_any = [
            np.logaddexp.reduce([0.0, *(self.log_odds(cause, some) for cause in causes)])
            for some in (now, before)
        ]
        return float(with_any[0] - with_any[1])


def expected() -> dict[str, dict[str, float]]:
    """The table before any fit: cause -> state -> natural-log odds."""
    table = {
        spec.cause.value: {"bias": RARE_BIAS}
        | {
            f"{name}: {state}": odds
            for expectation, names in spec.expects.items()
            for name in names
            for state, odds in PRIOR[expectation].items()
        }
        for spec in CAUSES
    }
    return table | {Cause.UNKNOWN.value: {"bias": UNKNOWN_BIAS}}


def expected_signs() -> dict[str, dict[str, int]]:
    """Cause -> state -> 1 or -1, where physics says for or against: no fit may say the opposite.

    A simulator in which hot GPUs are seldom throttled by heat would teach that heat speaks against
    it. The biases, CONTEXT and what the prior leaves at 0 may have either sign.
    """
    return {
        cause: {
            state: 1 if odds > 0 else -1 for state, odds in row.items() if odds and state != "bias"
        }
        for cause, row in expected().items()
    }


def expected_well() -> dict[str, float]:
    """The weights of a healthy place before any fit: any trouble speaks against it."""
    return {
        state: 0.0 if strength == "mild" and BY_NAME[name].mutual else odds
        for name in HARDWARE
        for strength, odds in PRIOR[AGAINST].items()
        if (state := f"{name}: {strength}").endswith(STRENGTHS)
    }


def told_by_hardware(states: Mapping[str, float]) -> dict[str, float]:
    """The states of a place that its hardware and software show."""
    return {state: share for state, share in states.items() if state.partition(":")[0] in HARDWARE}


def shown_when_slow(states: Mapping[str, float]) -> dict[str, float]:
    """How much of each trouble of hardware and software there was during the finding.

    Trouble at another time is as likely at a place that is slow for an unknown reason as at a
    healthy one, and a healthy place has no slowdown that a symptom could go with: neither
    separates the two.
    """
    of_hardware = told_by_hardware(states)
    return {
        state: share * (1.0 - of_hardware.get(f"{state.partition(':')[0]}: elsewhen", 0.0))
        for state, share in of_hardware.items()
        if state.endswith(STRENGTHS)
    }


@cache
def fitted() -> Weights:
    """The table in cause_weights.json; what it lacks is as expected before any fit."""
    stored = bounded_json.loads(files("lockstep.analyzer.causes").joinpath(FILE).read_text())
    table = {cause: row | stored["weights"].get(cause, {}) for cause, row in expected().items()}
    return Weights(table, stored["temperature"], expected_well() | stored.get("well", {}))


def possible(spec: CauseSpec, kind: str, *, gpu: bool) -> bool:
    """Whether a finding of this kind can have the cause."""
    return kind in spec.kinds and (gpu or not spec.of_gpu)


def weigh_causes(grid: Grid, findings: Sequence[Finding]) -> list[tuple[Evidence, ...]]:
    """The evidence for each possible cause of each rank's finding at one place, as in CAUSES.

    Log odds are those of the place, by what all its ranks show, as in the fit: telemetry of one
    host is counted once, however many ranks it has. Facts are those of the rank.
    """
    every, weights = [measured(grid, finding) for finding in findings], fitted()
    states = states_of(grid, findings, every)
    return [
        tuple(
            Evidence(
                spec.cause,
                weights.log_odds(spec.cause, states),
                tuple(_facts(spec, symptoms, weights)),
                _missing(spec, symptoms, finding.kind, gpu=has_gpu(grid, finding.rank)),
            )
            for spec in CAUSES
            if possible(spec, finding.kind, gpu=has_gpu(grid, finding.rank))
        )
        for finding, symptoms in zip(findings, every, strict=True)
    ]


def slow_or_well(grid: Grid, findings: Sequence[Finding]) -> float:
    """`Weights.log_ratio` of a place, by what all its ranks show."""
    symptoms = [measured(grid, finding) for finding in findings]
    gpu = has_gpu(grid, findings[0].rank)
    return fitted().log_ratio(states_of(grid, findings, symptoms), gpu=gpu)


def _facts(spec: CauseSpec, symptoms: Mapping[str, Symptom], weights: Weights) -> list[Fact]:
    """The cause's own symptoms, and those against it that are there or whose absence matters."""
    facts, doses, mine = [], [], weights.of[spec.cause]
    for expectation, names in spec.expects.items():
        for name in names:
            symptom = symptoms.get(name)
            if symptom is None or not symptom.text:
                continue
            odds = sum(mine.get(f"{name}: {state}", 0.0) for state in symptom.states)
            if expectation is AGAINST and not symptom.seen and odds < MATTERS:
                continue
            there = symptom.explains if expectation is not AGAINST else not symptom.explains
            text = f"{symptom.text}{_when(symptom)}"
            facts.append(Fact(there, text, symptom.query, symptom.basis))
            if expectation is MUST and symptom.explains and (dose := _dose(symptom)) is not None:
                doses.append(dose)
    return facts + doses


def _missing(
    spec: CauseSpec, symptoms: Mapping[str, Symptom], kind: str, *, gpu: bool
) -> tuple[str, ...]:
    wanted = (name for names in spec.expects.values() for name in names)
    rows = [BY_NAME[name] for name in wanted if name not in symptoms]
    words = [
        row.told_by for row in rows if row.told_by and kind in row.kinds and (gpu or not row.of_gpu)
    ]
    return tuple(dict.fromkeys(words))


def _when(symptom: Symptom) -> str:
    if not symptom.seen or symptom.with_onset is None:
        return ""
    if symptom.with_onset:
        return ", since the slowdown began"
    side = "after" if symptom.began > 0 else "before"
    return f", but that began {abs(symptom.began):.0f} s {side} the slowdown"


def _dose(symptom: Symptom) -> Fact | None:
    """Whether own time follows it."""
    words = f"(Spearman's rho {symptom.follows:.2f} over the steps)"
    if symptom.follows >= ALIKE:
        return Fact(True, f"own time follows it {words}", symptom.query, symptom.basis)
    if symptom.follows < UNLIKE:
        return Fact(False, f"own time does not follow it {words}", symptom.query, symptom.basis)
    return None


WORTH_NAMING = 0.01
"""Probability from which another cause is listed."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """The likeliest cause, the facts for and against it, and the other causes.

    Attributes:
        cause: Its word.
        probability: 0 to 1.
        facts: The evidence.
        alternatives: `cause` and `confidence` of each other cause of WORTH_NAMING, likeliest first.
    """

    cause: str
    probability: float
    facts: tuple[Fact, ...]
    alternatives: tuple[Mapping[str, Any], ...]


def posterior(evidences: Sequence[Evidence], seen: Sequence[Fact] = ()) -> Posterior:
    """Softmax of the log odds; `unknown`, with log odds 0, always competes.

    The facts are those of the named cause. For an unknown cause they are `seen` and those of the
    two likeliest causes, because a person will look at these next.

    Args:
        evidences: One a cause.
        seen: Facts that are true whatever the cause is.
    """
    names = [evidence.cause for evidence in evidences] + [Cause.UNKNOWN.value]
    odds = np.array([evidence.log_odds for evidence in evidences] + [0.0])
    weights = np.exp(odds - odds.max())
    shares = weights / weights.sum()
    order = [int(index) for index in np.argsort(-shares, kind="stable")]
    best = order[0]
    ranked = [index for index in order if index < len(evidences)]
    shown = [best] if best < len(evidences) else ranked[:2]
    facts = tuple(seen) if best == len(evidences) else ()
    facts += tuple(fact for index in shown for fact in evidences[index].facts)
    missing = [word for index in shown for word in evidences[index].missing]
    if missing:
        words = ", ".join(dict.fromkeys(missing))
        facts += (Fact(False, f"unknown: {words}", "absent series"),)
    return Posterior(
        cause=str(names[best]),
        probability=float(shares[best]),
        facts=facts,
        alternatives=tuple(
            {"cause": str(names[index]), "confidence": float(shares[index])}
            for index in order[1:]
            if shares[index] >= WORTH_NAMING
        ),
    )
