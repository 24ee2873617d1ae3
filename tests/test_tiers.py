"""Every test is in one tier, and continuous integration sums them."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import LONG, is_real
from tests.tally import Tally, tally
from tests.tiers import FOREIGN_MARKS, REAL_MARKS, SWEEP_MARK, Tier, case_id, sample, tier, unstable

ROOT = Path(__file__).parent.parent
CASES = [f"test[{outer}-{inner}]" for outer in range(9) for inner in "abc"]
COUNTS = 'tests="{}" failures="{}" errors="{}" skipped="{}" time="1.5"'
RESULTS = f"<testsuites><testsuite {COUNTS}/></testsuites>"
MAKE = """#!/bin/sh
[ "$1" != "$FAILING" ] || status=1
mkdir -p .cache/results
case "$1" in
  test) echo "$QUICK" > .cache/results/test.xml ;;
  test-real) echo "$REAL" > .cache/results/test-real.xml ;;
  test-again) echo "$AGAIN" > .cache/results/again.xml ;;
esac
echo "made $1"
exit ${status:-0}
"""


def test_a_test_that_needs_nothing_of_the_machine_is_quick() -> None:
    assert Tier.QUICK is tier({"parametrize", "sweep"}, sampled=True)


@pytest.mark.parametrize("mark", sorted(REAL_MARKS))
def test_a_test_that_needs_the_machine_is_real(mark: str) -> None:
    assert Tier.REAL is tier({"parametrize", mark}, sampled=True)
    assert Tier.SWEEP is tier({"parametrize", mark}, sampled=False)


@pytest.mark.parametrize("mark", sorted(FOREIGN_MARKS))
def test_a_test_of_other_projects_software_is_left_to_all_tiers(mark: str) -> None:
    assert Tier.SWEEP is tier({"root", mark}, sampled=True)


def test_every_mark_of_the_project_is_known_to_the_tiers() -> None:
    pytest_settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]
    names = {line.partition(":")[0] for line in pytest_settings["ini_options"]["markers"]}

    assert REAL_MARKS | FOREIGN_MARKS | {SWEEP_MARK} == names


def test_a_sample_is_always_the_same_and_has_every_value_of_a_parameter_that_comes_round() -> None:
    chosen = sample(CASES)

    assert chosen == sample(CASES[::-1])
    assert set("abc") == {case[-2] for case in chosen}
    assert chosen - {"test[9-a]"} >= sample([*CASES, "test[9-a]"]) - {"test[9-a]"}


def test_a_sample_of_few_is_all() -> None:
    assert frozenset(CASES[:2]) == sample(CASES[:2])


@pytest.mark.parametrize(
    ("value", "expected"), [(b"GET /", None), (b"\x1f\x8b\x08", "3 bytes"), (3, None), ("a", None)]
)
def test_bytes_that_are_no_text_are_told_by_their_number(value: object, expected: object) -> None:
    assert expected == case_id(value)


def test_what_is_begun_early_is_there_and_real() -> None:
    assert [] == [file for file in LONG if not is_real(ROOT / file)]
    assert not is_real(ROOT / "tests/test_glossary.py")


def test_an_id_with_an_address_is_seen() -> None:
    assert unstable("test[<function f at 0x7f3c2a>]")
    assert not unstable("test[0x1f]")


def test_the_sum_is_in_the_words_of_pytest() -> None:
    both = tally(RESULTS.format(10, 1, 1, 2)) + tally(RESULTS.format(5, 0, 0, 0))

    assert Tally(11, 2, 2, 3.0) == both
    assert "== 11 passed, 2 failed, 2 skipped in 3.00s ==" == str(both)


@pytest.mark.parametrize("text", ["", "<a/>", '<testsuite tests="1"/>', '{"tests": 1}'])
def test_what_is_no_result_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="no"):
        tally(text)


@pytest.fixture
def checked(tmp_path: Path):
    """Runs .ci/checks in a checkout of its own, with a make that has found what is told."""
    for name in (".ci/checks", "tests/tally.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "make").write_text(MAKE)
    (tmp_path / "bin" / "make").chmod(0o755)
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)

    def run(**environment: str) -> tuple[int, list[str]]:
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", str(tmp_path / ".ci/checks")], text=True, capture_output=True, check=False,
            env={"PATH": path, "QUICK": RESULTS.format(8, 0, 0, 1),
                 "REAL": RESULTS.format(3, 0, 0, 0), "AGAIN": "", "FAILING": ""} | environment,
        )  # fmt: skip
        return done.returncode, done.stdout.splitlines()

    return run


def test_all_parts_run_and_the_last_line_sums_the_tests(checked) -> None:
    code, lines = checked()

    assert 0 == code
    assert ["made lint", "made test", "made test-real"] == lines[:3]
    assert "== 10 passed, 0 failed, 1 skipped in 3.00s ==" == lines[-1]


@pytest.mark.parametrize("part", ["lint", "test", "test-real"])
def test_where_one_part_fails_the_others_run_and_the_whole_fails(checked, part: str) -> None:
    code, lines = checked(FAILING=part)

    assert 1 == code
    assert ["made lint", "made test", "made test-real"] == lines[:3]
    assert f"failed: {part}" == lines[3]
    assert lines[-1].startswith("== 10 passed")


def test_a_part_without_results_is_a_failure_that_is_told(checked) -> None:
    code, lines = checked(REAL="")

    assert 1 == code
    assert lines[-2].startswith(".cache/results/test-real.xml: no results of pytest")
    assert "== 7 passed, 0 failed, 1 skipped in 1.50s ==" == lines[-1]


def test_a_failed_test_fails_the_whole(checked) -> None:
    code, lines = checked(QUICK=RESULTS.format(8, 1, 0, 1))

    assert 1 == code
    assert "== 9 passed, 1 failed, 1 skipped in 3.00s ==" == lines[-1]


CASE = '<testcase classname="tests.test_a" name="test_{}">{}</testcase>'
ALONE = f"<testsuite {COUNTS}>{{}}</testsuite>"


def test_who_fails_by_chance_is_named_and_stops_nobody(checked) -> None:
    code, lines = checked(
        FAILING="test", QUICK=RESULTS.format(8, 1, 0, 1),
        AGAIN=ALONE.format(1, 0, 0, 0, CASE.format("late", "")),
    )  # fmt: skip

    assert 0 == code
    assert "failed by chance, passed alone: tests.test_a.test_late" == lines[-2]
    assert "== 10 passed, 0 failed, 1 skipped in 4.50s ==" == lines[-1]


def test_who_fails_again_has_failed(checked) -> None:
    code, lines = checked(
        FAILING="test", QUICK=RESULTS.format(8, 2, 0, 1),
        AGAIN=ALONE.format(2, 1, 0, 0, CASE.format("late", "") + CASE.format("bad", "<failure/>")),
    )  # fmt: skip

    assert 1 == code
    assert "== 9 passed, 1 failed, 1 skipped in 4.50s ==" == lines[-1]


@pytest.mark.parametrize("again", ["", "<a/>", ALONE.format(1, 0, 0, 1, CASE.format("a", "<s/>"))])
def test_without_a_second_try_that_passed_the_first_counts(checked, again: str) -> None:
    code, lines = checked(FAILING="test", QUICK=RESULTS.format(8, 1, 0, 1), AGAIN=again)

    assert 1 == code
    assert lines[-1].startswith("== 9 passed, 1 failed, 1 skipped")


def test_many_failures_are_no_chance(checked) -> None:
    code, lines = checked(FAILING="test-real", REAL=RESULTS.format(9, 6, 0, 0))

    assert 1 == code
    assert "made test-again" not in lines
    assert "failed: test-real" in lines


def test_a_test_that_failed_and_could_not_clean_up_either_is_one() -> None:
    case = '<testcase classname="a" name="b"><{0}/></testcase>'
    cases = "".join(case.format(tag) for tag in ("failure", "error"))
    text = f"<testsuites><testsuite {COUNTS.format(5, 1, 1, 0)}>{cases}</testsuite></testsuites>"

    assert Tally(3, 1, 0, 1.5) == tally(text)
