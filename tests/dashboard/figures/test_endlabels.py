import itertools

from hypothesis import given
from hypothesis import strategies as st

from dashboard.figures.endlabels import apart


@given(st.lists(st.floats(0, 100), max_size=9).map(sorted))
def test_names_never_overlap(wanted: list[float]) -> None:
    places = apart(wanted, 12, 100)
    assert len(wanted) == len(places)
    assert all(right - left >= 12 - 1e-9 for left, right in itertools.pairwise(places))
    assert all(0 <= place for place in places)
    assert all(place <= 100 + 1e-9 for place in places) or 12 * (len(places) - 1) > 100


def test_names_with_room_stand_where_their_lines_end() -> None:
    assert [10.0, 50.0, 90.0] == apart([10.0, 50.0, 90.0], 12, 100)
