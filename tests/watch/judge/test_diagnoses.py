"""What is read of a run, and which runs are diagnosed first."""

import numpy as np
import pytest

from lockstep.watch.judge.diagnoses import MOST_PAGES, Wish, due_diagnoses, pages, reach


def test_of_a_small_run_every_page_is_read(ranks):
    found = pages(ranks(4, 2), "gpt-1", [], np.ones(8))

    assert (4, False) == (len(found.targets["lockstep"]), found.part)


def test_the_suspects_page_comes_first(ranks):
    ratio = np.ones(8)
    ratio[2] = 1.3

    found = pages(ranks(4, 2), "gpt-1", [6], ratio)

    assert ["10.0.0.3:9410", "10.0.0.1:9410"] == list(found.targets["lockstep"][:2])


def test_of_a_large_run_the_suspects_and_ordinary_peers_are_read(ranks):
    who = ranks(40, 2)
    ratio = np.ones(80)
    ratio[[6, 50]] = 1.3, 0.7

    found = pages(who, "gpt-1", [6], ratio)

    instances = found.targets["lockstep"]
    assert (MOST_PAGES, True) == (len(instances), found.part)
    assert "10.0.0.3:9410" in instances
    assert "10.0.0.25:9410" not in instances


def test_without_suspects_the_slowest_are_read(ranks):
    ratio = np.full(80, np.nan)
    ratio[40] = 1.2

    assert "10.0.0.20:9410" in pages(ranks(40, 2), "gpt-1", [], ratio).targets["lockstep"]


def test_what_is_new_goes_first_and_what_was_never_diagnosed_next():
    wishes = [
        Wish("fresh", urgent=False, watched=False, age=10.0),
        Wish("old", urgent=False, watched=False, age=400.0),
        Wish("never", urgent=False, watched=False, age=float("inf")),
        Wish("open", urgent=False, watched=True, age=60.0),
        Wish("new", urgent=True, watched=True, age=0.0),
    ]

    assert ["new", "never", "old", "open"] == [
        one.run for one in due_diagnoses(wishes, 15.0, 600.0)
    ]


def test_what_just_began_is_looked_at_closely():
    assert 300.0 == reach(1000.0, 1030.0, 15.0, 600.0)
    assert 450.0 == reach(1000.0, 1090.0, 15.0, 600.0)
    assert 600.0 == reach(None, 1090.0, 15.0, 600.0) == reach(1000.0, 9000.0, 15.0, 600.0)


@pytest.mark.parametrize("nodes", [4, 40])
def test_what_a_silent_page_told_last_is_read_too(ranks, nodes):
    gone = ("lockstep", "10.9.9.9:9410")
    found = pages(ranks(nodes, 2), "gpt-1", [6], np.ones(2 * nodes), {gone})

    assert gone[1] in found.targets["lockstep"]
    assert len(found.targets["lockstep"]) <= MOST_PAGES
