"""A node object, read: annotations that a human, or somebody hostile, has edited."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.kubernetes import FAULTS, QUARANTINE, TAINT
from lockstep.watch.kubernetes import view
from lockstep.watch.kubernetes.conditions import from_text, to_text
from lockstep.watch.kubernetes.shapes import Breaker, Known, Quarantine
from tests.cluster.asking import a_node

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def _item(**annotations: str) -> dict[str, Any]:
    item = a_node("n")
    item["metadata"] |= {"uid": "u", "resourceVersion": "1", "annotations": annotations}
    return item


@given(st.text(max_size=40) | JSON.map(json.dumps))
def test_a_damaged_annotation_is_no_fault_no_quarantine_and_no_traceback(text: str) -> None:
    found = view.node(_item(**{FAULTS: text, QUARANTINE: text}))

    for known in found.faults.values():
        assert isinstance(known, Known)
    assert isinstance(found.quarantine, Quarantine)


@given(st.dictionaries(st.text(max_size=9), st.builds(
    Known, st.floats(0, 2e9), st.text(max_size=9), st.text(max_size=9), st.text(max_size=9)
), max_size=5))  # fmt: skip
def test_what_is_written_is_read_again(known: dict[str, Known]) -> None:
    assert known == view.faults(view.faults_text(known))


def test_a_taint_is_ours_by_our_own_note_only() -> None:
    item = _item(**{QUARANTINE: json.dumps({"since": 7.0})})
    item["spec"]["taints"] = [{"key": TAINT, "value": "since-7"}]
    assert view.node(item).ours

    item["spec"]["taints"] = [{"key": TAINT, "value": "by-hand"}]
    assert (True, False) == (view.node(item).tainted, view.node(item).ours)


@pytest.mark.parametrize(
    ("labels", "capacity", "expected"),
    [
        ({"nvidia.com/gpu.present": "true"}, "0", True),
        ({"nvidia.com/gpu.present": "false"}, "8", True),
        ({"nvidia.com/gpu.present": "false"}, "0", False),
        ({"nvidia.com/gpu.present": "true", "lockstep.example/exclude": ""}, "8", False),
        ({"node-role.kubernetes.io/control-plane": ""}, "8", False),
    ],
)
def test_who_may_be_touched(labels: dict[str, str], capacity: str, expected: bool) -> None:
    item = a_node("n")
    item["metadata"]["labels"] = labels
    item["status"]["capacity"] = {"nvidia.com/gpu": capacity}

    assert expected is view.may_be_touched(item, selected=False)


def test_a_selector_chooses_other_nodes_but_never_excluded_ones() -> None:
    item = a_node("n")
    item["metadata"]["labels"] = {"node-role.kubernetes.io/control-plane": ""}
    assert view.may_be_touched(item, selected=True)

    item["metadata"]["labels"]["lockstep.example/exclude"] = "yes"
    assert not view.may_be_touched(item, selected=True)


OPEN = Breaker(True, 100.0, "why")


@given(st.text(max_size=20) | JSON.map(json.dumps))
def test_a_breaker_that_is_open_is_closed_by_one_word_only(text: str) -> None:
    after = from_text(text, OPEN, 200.0)

    assert after.open or text.strip() == "reset"


def test_a_breaker_that_was_closed_later_is_closed() -> None:
    assert not from_text(to_text(Breaker(False, 150.0, "reset by a human")), OPEN, 200.0).open
    assert from_text(to_text(Breaker(False, 50.0)), OPEN, 200.0).open
    assert OPEN == from_text(None, OPEN, 200.0)
