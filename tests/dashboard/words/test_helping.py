"""The Help page tells what the program does, not what it once did."""

from lockstep.analyzer.report.sections.detection import THRESHOLDS
from lockstep.analyzer.report.sections.supporting import GLOSSARY
from lockstep.collector.contract.words import ExitCode
from lockstep.dashboard.words import helping


def test_every_exit_code_is_told() -> None:
    codes = {value for name, value in vars(ExitCode).items() if name.isupper()}
    assert codes == {code for code, _ in helping.EXIT_CODES}


def test_words_and_limits_are_those_of_the_reports() -> None:
    assert list(GLOSSARY) == list(helping.glossary()["word"])
    assert [limit for _, limit, _ in THRESHOLDS] == list(helping.thresholds()["limit"])
