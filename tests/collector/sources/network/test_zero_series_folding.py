"""Counters at 0 share a series until they count; then each is told for good."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.words import OTHER
from lockstep.collector.samples.counters import Counters, Falls
from lockstep.collector.sources.zero_series_folding import ZeroSeriesFolding


def told(quiet: ZeroSeriesFolding, thing: str = "eth0", **counts: int) -> dict[str, int]:
    return quiet.fold(thing, counts, {"link_downed"}.__contains__, lambda _: OTHER)


def test_what_never_counted_is_one_zero_and_what_an_alert_waits_for_is_told_alone():
    assert {OTHER: 0, "link_downed": 0} == told(ZeroSeriesFolding(), a=0, b=0, link_downed=0)


def test_nothing_told_is_nothing_and_no_other():
    assert {} == told(ZeroSeriesFolding())
    assert {"a": 1} == told(ZeroSeriesFolding(), a=1)


def test_what_counted_once_is_told_on_its_own_for_good_but_not_that_of_another_thing():
    quiet = ZeroSeriesFolding()
    first = told(quiet, a=5, b=0)

    assert {"a": 5, OTHER: 0} == first
    assert {"a": 0, OTHER: 0} == told(quiet, a=0, b=0)
    assert {OTHER: 0} == told(quiet, "eth1", a=0, b=0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=20))
def test_no_count_is_lost_to_it_over_resets(steps):
    """A step of 0 is a reset; the total is that of a counter that was always told."""
    quiet, folded, plain = ZeroSeriesFolding(), Counters(Falls.CARRY), Counters(Falls.CARRY)
    raw = 0
    for step in steps:
        raw = raw + step if step else 0
        samples = {
            counters: counters.through(m.NET_PHY_ERRORS(value, "eth0", kind) for kind, value in
                                       counts.items())
            for counters, counts in ((folded, told(quiet, a=raw)), (plain, {"a": raw}))
        }  # fmt: skip
        (of_folded,), (of_plain,) = samples[folded], samples[plain]

        assert of_plain.value == of_folded.value
