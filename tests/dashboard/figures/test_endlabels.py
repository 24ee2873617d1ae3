import itertools

from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.figures.charts import LONGEST, apart, labels, short, together


@given(st.lists(st.floats(0, 100), max_size=9).map(sorted))
def test_names_never_overlap(wanted: list[float]) -> None:
    places = apart(wanted, 12, 100)
    assert len(wanted) == len(places)
    assert all(right - left >= 12 - 1e-9 for left, right in itertools.pairwise(places))
    assert all(0 <= place for place in places)
    assert all(place <= 100 + 1e-9 for place in places) or 12 * (len(places) - 1) > 100


def test_names_with_room_stand_where_their_lines_end() -> None:
    assert [10.0, 50.0, 90.0] == apart([10.0, 50.0, 90.0], 12, 100)


def test_lines_that_end_in_one_place_have_one_name() -> None:
    ends = [("XIDs", 0.0), ("drops", 0.0), ("kills", 0.0), ("read", 4.0), ("write", 4.0)]
    assert [("read", 4.0), ("write", 4.0), ("3 lines at 0", 0.0)] == together(ends)


def test_names_that_would_be_cut_alike_keep_what_tells_them_apart() -> None:
    names = ["memory errors, corrected", "memory errors, uncorrected", "XIDs"]
    assert ["…corrected", "…uncorrected", "XIDs"] == short(names)
    assert ["a name alone that is long"] == short(["a name alone that is long"])


@given(st.lists(st.text(min_size=1, max_size=40), max_size=9, unique=True))
def test_no_name_is_wider_than_the_margin(names: list[str]) -> None:
    ends = [(name, float(place)) for place, name in enumerate(names)]
    drawn = labels(ends, (0.0, 10.0), (0.0, 1.0), 112)
    # Escaped letters are longer than what is seen.
    plain = [one["text"].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
             for one in drawn]  # fmt: skip
    assert all(len(name) <= LONGEST for name in plain)
