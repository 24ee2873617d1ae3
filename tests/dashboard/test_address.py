"""Where somebody looks, as an address and back; no hand-edited address is more than a sentence."""

import math
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.address import LONGEST_TEXT, Location, link, moment, read, span
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.trouble import TroubleError

NOW = 1_700_000_000.0
EXTENT = Span(NOW - 600.0, NOW)
NAMES = ("run", "node", "gpu", "rank", "from", "to", "metric", "finding", "a", "b", "op", "axis",
         "refresh", "var-run", "var-node", "embed", "since", "until")  # fmt: skip
NUMBERS = st.one_of(st.none(), st.integers(0, 9_999_999))
TEXTS = st.text(max_size=LONGEST_TEXT)
PLACES = st.builds(
    Location, run=TEXTS, node=TEXTS, gpu=NUMBERS, rank=NUMBERS, since=TEXTS, until=TEXTS,
    metric=TEXTS, finding=TEXTS, a=TEXTS, b=TEXTS, op=TEXTS, axis=TEXTS, refresh=NUMBERS,
)  # fmt: skip
MOMENTS = st.one_of(
    st.text(max_size=40),
    st.from_regex(r"now-[0-9]{0,8}[smhdwMyX]?", fullmatch=True),
    st.floats().map(str),
    st.integers(-(10**40), 10**40).map(str),
    st.datetimes(timezones=st.one_of(st.none(), st.timezones())).map(datetime.isoformat),
)


@given(st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text()), st.one_of(MOMENTS, st.text())))
def test_no_query_is_more_than_trouble(words: dict[str, str]) -> None:
    with suppress(TroubleError):
        found = span(read(words), EXTENT, NOW)
        assert math.isfinite(found.start)
        assert found.start <= found.end


@given(PLACES)
def test_a_link_leads_where_it_was_made(location: Location) -> None:
    words = dict(parse_qsl(urlsplit(link("node", location)).query))
    assert location == read(words)


@given(PLACES)
def test_a_link_stays_on_its_page(location: Location) -> None:
    parts = urlsplit(link("node", location))
    assert ("", "", "/node", "") == (parts.scheme, parts.netloc, parts.path, parts.fragment)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("now-15m", NOW - 900),
        ("now-1h", NOW - 3600),
        ("1699999000000", 1_699_999_000.0),
        ("1699999000", 1_699_999_000.0),
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14T23:13:20+01:00", NOW),
        ("2023-11-14 22:13:20", NOW),
    ],
)
def test_moments_are_read_as_grafana_writes_them(text: str, expected: float) -> None:
    assert expected == moment(text, NOW)


@pytest.mark.parametrize("text", ["", "yesterday", "now+1h", "nan", "inf", "-5", "now-999999y"])
def test_what_is_no_moment_is_trouble(text: str) -> None:
    with pytest.raises(TroubleError, match="for a moment"):
        moment(text, NOW)


def test_grafanas_variables_are_read() -> None:
    words = {"var-run": "gpt-1", "var-node": "node-3", "from": "now-1h", "to": "now"}
    assert Location(run="gpt-1", node="node-3", since="now-1h", until="now") == read(words)


def test_a_range_that_ends_before_it_begins_is_trouble() -> None:
    with pytest.raises(TroubleError, match="ends before it begins"):
        span(Location(since="now", until="now-1h"), EXTENT, NOW)


@pytest.mark.parametrize("value", ["-1", "1.5", "x", "99999999", "¹"])
def test_a_gpu_is_a_whole_number(value: str) -> None:
    with pytest.raises(TroubleError, match="whole number"):
        read({"gpu": value})


def test_a_text_that_nobody_would_write_is_trouble() -> None:
    with pytest.raises(TroubleError, match="5000 characters"):
        read({"run": "x" * 5000})


def test_a_place_says_only_what_is_known() -> None:
    assert {"run": "gpt-1", "gpu": "0"} == Location(run="gpt-1", gpu=0).query()
    assert "/" == link("now", Location())


def test_a_moment_of_a_far_zone_is_one() -> None:
    text = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC).isoformat()
    assert NOW == moment(text, 0.0)
