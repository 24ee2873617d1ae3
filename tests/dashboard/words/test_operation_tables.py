"""Which moment a timeline shows, and a rank's collectives."""

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.shapes import Span
from lockstep.dashboard.words import collectives

MOMENTS = st.floats(0, 1e5)


@given(MOMENTS, MOMENTS, st.floats(0, 100) | st.just(float("nan")), st.none() | MOMENTS)
def test_the_moment_lies_within_the_range(
    start: float, length: float, wall: float, around: float | None
) -> None:
    span = Span(start, start + length)
    shown = collectives.window(span, wall, around)
    assert span.start - 1e-6 <= shown.start <= shown.end <= span.end + 1e-6


def test_it_begins_one_step_before_the_finding() -> None:
    assert Span(49.0, 53.0) == collectives.window(Span(0.0, 100.0), 1.0, 50.0)


def test_a_moment_is_widened_within_its_range() -> None:
    assert Span(0.0, 68.0) == collectives.widened(Span(0.0, 90.0), Span(4.0, 8.0))
    assert Span(10.0, 90.0) == collectives.widened(Span(10.0, 90.0), Span(40.0, 44.0))


def test_collectives_are_summed_by_operation_and_group() -> None:
    some = pd.DataFrame({
        "op": ["a", "b", "b", "c"], "group": ["", "dp", "dp", "tp"],
        "seconds": [9.0, 0.1, 0.3, 0.5], "bytes": [0.0, 4.0, 4.0, 2.0],
    })  # fmt: skip
    frame = collectives.collectives(some)
    assert [("c", 1, 500.0), ("b", 2, 200.0)] == list(
        zip(frame["op"], frame["count"], frame["median ms"].round(6), strict=True)
    )


def test_no_collectives_are_an_empty_table() -> None:
    some = pd.DataFrame({"op": ["a"], "group": [""], "seconds": [1.0], "bytes": [0.0]})
    assert collectives.collectives(some).empty
