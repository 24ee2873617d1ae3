"""`--since` and `--until` as people write them."""

import pytest

from lockstep.analyzer.read.prometheus.access import RequestError
from lockstep.analyzer.read.prometheus.discovery import moment, utc

NOW = 1_795_170_000.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T10:15:00Z", 1_795_169_700.0),
        ("2026-11-20T11:15:00+01:00", 1_795_169_700.0),
        ("2026-11-20 10:15", 1_795_169_700.0),
        ("2026-11-20", 1_795_132_800.0),
        ("1795169700", 1_795_169_700.0),
        ("1795169700.5", 1_795_169_700.5),
        ("5m", NOW - 300),
        ("1d12h", NOW - 129_600),
        (" 0s ", NOW),
    ],
)
def test_a_moment_is_a_date_or_unix_seconds_or_how_long_ago(text, expected):
    assert expected == moment(text, NOW, "--since")


@pytest.mark.parametrize("text", ["", "yesterday", "5", "-5m", "5x", "9" * 40, "1e9", "٥m", "inf"])
def test_what_is_no_moment_is_refused_by_name(text):
    with pytest.raises(RequestError, match=r"--until .* is no moment; it must be a date"):
        moment(text, NOW, "--until")


def test_a_moment_to_come_is_refused_with_the_clock_that_says_so():
    with pytest.raises(RequestError, match="lies in the future; Prometheus' clock says 2026-11-20"):
        moment("2027-01-01", NOW, "--until")


def test_moments_are_told_in_utc():
    assert "2026-11-20T10:20:00Z" == utc(NOW)
