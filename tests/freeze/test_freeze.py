"""No verdict moves: places, causes, numbers, exit codes, keys, metric names and rule expressions.

Inputs are made from seeds and asked about by the command line; docs/contributing/the-freeze.md says
what is covered, and when to record anew. Words are no matter of these tests:
`python -m tests.freeze compare --wording` shows them.
"""

import json

import pytest

from tests.freeze import inside
from tests.freeze.answers import Parts, split
from tests.freeze.cases import CASES
from tests.freeze.comparison import FOLDER, answered, differences, record, recorded
from tests.tiers import Tier

QUICK, REAL, SWEEP = ([case for case in CASES if case.tier is tier] for tier in Tier)


def unmoved(case):
    found = differences(recorded(case), answered(case))

    assert [] == found.inputs, "the input changed, so what follows from it says nothing"
    assert [] == found.exact


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_no_verdict_moves(case):
    unmoved(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", REAL, ids=lambda case: case.name)
def test_no_finding_moves(case):
    unmoved(case)


@pytest.mark.sweep(sample=0)
@pytest.mark.parametrize("case", SWEEP, ids=lambda case: case.name)
def test_no_verdict_moves_where_it_takes_longer(case):
    unmoved(case)


def test_what_is_recorded_is_of_a_case_and_of_each():
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(c.name for c in CASES)
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == sorted(c.name for c in CASES)


def test_every_cause_is_named_in_a_quick_case():
    outputs = [
        answer.get("stdout")
        for case in QUICK
        for answer in json.loads((FOLDER / f"{case.name}.json").read_text())["answers"]
    ]
    trees = [output for output in outputs if isinstance(output, dict)]
    named = {one.get("cause") for tree in trees for one in tree.get("culprits", ())}

    assert set() == inside.CAUSES - named


def answer(**changed):
    verdict = {
        "status": "degraded", "sentence": "Rank 2 is 1.5x slower.", "slowdown": 1.4999991,
        "culprits": [{"rank": 2, "link": "a -- b", "cause": "thermal"}],
        "series": [[float(x), 0.5] for x in range(40)],
    }  # fmt: skip
    parts = split([verdict | changed])
    return Parts({"input": {"steps.parquet": "a"}, "answers": parts.exact}, parts.words)


def test_other_words_are_no_difference_and_are_shown_with_their_numbers():
    found = differences(answer(), answer(sentence="Rank 2 takes 1.5x as long."))
    other = differences(answer(), answer(sentence="Rank 2 is 1.6x slower."))

    assert ([], []) == (found.exact, other.exact)
    assert [
        "0/sentence", "-Rank 2 is 1.5x slower.", "+Rank 2 takes 1.5x as long.",
    ] == found.wording  # fmt: skip
    assert "0/sentence (other numbers)" == other.wording[0]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"slowdown": 1.50001}, "0/slowdown: 1.5 -> 1.50001"),
        ({"status": "healthy"}, '0/status: "degraded" -> "healthy"'),
        ({"culprits": []}, "0/culprits: (absent) -> []"),
        ({"new": None}, "0/new: (absent) -> null"),
        ({"series": [[1.0, 0.5]] * 40}, "0/series/mark: "),
        (
            {"culprits": [{"rank": 2, "link": "a -- c", "cause": "thermal"}]},
            '0/culprits/0/link: "a -- b" -> "a -- c"',
        ),
    ],
)
def test_another_value_key_or_place_is_a_difference(changed, told):
    found = differences(answer(), answer(**changed))

    assert any(line.startswith(told) for line in found.exact)


def test_the_last_bits_of_a_number_are_no_difference():
    assert [] == differences(answer(), answer(slowdown=1.4999992)).exact


def test_another_input_is_told_apart():
    other = answer()
    other.exact["input"] = {"steps.parquet": "b"}

    assert ['steps.parquet: "a" -> "b"'] == differences(answer(), other).inputs


def test_what_is_recorded_is_read_back(tmp_path):
    case, parts = CASES[0], answer(sentence="One line,\n\n  and another.")
    record(case, parts, tmp_path)

    assert parts == recorded(case, tmp_path)
