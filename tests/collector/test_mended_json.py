"""Two slips of programs that print JSON by hand are mended, and nothing else is touched."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.bounded_json import mended, unambiguous


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
