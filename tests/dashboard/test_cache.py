"""Answers are kept, shared, bounded, and asked for once at a time."""

import threading

import numpy as np
import pytest

from lockstep.dashboard.sources.cache import TROUBLE_SECONDS, Cache
from lockstep.dashboard.trouble import Kind, TroubleError


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
