"""Fault SPEC strings."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.link import LINK_KINDS, LinkError, LinkSetting, parse_link
from lockstep.workloads.faults.plan import (
    BUILT,
    DEFAULT_XID,
    SHAPES,
    Fault,
    FaultError,
    Shape,
    parse,
    steps_in_force,
    strength,
)

CAN = dict.fromkeys(BUILT, "")


def read(spec: str, steps: int = 300) -> Fault:
    return parse(spec, nodes=4, ranks_per_node=2, steps=steps, available=CAN)


def test_defaults_are_a_constant_factor_from_a_third_to_the_end() -> None:
    fault = read("thermal:rank=2")

    assert Fault(FaultKind.THERMAL, 2, None, 1.5, 100, 300, "constant", "thermal:rank=2") == fault


def test_a_node_means_every_rank_of_it() -> None:
    fault = read("compute:node=1,factor=2")

    assert [2, 3] == list(fault.ranks(ranks_per_node=2))


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("heat:rank=1", "unknown kind 'heat'"),
        ("compute", "exactly one of rank=R and node=N"),
        ("compute:rank=1,node=0", "exactly one of rank=R and node=N"),
        ("compute:rank=8", "there is no rank 8; ranks are 0 to 7"),
        ("compute:node=4", "there is no node 4; nodes are 0 to 3"),
        ("compute:rank=-1", "rank=-1 is not a whole number"),
        ("compute:rank=1,factor=fast", "factor=fast is not a number"),
        ("compute:rank=1,factor=1", "must be above 1"),
        ("compute:rank=1,factor=nan", "must be above 1"),
        ("compute:rank=1,from=200,to=100", "from before to: the steps before"),
        ("compute:rank=1,from=9", "must lie inside 10 to 300"),
        ("compute:rank=1,shape=square", "shape 'square'"),
        ("compute:rank=1,size=3", "unknown setting 'size'"),
        ("compute:rank=1,rank=2", "rank is given twice"),
        ("compute:rank", "'rank' is not NAME=VALUE"),
        ("freeze:rank=1,factor=2", "takes no factor"),
        ("crash:rank=1,to=9", "takes no to=STEP"),
        ("crash:rank=1,shape=ramp", "crash stops the rank for good and takes no shape=ramp"),
        ("compute:rank=1,period=5", "unknown setting 'period'"),
        ("compute:rank=1,shape=ramp,duty=0.5", "unknown setting 'duty'"),
        ("compute:rank=1,shape=periodic,period=1", "period=1 is too short"),
        ("compute:rank=1,shape=periodic,duty=1", "duty=1 is not a ratio between 0 and 1"),
        ("compute:rank=1,shape=periodic,duty=nan", "duty=nan is not a ratio"),
        ("compute:rank=1,shape=periodic,from=290", "less than one period of 20 steps"),
        ("compute:rank=1,xid=79", "unknown setting 'xid'"),
        ("xid:rank=1,xid=9999", "there is no XID 9999"),
        ("xid:rank=1,xid=79,factor=2", "XID 79 stops the rank and takes no factor"),
        ("xid:rank=1,xid=79,to=150", "XID 79 stops the rank for good and takes no to=STEP"),
        ("gc:rank=1,peer=2", "unknown setting 'peer'"),
        ("link-delay:rank=1", "a link belongs to a node: give node=N"),
        ("link-delay:node=1,peer=1", "peer=1 is the node itself"),
        ("link-delay:node=1,peer=4", "there is no peer 4; peers are 0 to 3"),
        ("link-delay:node=1,delay=5", "delay=5 is not a number with a unit"),
        ("link-delay:node=1,rate=5mbit", "link-delay takes no rate"),
        ("link-delay:node=1,delay=5ms,factor=2", "a factor, or the link's own settings, not both"),
        ("compute:rank=" + "9" * 5000, "is not a whole number"),
        ("random@", "is not a whole number"),
        ("random@x", "is not a whole number"),
    ],
)
def test_a_wrong_spec_is_named_with_what_would_be_right(spec: str, named: str) -> None:
    with pytest.raises(FaultError, match="fault") as raised:
        read(spec)

    assert named in str(raised.value)


def test_a_burst_has_a_length_of_its_own_unless_its_end_is_given() -> None:
    assert (100, 120) == (lambda f: (f.from_step, f.to_step))(read("gc:rank=1,shape=transient"))
    assert 290 == read("gc:rank=1,shape=transient,to=290").to_step
    assert 300 == read("gc:rank=1,shape=transient,from=290").to_step


def test_a_periodic_fault_has_a_period_and_a_duty_cycle() -> None:
    fault = read("ecc:rank=1,shape=periodic,period=10,duty=0.3")

    assert (10, 0.3) == (fault.period, fault.duty)
    assert (20, 0.5) == (lambda f: (f.period, f.duty))(read("ecc:rank=1,shape=periodic"))


def test_an_xid_slows_the_rank_where_work_goes_on_and_ends_it_where_a_real_one_does() -> None:
    slow, fatal = read("xid:rank=1,factor=2"), read("xid:rank=1,xid=94")

    assert (DEFAULT_XID, None, 2.0) == (slow.xid, slow.stops, slow.factor)
    assert (94, FaultKind.CRASH, None) == (fatal.xid, fatal.stops, fatal.factor)


def test_a_link_is_sized_by_a_factor_or_by_its_own_settings() -> None:
    by_factor = read("link-bandwidth:node=1,peer=2,factor=2")
    by_rate = read("link-bandwidth:node=1,rate=200mbit")

    assert (2, 2.0, None) == (by_factor.peer, by_factor.factor, by_factor.link)
    assert (None, None, LinkSetting(rate=2e8)) == (by_rate.peer, by_rate.factor, by_rate.link)


def test_what_this_machine_cannot_do_is_refused_with_the_reason() -> None:
    with pytest.raises(FaultError, match="needs root"):
        parse(
            "cpu-quota:rank=1",
            nodes=4,
            ranks_per_node=1,
            steps=300,
            available=CAN | {FaultKind.CPU_QUOTA: "cpu-quota needs root"},
        )


def test_a_draw_is_the_same_for_the_same_seed_and_says_its_pool() -> None:
    fault = read("random@7")

    assert fault == read("random@7")
    assert tuple(kind for kind in BUILT if kind not in LINK_KINDS) == fault.pool


def test_draws_stay_inside_the_pool_and_the_run() -> None:
    can = CAN | {FaultKind.CPU_QUOTA: "no"}
    faults = [
        parse(f"random@{seed}", nodes=4, ranks_per_node=1, steps=160, available=can)
        for seed in range(200)
    ]

    never = {FaultKind.CPU_QUOTA, *LINK_KINDS}
    assert {kind for kind in BUILT if kind not in never} == {f.kind for f in faults}
    assert all((f.xid == DEFAULT_XID) == (f.kind is FaultKind.XID) for f in faults)
    assert {None, FaultKind.FREEZE, FaultKind.CRASH} == {f.stops for f in faults}
    assert {0, 1, 2, 3} == {f.rank for f in faults}
    assert all(40 <= f.from_step <= 80 and f.to_step == 160 for f in faults)
    assert all(f.factor is None or 1.2 <= f.factor <= 2.0 for f in faults)


def test_a_run_too_short_to_draw_from_is_refused() -> None:
    with pytest.raises(FaultError, match="20 steps are too few to draw from"):
        read("random@3", steps=20)


def test_a_short_run_needs_an_onset_of_its_own() -> None:
    with pytest.raises(FaultError, match="steps 4 to 12 must lie inside 10 to 12"):
        read("compute:rank=0", steps=12)


@given(st.text(max_size=60))
def test_any_text_is_a_fault_or_a_sentence(text: str) -> None:
    for spec in (text, f"compute:{text}", f"random@{text}"):
        with suppress(FaultError):
            assert read(spec).kind in BUILT


# The course of a fault over its steps.


def fault(shape: str, period: int | None = None, duty: float | None = None) -> Fault:
    return Fault(
        FaultKind.COMPUTE, 1, None, 2.0, 20, 60, shape, period=period, duty=duty
    )  # fmt: skip


def test_a_constant_fault_is_whole_from_its_first_step_to_before_its_last() -> None:
    constant = fault("constant")

    assert [0.0, 1.0, 1.0, 0.0] == [constant.strength(step) for step in (19, 20, 59, 60)]


def test_a_periodic_fault_rests_in_the_second_part_of_each_period() -> None:
    periodic = fault("periodic", period=10, duty=0.3)
    seen = [periodic.strength(step) for step in range(20, 40)]

    assert ([1.0] * 3 + [0.0] * 7) * 2 == seen


def test_a_ramp_grows_linearly_to_the_whole_factor_in_its_last_step() -> None:
    ramp = fault("ramp")

    assert [1 / 40, 0.5, 1.0] == [ramp.strength(step) for step in (20, 39, 59)]
    assert 1.0 + 41 / 80 == ramp.factor_mean


def test_a_burst_is_as_large_as_was_asked_for_on_average_too() -> None:
    assert 2.0 == fault("transient").factor_mean
    assert 2.0 == fault("periodic", period=7, duty=0.4).factor_mean


@given(st.integers(2, 50), st.floats(0.001, 0.999))
def test_every_period_has_steps_in_force_and_steps_of_rest(period: int, duty: float) -> None:
    assert 1 <= steps_in_force(period, duty) <= period - 1


@pytest.mark.parametrize("shape", SHAPES)
@given(st.integers(-5, 120))
def test_no_shape_reaches_out_of_its_span(shape: str, step: int) -> None:
    period, duty = (8, 0.5) if shape == Shape.PERIODIC else (None, None)
    found = strength(shape, 20, 60, step, period, duty)

    assert 0.0 <= found <= 1.0
    assert 0.0 == found or 20 <= step < 60


# Rates, delays and losses of a link fault: units, bounds, and sentences for what is wrong.

BANDWIDTH, DELAY = FaultKind.LINK_BANDWIDTH, FaultKind.LINK_DELAY


@pytest.mark.parametrize(
    ("kind", "words", "wanted"),
    [
        (BANDWIDTH, {"rate": "200mbit"}, LinkSetting(rate=2e8)),
        (BANDWIDTH, {"rate": "1.5gbit"}, LinkSetting(rate=1.5e9)),
        (DELAY, {"delay": "5ms"}, LinkSetting(delay=0.005)),
        (DELAY, {"delay": "500us", "jitter": "100us"}, LinkSetting(delay=5e-4, jitter=1e-4)),
        (DELAY, {"loss": "0.5%"}, LinkSetting(loss=0.005)),
    ],
)
def test_units_are_those_of_tc(kind: FaultKind, words: dict[str, str], wanted: LinkSetting) -> None:
    assert wanted == parse_link(kind, words)


def test_without_a_setting_there_is_none_and_foreign_ones_are_not_looked_at() -> None:
    assert parse_link(DELAY, {"factor": "1.5", "node": "2"}) is None


@pytest.mark.parametrize(
    ("kind", "words", "sentence"),
    [
        (BANDWIDTH, {"rate": "200"}, "as in rate=200mbit"),
        (BANDWIDTH, {"rate": "nan"}, "is not a number with a unit of bit, kbit, mbit, gbit"),
        (BANDWIDTH, {"rate": "1kbit"}, "from 1mbit to 100gbit"),
        (BANDWIDTH, {"delay": "5ms"}, "link-bandwidth takes no delay; it takes factor, or rate"),
        (DELAY, {"rate": "5mbit"}, "link-delay takes no rate"),
        (DELAY, {"delay": "0ms"}, "must be above 0"),
        (DELAY, {"delay": "2s"}, "from 0us to 1s"),
        (DELAY, {"delay": "-5ms"}, "is not a number with a unit"),
        (DELAY, {"jitter": "1ms"}, "cannot arrive before it was sent"),
        (DELAY, {"loss": "50%"}, "from 0% to 20%"),
        (DELAY, {"loss": "0.5"}, "as in loss=0.5%"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(
    kind: FaultKind, words: dict[str, str], sentence: str
) -> None:
    with pytest.raises(LinkError) as told:
        parse_link(kind, words)
    assert sentence in str(told.value)
    assert "\n" not in str(told.value)


def test_half_the_strength_is_half_the_delay_and_twice_the_rate() -> None:
    whole = LinkSetting(rate=1e8, delay=0.004, jitter=0.002, loss=0.02)

    assert LinkSetting(2e8, 0.002, 0.001, 0.01) == whole.scaled(0.5)
    assert LinkSetting() == whole.scaled(0.0)
