"""Answers are kept, shared, bounded, and asked for once at a time."""

import json
import os
import threading
from collections import Counter

import numpy as np
import pytest

from lockstep.dashboard.shapes import FLEET_METRICS, Span
from lockstep.dashboard.sources.cache import (
    LOOK_SECONDS,
    TROUBLE_SECONDS,
    Cache,
    cached,
    newest_change,
)
from lockstep.dashboard.sources.opened import SOURCE, opened
from lockstep.dashboard.trouble import Kind, TroubleError
from tests.dashboard.fakes import Fake


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Asked:
    def __init__(self, value=1):
        self.times, self.value = 0, value

    def __call__(self):
        self.times += 1
        return self.value


def test_within_its_time_an_answer_is_not_asked_again_and_not_copied():
    clock, asked = Clock(), Asked(np.arange(5))
    kept = Cache(clock=clock)
    first = kept.get("a", asked, 15.0)
    clock.now = 14.9
    assert first is kept.get("a", asked, 15.0)
    assert 1 == asked.times


def test_after_its_time_it_is_asked_again():
    clock, asked = Clock(), Asked()
    kept = Cache(clock=clock)
    kept.get("a", asked, 15.0)
    clock.now = 15.0
    kept.get("a", asked, 15.0)
    assert 2 == asked.times


def test_trouble_is_kept_for_five_seconds_and_raised_anew():
    clock, times = Clock(), []
    kept = Cache(clock=clock)

    def ask():
        times.append(1)
        raise TroubleError(Kind.REFUSED, "No.", "Yes.", ("a",))

    caught = []
    for moment in (0.0, TROUBLE_SECONDS - 0.1, TROUBLE_SECONDS):
        clock.now = moment
        with pytest.raises(TroubleError) as error:
            kept.get("a", ask, 60.0)
        caught.append(error.value)
    assert 2 == len(times)
    assert 3 == len({id(one) for one in caught})
    assert ("No.", "Yes.", ("a",)) == (
        caught[1].sentence, caught[1].next_step, caught[1].choices
    )  # fmt: skip


def test_a_stampede_asks_once():
    begun, release = threading.Event(), threading.Event()
    times, kept = [], Cache()

    def ask():
        times.append(1)
        begun.set()
        release.wait(10)
        return "answer"

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(kept.get("a", ask, 60.0))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    release.set()
    for thread in threads:
        thread.join(10)
    assert ["answer"] * 8 == found
    assert 1 == len(times)


def test_of_too_many_answers_the_least_recently_used_is_forgotten():
    kept, asked = Cache(entries=2), {name: Asked() for name in "abc"}
    for name in "abaca":
        kept.get(name, asked[name], 60.0)
    kept.get("b", asked["b"], 60.0)
    assert {"a": 1, "b": 2, "c": 1} == {name: one.times for name, one in asked.items()}


def test_answers_that_are_too_large_together_push_each_other_out():
    kept, large = Cache(most_bytes=1_000_000), Asked(np.zeros(90_000))
    again = Asked(np.zeros(90_000))
    for _ in range(2):
        kept.get("a", large, 60.0)
        kept.get("b", again, 60.0)
    assert 2 == large.times


def test_what_was_cleared_is_asked_again():
    kept, asked = Cache(), Asked()
    kept.get("a", asked, 60.0)
    kept.clear()
    kept.get("a", asked, 60.0)
    assert 2 == asked.times


# The only cache: who looks a second later asks nothing; what changes on disk is asked again.

NOW = 1_795_000_005.0


class Counting:
    """A Source that counts what it is asked."""

    def __init__(self, inner, live=True):
        self._inner, self.name, self.live, self.asked = inner, inner.name, live, Counter()

    def __getattr__(self, name):
        method = getattr(self._inner, name)

        def ask(*words):
            self.asked[name] += 1
            self.words = words
            return method(*words)

        ask.__name__ = name
        return ask


class StandingClock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def counting():
    return Counting(Fake(live=True))


def test_spans_of_a_live_source_are_rounded_so_that_the_next_look_hits(counting):
    source = cached(counting, clock=StandingClock())
    lines = [
        source.run_lines("gpt-1", Span(NOW - 3600 + second, NOW + second))
        for second in (1.0, 2.0, 14.0)
    ]
    assert 1 == counting.asked["run_lines"]
    assert lines[0] is lines[2]
    _, asked = counting.words
    assert NOW - 3600 + 1.0 - 30 <= asked.start <= NOW - 3600 + 1.0
    assert NOW + 14.0 <= asked.end <= NOW + 14.0 + 30


def test_after_a_scrape_a_live_source_is_asked_again_and_a_still_one_is_not():
    for live, expected in ((True, 2), (False, 1)):
        counting, clock = Counting(Fake(live=live), live), StandingClock()
        source = cached(counting, clock=clock)
        source.health()
        clock.now = 16.0
        source.health()
        assert expected == counting.asked["health"]


def test_other_words_are_another_question(counting):
    source = cached(counting)
    for metric in FLEET_METRICS[:3]:
        for _ in range(2):
            assert metric == source.fleet(metric).metric
    assert 3 == counting.asked["fleet"]


def test_a_change_in_the_folder_forgets_everything(tmp_path):
    clock = StandingClock()
    counting = Counting(Fake(), live=False)
    source = cached(counting, stamp=lambda: newest_change(tmp_path), clock=clock)
    source.runs()
    clock.now += LOOK_SECONDS
    source.runs()
    assert 1 == counting.asked["runs"]
    (tmp_path / "run" / "steps.parquet").mkdir(parents=True)
    clock.now += LOOK_SECONDS
    source.runs()
    assert 2 == counting.asked["runs"]


def test_a_new_part_below_is_a_change_and_a_link_is_not_followed(tmp_path):
    parts = tmp_path / "run" / "steps.parquet"
    parts.mkdir(parents=True)
    (tmp_path / "link").symlink_to("/")
    before = newest_change(tmp_path)
    os.utime(parts, (4e9, 4e9))
    assert before != newest_change(tmp_path)
    assert 3 == newest_change(tmp_path)[1]


def test_every_session_has_the_same_source():
    words = {SOURCE: json.dumps({"kind": "prometheus", "url": "http://127.0.0.1:9"})}
    assert opened(words) is opened(dict(words))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '"x"', '{"kind": "other"}', '{"kind": "archive"}', '{"gpus": 3}',
             '{"kind": "prometheus"}', "[" * 100_000],
)  # fmt: skip
def test_without_a_source_the_reader_is_told_how_to_start_with_one(text):
    with pytest.raises(TroubleError) as error:
        opened({SOURCE: text})
    assert Kind.NO_SOURCE == error.value.kind
    assert "lockstep dashboard" in error.value.next_step


def test_credentials_are_in_no_name():
    text = json.dumps({"kind": "prometheus", "url": "http://me:secret@127.0.0.1:9"})
    source = opened({SOURCE: text})
    assert "http://127.0.0.1:9" == source.name
    with pytest.raises(TroubleError) as error:
        source.answer()
    assert "secret" not in f"{error.value.sentence} {error.value.next_step}"
    assert Kind.UNREACHABLE == error.value.kind
