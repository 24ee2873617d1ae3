"""The table of weights: it starts from what is expected, follows examples, and is calibrated."""

import json
import math
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.causes.cause_spec import Expectation
from lockstep.analyzer.causes.cause_weights import (
    FILE,
    PRIOR,
    STRENGTHS,
    Weights,
    expected,
    expected_signs,
    fitted,
    possible,
    shown_when_slow,
)
from lockstep.analyzer.causes.registry import CAUSES, SPECS
from lockstep.analyzer.causes.symptoms.table import SYMPTOMS
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.scoring.examples import WELL, Example, background, elsewhere
from lockstep.evaluation.scoring.fit import calibrated, fit, fit_well, guesses, log_loss
from lockstep.evaluation.synth.hard_draw import hard
from lockstep.evaluation.synth.whole import labelled

NAMES = sorted({name for spec in CAUSES for some in spec.expects.values() for name in some})
HEAT = {"thermal throttling: strong": 1.0, "excess in compute: strong": 1.0}


def example(cause="thermal", kind="slow", gpu=True, **states):
    return Example(cause, kind, gpu, states.get("states", HEAT))


def test_without_examples_the_table_is_what_is_expected():
    weights = fit([example()], ridge=1e9).of

    assert all(
        weights[cause].get(state, 0.0) == pytest.approx(odds, abs=1e-3)
        for cause, row in expected().items()
        for state, odds in row.items()
    )


def test_examples_move_the_weights_of_what_a_cause_expects_and_no_others():
    odd = {"power at its cap: strong": 1.0, "heat: strong": 1.0}
    learned = fit([example("power", states=odd)] * 50, ridge=0.1)

    assert learned.log_odds("power", odd) > Weights(expected()).log_odds("power", odd)
    assert guesses(learned, [example("power", states=odd)])[0][0] == "power"
    assert "heat: strong" not in learned.of["power"]
    assert learned.of["unknown"] == expected()["unknown"]


def test_the_same_examples_give_the_same_table():
    some = [example(), example("unknown", states={"excess in compute: strong": 1.0})]

    assert fit(some).of == fit(some).of


def test_who_is_right_half_of_the_time_says_so():
    """Equal symptoms, two causes in turn: the temperature cannot make either surer than a half."""
    told = [example(cause) for cause in ("thermal", "power") * 50]
    weights = calibrated(fit(told, ridge=0.01), told)

    assert 0.5 == pytest.approx(guesses(weights, told)[0][1], abs=0.05)
    assert log_loss(weights, told) == pytest.approx(math.log(2), abs=0.05)


def test_what_a_kind_of_finding_cannot_have_is_never_guessed():
    hang = Example("crash", "hang", False, {"process gone: strong": 1.0})

    assert "crash" == guesses(fitted(), [hang])[0][0]
    assert not possible(SPECS["thermal"], "hang", gpu=True)
    assert not possible(SPECS["thermal"], "slow", gpu=False)


@given(
    st.sampled_from([spec.cause.value for spec in CAUSES if "slow" in spec.kinds]),
    st.sets(st.sampled_from(NAMES)),
    st.integers(0, 2**31),
)
@settings(max_examples=200)
def test_another_fleet_never_knows_a_cause_of_which_it_tells_nothing(cause, strong, seed):
    states = {f"{name}: {'strong' if name in strong else 'none'}": 1.0 for name in NAMES}
    told = elsewhere(Example(cause, "slow", True, states), np.random.default_rng(seed))

    assert told.cause in (cause, "unknown")
    assert told.gpu or not any(state.startswith("lower clock") for state in told.states)
    if told.cause == cause not in ("unknown", "slow-gpu"):
        own = SPECS[cause].expects
        names = [*own.get(Expectation.MUST, ()), *own.get(Expectation.MAY, ())]
        assert any(f"{name}: strong" in told.states for name in names)


def test_a_full_link_without_counters_is_one_that_carries_less():
    states = {"full link: strong": 1.0, "longer transfers: strong": 1.0}
    full = Example("congestion", "link", True, states)
    told = {elsewhere(full, np.random.default_rng(seed)).cause for seed in range(40)}

    assert {"congestion", "link"} == told


@pytest.mark.parametrize("cause", [spec.cause.value for spec in CAUSES])
def test_symptoms_that_nobody_tells_say_nothing(cause):
    """Only what is told moves the odds: each state by its own weight, what is not told by none."""
    weights = fitted()
    silent = weights.log_odds(cause, {})

    assert 0 > silent, "of what nobody tells, nobody knows"
    assert silent == weights.log_odds(cause, {"a symptom that no cause knows: strong": 1.0})
    for state, odds in weights.of[cause].items():
        if state != "bias":
            told = weights.log_odds(cause, {state: 1.0})
            assert odds / weights.temperature == pytest.approx(told - silent, abs=1e-9)


def test_no_weight_says_the_opposite_of_physics():
    committed = json.loads(files("lockstep.analyzer.causes").joinpath(FILE).read_text())["weights"]
    against = [
        (cause, state, odds)
        for cause, row in committed.items()
        for state, odds in row.items()
        if odds * expected_signs()[cause].get(state, 0) < 0
    ]

    assert [] == against
    assert 1 == expected_signs()["thermal"]["thermal throttling: mild"]
    assert -1 == expected_signs()["thermal"]["power throttling: strong"]


def test_a_simulator_that_is_wrong_teaches_nothing_against_physics():
    """Whose hot GPUs are throttled by power, and whose power throttles are of hot GPUs."""
    wrong = [
        example("power", states={"thermal throttling: strong": 1.0}),
        example("thermal", states={"power throttling: strong": 1.0}),
    ]
    learned = fit(wrong * 200, ridge=0.01).of

    for cause, row in expected_signs().items():
        assert all(learned[cause].get(state, 0.0) * sign >= 0 for state, sign in row.items())
    assert 0.0 == learned["thermal"]["thermal throttling: strong"]


def test_what_a_symptom_teaches_in_full_it_teaches_when_mild():
    """A prior that is a share of the other's, in the fit of causes and in that of what is well."""
    heat, quiet = {"heat: strong": 1.0}, {"heat: none": 1.0}
    of = fit([example(states=heat), example("power", states=quiet)] * 200).of["thermal"]
    share = PRIOR[Expectation.MAY]["mild"] / PRIOR[Expectation.MAY]["strong"]
    well = [Example(WELL, "slow", True, states) for states in (heat, quiet)] * 200
    slow = [example(states={**heat, "heat: mild": 0.0})]
    told = fit_well(fit(slow), slow, well).well

    assert of["heat: strong"] > 1.5 * PRIOR[Expectation.MAY]["strong"]
    assert of["heat: mild"] == pytest.approx(share * of["heat: strong"], abs=2e-3)
    assert told["heat: mild"] == pytest.approx(told["heat: strong"] / 2, abs=2e-3)
    assert told["heat: strong"] > PRIOR[Expectation.AGAINST]["strong"]


def test_a_difference_of_two_nodes_says_no_more_of_the_one_than_of_the_other():
    """As often of the node that is well as of the slow one, it tells nothing of who is slow."""
    same, odd = {"other software: none": 1.0}, {"other software: mild": 1.0}
    slow = [example("software", states=odd), example("thermal", states=HEAT | same)] * 100
    well = [Example(WELL, "slow", True, states) for states in (odd, same)] * 100
    learned = fit_well(fit(slow), slow, well)

    assert learned.log_ratio(odd, gpu=True) == pytest.approx(0.0, abs=0.2)
    assert learned.log_ratio({"other software: strong": 1.0}, gpu=True) > math.log(5)


def test_no_setting_pays_for_another_however_many_examples_it_has():
    """In one setting the cause is always right, in the other half of the time."""
    sure, doubtful = [example()] * 100, [example(cause) for cause in ("thermal", "power")]
    weights = fit(sure, ridge=1.0)
    alone, both = calibrated(weights, sure), calibrated(weights, sure, doubtful)

    assert both.temperature > alone.temperature
    assert both.temperature == calibrated(weights, sure[:1], doubtful * 100).temperature
    less = calibrated(weights, doubtful)
    assert less.temperature == calibrated(weights, doubtful, sure).temperature
    assert both.temperature == calibrated(weights, sure, doubtful, []).temperature


def test_the_committed_table_says_what_it_was_fitted_on():
    told = json.loads(files("lockstep.analyzer.causes").joinpath(FILE).read_text())

    assert told["seed"] >= 1_000_000, "seeds of scores are below"
    assert 0.5 < told["temperature"] < 2.0
    assert {str(cause) for cause in Cause} == set(told["weights"])


def test_what_is_expected_speaks_for_its_cause():
    assert set(PRIOR) == set(Expectation)
    assert Weights(expected()).log_odds("thermal", {"thermal throttling: strong": 1.0}) > 0


QUIET = {f"{name}: none": 1.0 for name in ("thermal throttling", "XID", "no processor")}


def well_and_slow(*, decoys):
    """A hundred hot GPUs, and as many places that are well, some with an XID that cost nothing."""
    innocent = {**QUIET, "XID: strong": 1.0}
    del innocent["XID: none"]
    slow = [example(states={**QUIET, **HEAT})] * 100
    well = [Example(WELL, "slow", True, QUIET)] * (100 - decoys)
    return fit(slow), slow, [*well, *[Example(WELL, "slow", True, innocent)] * decoys]


def test_a_place_that_is_well_has_its_own_background():
    """What healthy places show now and then says less of a slow one, the oftener they do."""
    hot, xid = {**QUIET, **HEAT}, {**QUIET, "XID: strong": 1.0}
    seldom, often = (fit_well(*well_and_slow(decoys=each)) for each in (0, 40))

    assert seldom.log_ratio(hot, gpu=True) > 5
    assert often.log_ratio(QUIET, gpu=True) < math.log(0.5)
    assert often.log_ratio(xid, gpu=True) < seldom.log_ratio(xid, gpu=True)
    assert seldom.of == fit(well_and_slow(decoys=0)[1]).of


def test_what_more_work_changes_as_well_tells_no_place_that_is_well():
    learned = fit_well(*well_and_slow(decoys=10))
    work = {"excess in compute: strong": 1.0, "more CPU time: strong": 1.0}

    assert learned.log_ratio(QUIET, gpu=True) == learned.log_ratio(QUIET | work, gpu=True)
    assert not set(work) & set(learned.well)


def test_no_trouble_speaks_for_a_place_that_is_well():
    weights, slow, well = well_and_slow(decoys=100)
    learned = fit_well(weights, slow, well, ridge=0.01).well

    assert learned["XID: strong"] <= 0 <= learned["XID: none"]
    assert weights is fit_well(weights, slow, [])


def test_no_trouble_speaks_for_a_place_that_is_well_in_the_table_that_is_used():
    well = json.loads(files("lockstep.analyzer.causes").joinpath(FILE).read_text())["well"]

    assert well == {state: odds for state, odds in fitted().well.items() if state in well}
    of_two = [f"{spec.name}: mild" for spec in SYMPTOMS if spec.mutual]
    assert ["other software: mild"] == of_two
    rest = {state: odds for state, odds in well.items() if state not in of_two}
    assert all(odds >= 0 if state.endswith(": none") else odds <= 0 for state, odds in rest.items())
    assert all(state.endswith(STRENGTHS) for state in fitted().well)


def test_trouble_at_another_time_does_not_tell_slow_from_well():
    told = {"XID: strong": 1.0, "XID: elsewhen": 0.75, "heat: mild": 0.5, "heat: follows": 0.5}

    assert shown_when_slow(told) == {"XID: strong": 0.25, "heat: mild": 0.5}


def test_where_nothing_is_told_a_place_is_as_likely_slow_as_before():
    learned = fit_well(*well_and_slow(decoys=10))

    for context in ({}, {"slow finding": 1.0}, {"slow finding": 1.0, "whole node": 1.0}):
        assert learned.log_ratio(context, gpu=True) == 0.0


def test_the_background_is_of_places_without_fault():
    """Of a node from the first step on, and of one of its ranks since some moment."""
    run = labelled(hard(390012, injected=True))
    ill = {each["node"] for each in run.truth}
    node, rank = background(diagnose(run.run).grid, run.truth)
    told = [elsewhere(node, np.random.default_rng(seed)) for seed in range(20)]

    assert ill == {"node-1"}
    assert {(WELL, "slow", True)} == {(each.cause, each.kind, each.gpu) for each in (node, rank)}
    assert {WELL} == {each.cause for each in told}
    assert "thermal throttling: none" in node.states
    assert ("whole node" in node.states, "whole node" in rank.states) == (True, False)
    everywhere = [{**each, "node": f"node-{n}"} for each in run.truth for n in range(2)]
    assert [] == list(background(diagnose(run.run).grid, everywhere))
