import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.figures.escape import LONGEST, text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("<b>node</b>", "&lt;b&gt;node&lt;/b&gt;"),
        ('<a href="javascript:1">x</a>', '&lt;a href="javascript:1"&gt;x&lt;/a&gt;'),
        ("&lt;", "&amp;lt;"),
        ("two\nlines\x00", "two lines "),
        ("left\u202eright", "left right"),
        ("costs 5 $", "costs 5 $"),
        ("$\\frac{1}{2}$", "＄\\frac{1}{2}＄"),
    ],
)
def test_markup_of_plotly_stands_as_letters(raw: str, shown: str) -> None:
    assert shown == text(raw)


@given(st.text(max_size=300))
def test_no_text_has_a_tag_or_is_longer_than_it_may(raw: str) -> None:
    shown = text(raw)
    assert not set("<>\n") & set(shown)
    assert len(raw[:LONGEST]) <= len(shown) <= 5 * LONGEST


def test_a_long_text_ends_in_an_ellipsis() -> None:
    assert "x" * (LONGEST - 1) + "…" == text("x" * 5000)
