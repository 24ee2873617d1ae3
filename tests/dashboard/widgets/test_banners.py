"""What is said above the numbers: how old, how whole."""

import math
from dataclasses import replace

import pytest

from lockstep.dashboard.shapes import Answer, RunRow, Severity, Span
from lockstep.dashboard.trouble import Kind
from lockstep.dashboard.widgets import banners
from lockstep.dashboard.words import said as age

FRESH = Answer("http://prometheus", True, 100.0, 107.0, 15.0, (4, 4))


def test_a_fresh_and_whole_answer_needs_no_words() -> None:
    assert [] == banners.texts(FRESH)


@pytest.mark.parametrize(("seconds", "stale"), [(44.0, False), (45.0, False), (46.0, True)])
def test_an_answer_is_stale_after_three_scrapes(seconds: float, stale: bool) -> None:
    assert stale is age.is_stale(replace(FRESH, now=100.0 + seconds))


def test_a_recorded_run_is_never_stale() -> None:
    assert not age.is_stale(replace(FRESH, live=False, now=1e9))


def test_where_nobody_told_the_interval_the_usual_one_is_taken() -> None:
    unknown = replace(FRESH, scrape_seconds=math.nan)
    assert not age.is_stale(replace(unknown, now=145.0))
    assert age.is_stale(replace(unknown, now=146.0))


def test_a_stale_answer_says_how_old_it_is() -> None:
    ((text, severity),) = banners.texts(replace(FRESH, now=400.0))
    assert "The newest number is 5 min old" in text
    assert Severity.WARNING is severity


def test_an_interval_that_was_measured_is_told_as_people_say_it() -> None:
    ((text, _),) = banners.texts(replace(FRESH, now=400.0, scrape_seconds=0.999112))
    assert "one is expected every 1 s:" in text


def test_silent_nodes_are_counted() -> None:
    ((text, severity),) = banners.texts(replace(FRESH, nodes=(1250, 1247)))
    assert text.startswith("1,247 of 1,250 nodes answer")
    assert Severity.WARNING is severity


def test_old_and_silent_is_one_box() -> None:
    assert 1 == len(banners.texts(replace(FRESH, now=400.0, nodes=(4, 3)), "run"))


@pytest.mark.parametrize(
    ("page", "run", "expected"),
    [("now", "", 0), ("now", "r", 0), ("cluster", "", 0), ("cluster", "r", 1), ("run", "r", 1)],
)
def test_what_the_sentence_of_the_page_says_is_no_banner(
    page: str, run: str, expected: int
) -> None:
    assert expected == len(banners.texts(replace(FRESH, nodes=(4, 3)), page, run))


def test_data_health_does_not_point_to_itself() -> None:
    ((text, _),) = banners.texts(replace(FRESH, nodes=(4, 3)), "health")
    assert "Data health" not in text


@pytest.mark.parametrize(("page", "expected"), [("now", 1), ("runs", 1), ("start", 0), ("run", 0)])
def test_what_is_not_among_the_runs_stands_on_pages_of_all_runs(page: str, expected: int) -> None:
    assert expected == len(banners.texts(replace(FRESH, left_out=("It is torn.",)), page))


@pytest.mark.parametrize(
    ("start", "end", "misses"),
    [(0, 10, True), (200, 300, True), (0, 11, False), (19, 300, False), (12, 13, False),
     (20, 30, True)],
)  # fmt: skip
def test_a_range_without_the_run_says_when_the_run_was(
    start: float, end: float, misses: bool
) -> None:
    text = banners.missed(Span(start, end), RunRow("r", "ended", Span(10.0, 20.0)))
    assert misses is ("the run went from 1970-01-01 00:00:10 UTC" in text)


def test_what_is_missing_is_said() -> None:
    said = banners.texts(replace(FRESH, missing=("steps", "XIDs")))
    assert ["Not found: steps; XIDs."] == [text for text, _ in said]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0 s"), (119, "119 s"), (300, "5 min"), (9000, "2 h"), (400_000, "5 days")],
)
def test_lengths_of_time_are_read_at_a_glance(seconds: float, expected: str) -> None:
    assert expected == age.duration(seconds)


# Next steps as words and commands; choices as links.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lockstep analyze runs/a", ("", ("lockstep analyze runs/a",))),
        ("Wait for the next scrape.", ("Wait for the next scrape.", ())),
        (
            "Run `lockstep analyze D`, then look again.",
            ("Run lockstep analyze D, then look again.", ("lockstep analyze D",)),
        ),
    ],
)
def test_commands_of_a_next_step_can_be_copied(text: str, expected: object) -> None:
    assert expected == banners.next_step(text)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("node-1", ("node", "node-1")), ("gpt-1", ("run", "gpt-1")),
     ("temperature", ("metric", "temperature"))],
)  # fmt: skip
def test_a_choice_is_a_word_of_the_address(choice: str, expected: object) -> None:
    assert expected == banners.chosen_word(choice, ("node-0", "node-1"))


def test_every_kind_of_trouble_has_its_severity() -> None:
    assert set(Kind) == set(banners.SEVERITIES)
