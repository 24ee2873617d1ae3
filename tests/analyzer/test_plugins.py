"""Every file in a plug-in folder is in its tuple, and nothing else is."""

from pathlib import Path

import analyzer.causes
import analyzer.detectors
from collector.contract.words import Cause


def _files(package, *beside):
    folder = Path(package.__file__).parent
    return {path.stem for path in folder.glob("*.py")} - {"__init__", *beside}


def _modules(plugins):
    return {type(plugin).__module__.rpartition(".")[2] for plugin in plugins}


def test_every_detector_but_null_is_in_the_tuple():
    assert _files(analyzer.detectors, "null") == _modules(analyzer.detectors.DETECTORS)


def test_every_cause_is_in_the_tuple():
    assert _files(analyzer.causes) == _modules(analyzer.causes.CAUSES)


def test_each_cause_answers_with_its_own_word_of_the_contract(synthetic, fault):
    from analyzer.attribute import accuses, diagnose

    diagnosis = diagnose(synthetic(faults=[fault("thermal", 2)]).run())
    finding = next(f for f in diagnosis.findings if accuses(f))
    words = [cause.weigh(diagnosis.grid, finding).cause for cause in analyzer.causes.CAUSES]

    assert len(set(words)) == len(words)
    assert set(words) <= set(Cause)
