"""Rates, delays and losses of a link fault: units, bounds, and sentences for what is wrong."""

import pytest

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.link import LinkError, LinkSetting, parse_link

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
