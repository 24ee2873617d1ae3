"""GPU time with its unit in the label."""

import pytest

from lockstep.dashboard.words.said import lost


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (None, ("Lost GPU time", "–")),
        (0.0, ("Lost (GPU-s)", "0")),
        (61.7 / 3600, ("Lost (GPU-s)", "61.7")),
        (14.21, ("Lost (GPU-h)", "14.2")),
        (12345.6, ("Lost (GPU-h)", "12,346")),
    ],
)
def test_the_number_is_short_and_its_unit_stands_in_the_label(
    hours: float | None, expected: tuple[str, str]
) -> None:
    assert expected == lost(hours)
