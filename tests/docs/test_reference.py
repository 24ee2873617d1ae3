"""docs/reference says what the contract says, both ways."""

import re

import pytest

from lockstep.analyzer.shapes.run import Culprit, Verdict
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.app import COMMANDS, GROUPS
from lockstep.collector.contract.metrics import EXPORTED
from lockstep.collector.contract.words import ExitCode
from lockstep.workloads.faults.kinds import BUILT
from tests.docs import verdict
from tests.docs.faults import HAPPENS
from tests.docs.reference import EXIT_CODES, FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_what_the_contract_says(name: str) -> None:
    if name == "api.md":
        pytest.importorskip("fastapi", reason="needs the extra api")
    assert (FOLDER / name).read_text("utf-8") == PAGES[name](), "run python -m tests.docs"


def test_every_metric_of_every_page_is_told_once() -> None:
    told = re.findall(r"^- `(lockstep_\w+)`", PAGES["metrics.md"](), re.MULTILINE)

    assert sorted(told) == sorted(name for rows in EXPORTED.values() for name in rows)


def test_every_command_has_its_section() -> None:
    told = re.findall(r"^## lockstep (\w+)$", PAGES["command-line.md"](), re.MULTILINE)

    assert told == [*(command.__name__ for command in COMMANDS), *GROUPS]


def test_every_exit_code_is_explained() -> None:
    codes = {str(value) for name, value in vars(ExitCode).items() if name.isupper()}

    assert {code for code, _ in EXIT_CODES} == codes


def test_every_fault_that_can_be_injected_is_explained() -> None:
    assert set(HAPPENS) == set(BUILT)


def test_every_key_of_a_verdict_is_explained_in_its_order() -> None:
    culprit = Culprit(
        scope="rank", rank=0, node=None, gpu=None, uuid=None, dp=None, pp=None, tp=None, link=None,
        from_step=None, to_step=None, since=None, slowdown=None, slowdown_interval=None,
        cause="unknown", confidence=0.5, tier="record", evidence=(),
    )  # fmt: skip
    tree = verdict_json(Verdict("run", "degraded", "", None, None, None, 1.0, (culprit,)))

    assert list(verdict.VERDICT) == list(tree)
    assert list(verdict.CULPRIT) == list(tree["culprits"][0])
    assert list(verdict.WHAT_IF_WORDS) == list(tree["what_if"])
