"""Three real hangs of `python -m tests.benchmarks real_hangs`, by dumps of real ranks."""

from pathlib import Path

import pytest

from tests.benchmarks.real_hangs import cases, is_right

pytestmark = [pytest.mark.distributed, pytest.mark.sweep(sample=0)]


def test_real_hangs_are_named(tmp_path: Path) -> None:
    asked = [("sigstop", 1), ("loader", 2), ("dead", 3)]
    found = cases(asked, tmp_path / "cases.jsonl", keep=tmp_path)
    assert [(one["fault"], one["seed"]) for one in found] == asked
    assert all(one["stood"] and is_right(one) for one in found), found
    again = cases(asked, tmp_path / "cases.jsonl", keep=tmp_path)
    assert again == found, "a case that is written down is not run again"
