"""Every file in a plug-in folder is in its tuple, and nothing else is."""

from pathlib import Path

import pytest

import analyzer.causes
import analyzer.detectors
from analyzer.anomalies.watched import Subject
from analyzer.detectors import DETECTORS, PRECEDENCE
from collector.contract.words import Cause


def _files(package, *beside):
    folder = Path(package.__file__).parent
    return {path.stem for path in folder.glob("*.py")} - {"__init__", *beside}


def _sentence(text):
    return text.endswith(".") and not text[0].islower()


def test_every_detector_but_null_is_a_row_of_its_name():
    modules = [spec.detect.__module__.rpartition(".")[2] for spec in DETECTORS]

    assert [spec.name for spec in DETECTORS] == modules
    assert _files(analyzer.detectors, "null") == set(modules)


def test_a_detector_without_precedence_yields_to_all_others():
    told = {spec.precedence for spec in DETECTORS if spec.precedence is not None}
    added = [PRECEDENCE[spec.name] for spec in DETECTORS if spec.precedence is None]

    assert min(added) > max(told)
    assert len(added) == len(set(added))


def test_every_cause_of_the_contract_is_a_file_and_every_file_a_cause():
    words = [spec.cause for spec in analyzer.causes.CAUSES]

    assert [cause for cause in Cause if cause is not Cause.UNKNOWN] == words
    assert len(_files(analyzer.causes)) == len(words)


def test_a_cause_without_a_file_is_told_at_once(monkeypatch):
    monkeypatch.setattr(analyzer.causes, "iter_modules", lambda _: [])

    with pytest.raises(LookupError, match="the contract has"):
        analyzer.causes._specs()


@pytest.mark.parametrize("spec", analyzer.causes.CAUSES, ids=lambda spec: spec.cause)
def test_a_cause_says_what_it_must_see_and_what_is_said_of_it(spec):
    assert _sentence(spec.must_see)
    assert not spec.must_not_see or _sentence(spec.must_not_see)
    assert spec.words
    assert spec.node_words
    assert not spec.words.endswith(".")
    assert not spec.node_words.endswith(".")
    assert set(spec.explains) <= set(Subject)


def test_each_cause_answers_with_its_own_word_of_the_contract(synthetic, fault):
    from analyzer.attribute import accuses, diagnose

    diagnosis = diagnose(synthetic(faults=[fault("thermal", 2)]).run())
    finding = next(f for f in diagnosis.findings if accuses(f))
    words = [spec.evidence(diagnosis.grid, finding).cause for spec in analyzer.causes.CAUSES]

    assert [spec.cause for spec in analyzer.causes.CAUSES] == words
