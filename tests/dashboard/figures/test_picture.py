import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.figures.picture import LONGEST_NAME, escaped


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
    assert shown == escaped(raw)


@given(st.text(max_size=300))
def test_no_text_has_a_tag_or_is_longer_than_it_may(raw: str) -> None:
    shown = escaped(raw)
    assert not set("<>\n") & set(shown)
    assert len(raw[:LONGEST_NAME]) <= len(shown) <= 5 * LONGEST_NAME


def test_a_long_text_ends_in_an_ellipsis() -> None:
    assert "x" * (LONGEST_NAME - 1) + "…" == escaped("x" * 5000)
