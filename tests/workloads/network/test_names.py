"""Names and addresses of an emulated network fit the kernel, and overlap nobody's."""

from ipaddress import IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.network.names import MAX_NODES, Names, free_network, token, token_of

RUN = "gpt-20250101T000000-abcd"
LONGEST_DEVICE_NAME = 15  # IFNAMSIZ - 1 of <linux/if.h>

private_networks = st.builds(
    lambda third, length: IPv4Network(((10 << 24) + (third << 8), length), strict=False),
    st.integers(0, (1 << 16) - 1),
    st.integers(13, 32),  # so that the most that are drawn leave something free
)


def test_a_run_is_found_again_by_the_names_of_its_parts() -> None:
    names = Names(token(RUN), MAX_NODES, IPv4Network("10.1.2.0/24"))
    parts = [names.station, *names.namespaces]

    assert {token(RUN)} == {token_of(part) for part in parts}
    assert MAX_NODES + 2 == len(set(parts))
    assert len(names.station) + 1 <= LONGEST_DEVICE_NAME


def test_names_of_others_are_not_taken_for_ours() -> None:
    others = ["ls", "ls-", "eth0", "ls-12345678x", "ls-1234567-0", "ls-12345678-0;reboot",
              "xls-12345678-0", "ls-12345678-100", "ls-ABCDEF01-0", "ls-12345678-0\n"]  # fmt: skip

    assert [None] * len(others) == [token_of(name) for name in others]


@given(st.lists(private_networks, max_size=20), st.text(min_size=1))
def test_the_management_network_overlaps_no_network_of_the_machine(
    taken: list[IPv4Network], run: str
) -> None:
    found = free_network(token(run), taken)

    assert found is not None
    assert not any(found.overlaps(network) for network in taken)
    assert found.subnet_of(IPv4Network("10.0.0.0/8"))


def test_where_everything_is_taken_there_is_none() -> None:
    assert free_network(token(RUN), [IPv4Network("10.0.0.0/8")]) is None


def test_a_default_route_takes_nothing() -> None:
    assert free_network(token(RUN), [IPv4Network("0.0.0.0/0")]) is not None


def test_every_address_is_another_one() -> None:
    names = Names(token(RUN), MAX_NODES, IPv4Network("10.1.2.0/24"))
    nodes = range(MAX_NODES)
    management = {names.management_address(node) for node in nodes} | {names.station_address}

    assert MAX_NODES + 1 == len(management)
    assert MAX_NODES == len({names.address(node) for node in nodes})
