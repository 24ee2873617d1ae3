"""The user-space link: delays, paces, loses, and keeps the order of packets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.network.tunnel import Schedule

packets = st.lists(
    st.tuples(st.floats(0.0, 0.01), st.integers(40, 65_000)), min_size=1, max_size=60
)
settings = st.builds(
    LinkSetting,
    rate=st.none() | st.floats(1e6, 1e9),
    delay=st.floats(0.005, 0.01),
    jitter=st.floats(0.0, 0.005),
)


def schedule(rules: dict[int, dict[int | None, LinkSetting]], seed: int = 0) -> Schedule:
    made = Schedule(seed)
    for node, of_node in rules.items():
        made.set(node, of_node)
    return made


def test_a_link_without_rules_holds_nothing_up() -> None:
    assert 3.0 == schedule({}).arrival(0, 1, 1500, 3.0)


def test_a_nodes_delay_holds_in_both_directions_and_for_all_peers() -> None:
    link = schedule({1: {None: LinkSetting(delay=0.005)}})

    assert [0.005, 0.005, 0.005, 0.0] == [
        link.arrival(source, destination, 1500, 0.0)
        for source, destination in ((0, 1), (1, 0), (1, 2), (0, 2))
    ]


def test_a_delay_towards_a_peer_leaves_others_alone() -> None:
    link = schedule({1: {2: LinkSetting(delay=0.005)}})

    assert [0.005, 0.005, 0.0, 0.0] == [
        link.arrival(source, destination, 1500, 0.0)
        for source, destination in ((2, 1), (1, 2), (1, 0), (0, 1))
    ]


def test_a_rate_lets_packets_through_one_after_the_other() -> None:
    link = schedule({1: {None: LinkSetting(rate=8e6)}})  # a byte a microsecond

    assert [0.001, 0.002, 0.003] == [pytest.approx(link.arrival(1, 0, 1000, 0.0)) for _ in range(3)]
    assert pytest.approx(0.501) == link.arrival(1, 0, 1000, 0.5)  # what was idle is not saved up


def test_directions_of_a_node_do_not_share_their_rate() -> None:
    link = schedule({1: {None: LinkSetting(rate=8e6)}})

    assert [0.001, 0.001] == [link.arrival(1, 0, 1000, 0.0), link.arrival(0, 1, 1000, 0.0)]


def test_about_as_many_packets_are_lost_as_asked() -> None:
    link = schedule({1: {None: LinkSetting(loss=0.1)}})
    lost = [link.arrival(1, 0, 1500, float(index)) is None for index in range(5000)]

    assert 400 < sum(lost) < 600


def test_the_same_seed_loses_the_same_packets() -> None:
    one, other = (schedule({1: {None: LinkSetting(loss=0.1)}}, seed=7) for _ in range(2))

    assert [one.arrival(1, 0, 1500, 0.0) for _ in range(100)] == [
        other.arrival(1, 0, 1500, 0.0) for _ in range(100)
    ]


@given(packets, settings)
def test_packets_of_a_pair_arrive_in_order_and_within_delay_and_jitter(
    sent: list[tuple[float, int]], setting: LinkSetting
) -> None:
    link = schedule({1: {None: setting}})
    now, arrivals = 0.0, []
    for wait, size in sent:
        now += wait
        arrived = link.arrival(1, 0, size, now)
        assert arrived is not None
        assert arrived >= now + setting.delay - setting.jitter - 1e-12
        arrivals.append(arrived)

    assert sorted(arrivals) == arrivals
