"""One pass, or many, over a small fleet."""

from dataclasses import fields, replace

import numpy as np
import pytest

from lockstep.analyzer.hardware.sequential_test.false_alarms import Budget
from lockstep.analyzer.hardware.sequential_test.monitor import Block, watch
from lockstep.analyzer.hardware.sequential_test.state import State, restore, save
from lockstep.analyzer.hardware.sequential_test.telemetry import FleetError

BUDGET = Budget(0.01, 15.0, 16)
ONSET = 250


def slow(values):
    values[ONSET:, 0, 3] *= 1.1


def part(fleet, begin, stop):
    return replace(fleet, times=fleet.times[begin:stop], values=fleet.values[begin:stop])


def named(found):
    return [(alarm.node, alarm.gpu, alarm.metric) for alarm in found.alarms]


@pytest.mark.parametrize("seed", range(5))
def test_healthy_fleet_gives_no_alarm(fleet, seed):
    assert () == watch(fleet(seed=seed), State.new(), BUDGET).alarms


def test_slow_gpu_is_named_with_onset_effect_and_interval(fleet):
    told = fleet(change=slow)
    (alarm,) = watch(told, State.new(), BUDGET).alarms
    assert ("node-0", 3, "GPU-3", "own") == (alarm.node, alarm.gpu, alarm.uuid, alarm.metric)
    assert abs(alarm.since - told.times[ONSET]) <= 45
    assert alarm.since < alarm.at <= told.times[ONSET] + 90
    assert alarm.interval[0] < 1.1 < alarm.interval[1]
    assert (None, 1.0, ()) == (alarm.until, alarm.coverage, alarm.missing)
    assert alarm.e_value > 1e5


def test_where_less_is_worse_the_effect_is_below_one(fleet):
    def braked(values):
        values[ONSET:, 1, 9] *= 0.9
        values[ONSET:, 0, 9] *= 0.9

    (alarm,) = watch(fleet(change=braked), State.new(), BUDGET).alarms
    assert ("node-1", 1, "clock") == (alarm.node, alarm.gpu, alarm.metric)
    assert alarm.interval[0] < 0.9 < alarm.interval[1]


def test_scrape_by_scrape_says_what_one_pass_says(fleet):
    told = fleet(change=slow)
    whole = watch(told, State.new(), BUDGET)
    state = State.new()
    for check in range(len(told.times)):
        found = watch(part(told, check, check + 1), state, BUDGET)
        state = found.state
    assert named(whole) == named(found)
    (once,), (often,) = whole.alarms, found.alarms
    assert abs(once.at - often.at) <= 15
    assert once.effect == pytest.approx(often.effect, abs=0.005)


def test_restart_from_the_file_changes_nothing(fleet, tmp_path):
    told = fleet(change=slow)
    first = watch(part(told, 0, ONSET + 2), State.new(), BUDGET)
    save(first.state, tmp_path / "state.npz")
    state, why = restore(tmp_path / "state.npz")
    assert why is None
    rest = part(told, ONSET + 2, 300)
    assert watch(rest, first.state, BUDGET).alarms == watch(rest, state, BUDGET).alarms != ()


def test_what_was_judged_is_not_judged_again(fleet):
    told = fleet()
    first = watch(told, State.new(), BUDGET)
    again = watch(told, first.state, BUDGET)
    assert (0, first.state.until) == (again.judged, again.state.until)


def test_checks_older_than_those_judged_before_say_that_a_clock_was_ahead(fleet):
    told = fleet()
    ahead = replace(told, times=told.times + 86_400)
    state = watch(ahead, State.new(), BUDGET).state
    found = watch(told, state, BUDGET)
    words = "nothing was judged: the last check is 86400 s older than one judged before"
    assert (0, state.until) == (found.judged, found.state.until)
    assert any(word.startswith(words) for word in found.missing)
    assert not any("a clock was ahead" in word for word in watch(ahead, state, BUDGET).missing)


def test_alarm_that_is_on_stands_in_the_next_pass_with_its_time(fleet):
    told = fleet(change=slow)
    first = watch(part(told, 0, 280), State.new(), BUDGET)
    (before,), (after,) = first.alarms, watch(part(told, 280, 300), first.state, BUDGET).alarms
    assert (before.at, before.since) == (after.at, after.since)


def test_recovered_gpu_says_until_when_and_is_then_forgotten(fleet):
    def came_and_went(values):
        values[150:180, 0, 3] *= 1.3

    told = fleet(change=came_and_went)
    found = watch(told, State.new(), BUDGET)
    (alarm,) = found.alarms
    assert told.times[180] <= alarm.until <= told.times[180] + 20 * 60
    later = replace(fleet(), times=told.times + 4500)
    assert () == watch(later, found.state, BUDGET).alarms


def test_everybody_slower_is_nobodys_fault(fleet):
    def all_slower(values):
        values[ONSET:, 0] *= 1.3

    assert () == watch(fleet(change=all_slower), State.new(), BUDGET).alarms


@pytest.mark.parametrize(("ratio", "expected"), [(1.08, []), (1.35, [("node-0", 5, "own")])])
def test_constant_offset_counts_only_beyond_the_natural_spread(fleet, ratio, expected):
    def always(values):
        values[:, 0, 5] = ratio * np.exp(np.log(values[:, 0, 5]) - np.log(values[:, 0, 5]).mean())

    assert expected == named(watch(fleet(change=always), State.new(), BUDGET))


def test_half_of_the_fleet_missing_lowers_coverage_and_names_nobody(fleet):
    def half(values):
        values[ONSET:, :, 8:] = np.nan
        values[ONSET:, 0, 3] *= 1.5

    found = watch(fleet(change=half), State.new(), BUDGET)
    assert () == found.alarms
    assert found.coverage < 0.75
    assert any("half or more of their peers were silent" in words for words in found.missing)


def test_alarm_says_what_of_its_peers_was_missing(fleet):
    def some(values):
        slow(values)
        values[:, :, 10:13] = np.nan

    (alarm,) = watch(fleet(change=some), State.new(), BUDGET).alarms
    assert 13 / 16 == alarm.coverage
    assert ("3 of the 16 GPUs compared reported nothing",) == alarm.missing


def test_two_spikes_are_no_alarm(fleet):
    def spikes(values):
        values[ONSET : ONSET + 2, 0, 3] *= 10

    assert () == watch(fleet(change=spikes), State.new(), BUDGET).alarms


def test_young_streams_are_not_judged_and_that_is_said(fleet):
    found = watch(part(fleet(), 0, 30), State.new(), BUDGET)
    assert (0, 0.0) == (found.judged, found.coverage)
    assert ("16 of 16 GPUs are still learning what is normal",) == found.missing


@pytest.mark.parametrize(
    ("begun", "gpus", "expected"),
    [(41, 4, [1, 2]), (20, 4, []), (41, 2, [])],
    ids=["learned", "young", "two ranks have no majority"],
)
def test_a_slowness_shorter_than_what_is_learned_is_seen_once_a_stream_has_learned(
    fleet, begun, gpus, expected
):
    """A minute at 5 s, 1.59x: as a real thermal fault that opened no finding."""

    def minute(values):
        values[begun : begun + 12, 0, [1, 2] if gpus > 2 else [1]] *= 1.59

    told = fleet(checks=200, gpus=gpus, change=minute)
    found = watch(replace(told, times=1e9 + 5.0 * np.arange(1, 201)), State.new(), BUDGET)

    assert expected == [alarm.gpu for alarm in found.alarms]
    assert all(
        alarm.at <= told_at + 30 for alarm in found.alarms for told_at in [1e9 + 5.0 * begun]
    )


@pytest.mark.parametrize("stratum", [[""] * 16, [str(place // 2) for place in range(16)]])
def test_gpus_without_peers_are_told_of_and_not_judged(fleet, stratum):
    found = watch(replace(fleet(), stratum=np.array(stratum)), State.new(), BUDGET)
    assert 0 == found.judged
    assert ("16 of 16 GPUs have too few others to be compared with",) == found.missing


@pytest.mark.parametrize("which", ["gpus", "metrics", "times"])
def test_empty_fleet_is_no_error(fleet, which):
    told = fleet()
    none = {
        "gpus": {"values": told.values[:, :, :0], "node": told.node[:0], "uuid": told.uuid[:0],
                 "gpu": told.gpu[:0], "stratum": told.stratum[:0]},
        "metrics": {"values": told.values[:, :0], "metrics": ()},
        "times": {"values": told.values[:0], "times": told.times[:0]},
    }[which]  # fmt: skip
    found = watch(replace(told, **none), State.new(), BUDGET)
    assert ((), 0, 0.0) == (found.alarms, found.judged, found.coverage)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"uuid": np.array(["a"] * 16)}, "a GPU stands twice"),
        ({"gpu": np.arange(3)}, "gpu is not of 16 GPUs"),
        ({"times": np.zeros(300)}, "times do not rise"),
        ({"times": np.arange(3.0)}, "values are (300, 2, 16); they must be (3, 2, 16)"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(fleet, wrong, words):
    with pytest.raises(FleetError) as caught:
        replace(fleet(), **wrong)
    assert words in str(caught.value)


def test_judging_ahead_gives_the_very_same_as_check_by_check(fleet, monkeypatch):
    def slow_for_a_while(values):
        values[150:220, 0, 3] *= 1.15
        values[160:165, 1, 9] /= 1.3
        values[200:, 1, 12] /= 1.1

    told = fleet(checks=300, change=slow_for_a_while)
    ahead = watch(told, State.new(), BUDGET)
    monkeypatch.setattr(Block, "run_ahead", lambda *_: True)
    monkeypatch.setattr(Block, "back", lambda _: None)
    by_check = watch(told, State.new(), BUDGET)

    assert {("node-0", 3, "own"), ("node-1", 1, "clock"), ("node-1", 4, "clock")} == {*named(ahead)}
    assert by_check.alarms == ahead.alarms
    for field in fields(ahead.state.streams):
        np.testing.assert_array_equal(
            getattr(by_check.state.streams, field.name), getattr(ahead.state.streams, field.name)
        )
