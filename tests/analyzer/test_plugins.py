"""Every file in a plug-in folder is in its tuple, and nothing else is."""

from pathlib import Path

import pytest

import lockstep.analyzer.causes.specs
import lockstep.analyzer.stragglers.detectors
import lockstep.analyzer.stragglers.model
from lockstep.analyzer.causes import registry
from lockstep.analyzer.causes.cause_weights import fitted
from lockstep.analyzer.causes.registry import CAUSES
from lockstep.analyzer.causes.symptoms.table import BY_NAME
from lockstep.analyzer.hardware.anomalies.watched_metrics import Subject
from lockstep.analyzer.stragglers.model.effects import SHAPES
from lockstep.analyzer.stragglers.registry import DETECTORS
from lockstep.collector.contract.words import Cause


def _files(package, *beside):
    folder = Path(package.__file__).parent
    return {path.stem for path in folder.glob("*.py")} - {"__init__", *beside}


def _sentence(text):
    return text.endswith(".") and not text[0].islower()


def test_every_detector_is_a_row_of_its_own_name_and_every_file_has_one():
    names = [spec.name for spec in DETECTORS]

    assert len(set(names)) == len(names)
    elsewhere = {"effects", "detector"}
    assert elsewhere | _files(lockstep.analyzer.stragglers.detectors) == {
        spec.detect.__module__.rpartition(".")[2] for spec in DETECTORS
    }


def test_every_shape_is_a_row_and_every_row_a_generator_of_candidates():
    files = _files(
        lockstep.analyzer.stragglers.model, "adjusted_time", "candidate", "effects",
        "effect_findings",
        "minimum_detectable_effect", "precision", "reference", "roles", "scopes",
        "whole_or_parts",
    )  # fmt: skip

    assert files == {shape.__module__.rpartition(".")[2] for shape in SHAPES}
    assert len(set(SHAPES)) == len(SHAPES)


def test_every_cause_of_the_contract_is_a_file_and_every_file_a_cause():
    words = [spec.cause for spec in CAUSES]

    assert [cause for cause in Cause if cause is not Cause.UNKNOWN] == words
    assert len(_files(lockstep.analyzer.causes.specs)) == len(words)


def test_a_cause_without_a_file_is_told_at_once(monkeypatch):
    monkeypatch.setattr(registry, "iter_modules", lambda _: [])

    with pytest.raises(LookupError, match="the contract has"):
        registry._specs()


@pytest.mark.parametrize("spec", CAUSES, ids=lambda spec: spec.cause)
def test_a_cause_says_what_it_must_see_and_what_is_said_of_it(spec):
    assert _sentence(spec.must_see)
    assert not spec.must_not_see or _sentence(spec.must_not_see)
    assert spec.words
    assert spec.node_words
    assert not spec.words.endswith(".")
    assert not spec.node_words.endswith(".")
    assert set(spec.explains) <= set(Subject)


def test_what_a_cause_expects_are_symptoms_each_once():
    for spec in CAUSES:
        names = [name for some in spec.expects.values() for name in some]

        assert set(names) <= set(BY_NAME)
        assert len(names) == len(set(names))


def test_the_fitted_table_has_a_row_a_cause_and_knows_no_other_symptoms():
    table = fitted().of

    assert {str(cause) for cause in Cause} == set(table)
    told = {state.partition(": ")[0] for row in table.values() for state in row if ": " in state}
    assert told <= set(BY_NAME)
