"""Text from outside stays text: nothing in it is markup to Streamlit."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.widgets.markup import LONGEST, plain, short

JOINER = "\u2060"
ESCAPABLE = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""What a backslash makes literal. SOURCE: CommonMark 0.31, section 2.4."""


def read(markdown: str) -> str:
    """What is shown: escapes taken away, and what nobody sees."""
    return re.sub(rf"\\([{re.escape(ESCAPABLE)}])", r"\1", markdown).replace(JOINER, "")


@given(st.text())
def test_what_is_shown_is_the_text(text: str) -> None:
    assert " ".join(text.replace(JOINER, "").split()) == " ".join(read(plain(text)).split())


@given(st.text(alphabet="[](){}*_`~:$<>|#!\\-+.@/a1 \n\t", max_size=60))
def test_no_markup_is_left_bare(text: str) -> None:
    bare = re.sub(r"\\.", "", plain(text))
    assert not re.search(r"[\[\](){}*_`~:$<>|#!\\\-+.@\n\t]", bare)


@pytest.mark.parametrize(
    "text", ["https://a.example/b", "HTTP://a.example", "www.a.example", "me@a.example"]
)
def test_what_becomes_a_link_by_itself_is_broken_by_a_joiner(text: str) -> None:
    # GitHub's autolinks are looked for after the escapes were read, in the whole text.
    shown = re.sub(r"\\(.)", r"\1", plain(text))
    assert not re.search(r"https?://|www\.|[\w.+-]+@[\w-]+\.", shown, re.IGNORECASE)


def test_a_long_text_is_cut_with_an_ellipsis() -> None:
    assert "x" * (LONGEST - 1) + "…" == plain("x" * 5000)
    assert "abc" == short("abc", 3)
    assert "ab…" == short("abcd", 3)
