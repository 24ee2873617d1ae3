"""A verdict agrees with what was injected, or the difference is told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.runs import truth
from lockstep.terminal.output import CommandError

FAULT = {
    "kind": "thermal", "cause": "thermal", "rank": 2, "node": "node-2", "from_step": 40,
    "to_step": 120, "factor_intended": 1.5, "factor_measured": 1.49,
}  # fmt: skip


def test_nothing_injected_and_nobody_named_agree(verdict: Callable[..., Any]) -> None:
    assert truth.disagreement(verdict("healthy"), []) is None


def test_the_right_rank_node_and_cause_agree(
    verdict: Callable[..., Any], culprit: Callable[..., Any]
) -> None:
    assert truth.disagreement(verdict("degraded", culprit()), [FAULT]) is None


@pytest.mark.parametrize("wrong", [{"cause": "power"}, {"rank": 1}])
def test_a_wrong_rank_or_cause_is_told(
    verdict: Callable[..., Any], culprit: Callable[..., Any], wrong: dict[str, Any]
) -> None:
    difference = truth.disagreement(verdict("degraded", culprit(**wrong)), [FAULT])

    assert difference is not None
    assert "thermal on rank 2 (node-2)" in difference


def test_a_second_culprit_is_one_too_many(
    verdict: Callable[..., Any], culprit: Callable[..., Any]
) -> None:
    both = verdict("degraded", culprit(), culprit(rank=1))

    assert truth.disagreement(both, [FAULT]) is not None


def test_a_fault_in_words_has_both_factors() -> None:
    words = truth.sentence(FAULT)

    assert "thermal on rank 2 (node-2) from step 40" in words
    assert "1.50x intended, 1.49x measured" in words


def test_truth_of_another_schema_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "truth.json").write_text(json.dumps({"schema_version": 9, "faults": []}))

    with pytest.raises(CommandError, match="schema version"):
        truth.read(tmp_path)
