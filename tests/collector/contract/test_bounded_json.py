"""JSON from outside: what is larger or deeper than it could be is an ordinary ValueError."""

import json
import os
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.bounded_json import (
    MAX_DEPTH,
    BoundError,
    loads,
    mended,
    read,
    unambiguous,
)


def nested(levels: int, *, objects: bool = False) -> str:
    return '{"a":' * levels + "1" + "}" * levels if objects else "[" * levels + "]" * levels


@pytest.mark.parametrize("objects", [False, True])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 500, 5_000, 200_000])
def test_what_is_nested_too_deep_is_a_value_error(levels: int, objects: bool) -> None:
    with pytest.raises(BoundError, match=f"deeper than {MAX_DEPTH}"):
        loads(nested(levels, objects=objects).encode())


@pytest.mark.parametrize("objects", [False, True])
def test_what_is_nested_as_deep_as_it_may_is_read(objects: bool) -> None:
    text = nested(MAX_DEPTH, objects=objects)

    assert json.loads(text) == loads(text)


def test_many_values_beside_each_other_are_not_deep() -> None:
    wide = [{"a": [index]} for index in range(1000)]

    assert wide == loads(json.dumps(wide))


def test_brackets_in_words_are_no_depth() -> None:
    assert {"a": "[" * 1000} == loads(json.dumps({"a": "[" * 1000}))


def test_what_is_too_large_is_not_even_parsed() -> None:
    began = perf_counter()

    with pytest.raises(BoundError, match="larger than 10 bytes"):
        loads(b"[" + b"1," * 5_000_000 + b"1]", limit=10)

    assert perf_counter() - began < 5


@pytest.mark.parametrize("text", ["", "{", "nul", '{"a": 1} 2', b"\xff\xfe\xff"])
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its words are of json and of codecs
        loads(text)


def test_a_pipe_does_not_keep_its_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")

    with pytest.raises(ValueError, match="no regular file"):
        read(tmp_path / "run.json")


def test_a_file_larger_than_its_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("[1, 2, 3]")

    assert [1, 2, 3] == read(tmp_path / "a", limit=9)
    with pytest.raises(BoundError):
        read(tmp_path / "a", limit=8)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 31, "1e400", "-1.5E+999"])
@pytest.mark.parametrize("before", ["", '[0, {"a": '])
def test_a_number_that_nobody_counts_to_is_refused(before: str, number: str) -> None:
    text = before + number + ("}]" if before else "")
    for document in (text, text.encode()):
        with pytest.raises(BoundError, match="it has a number"):
            loads(document)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
@pytest.mark.parametrize("document", ["[1e400]", "[1]", "[" * 200 + "]" * 200])
def test_bytes_in_another_encoding_than_utf_8_pass_no_bound(document: str, encoding: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its words are of json and of codecs
        loads(document.encode(encoding))


def test_half_a_character_is_refused_and_a_mark_of_utf_8_passes() -> None:
    with pytest.raises(UnicodeDecodeError):
        loads(b'"\xed\xa0\x80"')
    assert ["ä"] == loads('["ä"]'.encode("utf-8-sig")) == loads(bytearray('["ä"]'.encode()))


def test_a_text_of_digits_is_a_text_and_a_large_number_one() -> None:
    told = {"a": "1" * 400, "b": "1e999", "c": 2**64, "d": 1e300, "e": -(10**29)}

    assert told == loads(json.dumps(told))


# Two slips of programs that print JSON by hand are mended, and nothing else is touched.


@pytest.mark.parametrize(
    ("broken", "tree"),
    [
        ('{"a": 1\n "b": 2}', {"a": 1, "b": 2}),
        ('{"a": "x"\n "b": true\n "c": null\n "d": [1]\n "e": {}\n "f": 0}',
         {"a": "x", "b": True, "c": None, "d": [1], "e": {}, "f": 0}),
        ('{"a": 0,250, "b": -1,5}', {"a": 0.25, "b": -1.5}),
        ('{"seconds": 0,000\n}', {"seconds": 0.0}),
        ('{"a": "1 \\"b\\": 2", "c": [1,2]}', {"a": '1 "b": 2', "c": [1, 2]}),
        ('{"a": "x: 1,5}"\n "b": 2}', {"a": "x: 1,5}", "b": 2}),
    ],
)  # fmt: skip
def test_a_missing_comma_is_set_and_a_decimal_comma_made_a_point(broken, tree):
    assert tree == json.loads(mended(broken))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
    st.sampled_from([None, 1]),
)
def test_what_is_json_stays_as_it_is(tree, indent):
    text = json.dumps(tree, indent=indent)

    assert text == mended(text)


def test_a_member_that_stands_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        json.loads('{"a": 1, "a": 2}', object_pairs_hook=unambiguous)
