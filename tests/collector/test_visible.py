"""Text from outside on a terminal: shown, never obeyed."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.visible import HIDDEN, VisibleFormatter, visible, visible_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("node-1", "node-1"),
        ("\x1b[2Jnode", "\\u001b[2Jnode"),
        ("\x9b2Jnode", "\\u009b2Jnode"),
        ("a\rb", "a\\u000db"),
        ("a\x08b\x7f", "a\\u0008b\\u007f"),
        ("edon\u202e", "edon\\u202e"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("no\u200bde", "no\\u200bde"),
        ("half \ud83d", "half \\ud83d"),
        ("naïve 節点 \U0001f600 × ✓", "naïve 節点 \U0001f600 × ✓"),
        ("two\nlines\tof", "two\nlines\tof"),
    ],
)
def test_what_steers_a_terminal_is_spelled_out(text: str, shown: str) -> None:
    assert shown == visible(text)


def test_on_one_line_it_has_no_other() -> None:
    assert "a\\nlockstep: healthy\\tb" == visible_line("a\nlockstep: healthy\tb")


@given(st.text(st.characters()))
def test_nothing_hidden_is_left_and_it_can_be_sent(text: str) -> None:
    shown = visible(text)

    assert not HIDDEN.search(shown)
    shown.encode()
    assert shown == visible(shown)


@given(st.dictionaries(st.text(), st.text() | st.lists(st.text())))
def test_a_json_document_stays_the_same(tree: dict[str, object]) -> None:
    assert tree == json.loads(visible(json.dumps(tree, ensure_ascii=False)))


def test_a_log_record_is_one_line() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(VisibleFormatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("of this test")
    logger.propagate = False
    logger.addHandler(handler)
    logger.warning("node %s is slow", "a\x1b]0;owned\x07\nERROR all is well")

    assert "WARNING node a\\u001b]0;owned\\u0007\\nERROR all is well is slow\n" == stream.getvalue()
