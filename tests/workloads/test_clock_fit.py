"""The line through measured offsets, and that the truth is never outside its bound."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.workloads.measure.clocks import MAX_DRIFT, Measurement, offset_now

SECOND = 10**9


@st.composite
def drifting(draw: st.DrawFn) -> tuple[list[Measurement], float, int]:
    """Measurements of clocks that drift evenly, each wrong within its error; the drift; the end."""
    drift = draw(st.floats(-MAX_DRIFT, MAX_DRIFT))
    base = draw(st.integers(-(10**18), 10**18))
    at, found = draw(st.integers(0, 10**15)), []
    began = at
    for _ in range(draw(st.integers(1, 16))):
        error = draw(st.integers(1000, 10**6))
        wrong = draw(st.floats(-0.999, 0.999))
        true = base + round(drift * (at - began))
        found.append(Measurement(at, true + round(wrong * error), error))
        at += draw(st.integers(SECOND, 60 * SECOND))
    now = found[-1].at_ns + draw(st.integers(0, 60 * SECOND))
    return found, base + round(drift * (now - began)), now


@given(drifting())
@settings(max_examples=200)
def test_the_true_offset_is_never_outside_the_bound(
    case: tuple[list[Measurement], float, int],
) -> None:
    measurements, true, now = case
    found = offset_now(measurements, now)

    assert abs(found.offset_ns - true) <= found.error_ns + 2  # the rounding of the case itself


@given(drifting(), st.integers(-(10**15), 10**15))
@settings(max_examples=50)
def test_when_a_clock_was_started_does_not_matter(
    case: tuple[list[Measurement], float, int], shift: int
) -> None:
    measurements, _, now = case
    moved = [Measurement(one.at_ns + shift, one.offset_ns, one.error_ns) for one in measurements]

    assert offset_now(measurements, now) == offset_now(moved, now + shift)


def test_one_measurement_holds_and_its_error_grows_with_the_drift_that_may_be() -> None:
    found = offset_now([Measurement(0, 700, 50)], SECOND)

    assert 700 == found.offset_ns
    assert 50 + MAX_DRIFT * SECOND + 1 == found.error_ns


def test_a_drift_is_carried_on() -> None:
    """50 microseconds a second, measured for five minutes."""
    measurements = [Measurement(t * SECOND, t * 50_000, 40_000) for t in range(0, 301, 60)]
    found = offset_now(measurements, 330 * SECOND)

    assert abs(found.offset_ns - 330 * 50_000) <= 1
    assert found.error_ns < 80_000


def test_a_measurement_with_a_long_round_trip_hardly_counts() -> None:
    good = [Measurement(t * SECOND, 0, 40_000) for t in (0, 10, 20, 40)]
    found = offset_now(
        [*good[:2], Measurement(15 * SECOND, 9 * 10**6, 10**7), *good[2:]], 40 * SECOND
    )

    assert abs(found.offset_ns) < 1000


def test_measurements_of_one_moment_have_no_line() -> None:
    found = offset_now([Measurement(5, 10, 4), Measurement(5, 20, 4)], 5)

    assert (20, 5) == (found.offset_ns, found.error_ns)


def test_one_clock_does_not_drift_from_itself() -> None:
    found = offset_now([Measurement(0, 700, 50)], 60 * SECOND, drift=0.0)

    assert (700, 51) == (found.offset_ns, found.error_ns)
