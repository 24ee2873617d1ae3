"""What a rank's own connections tell of the way to the other hosts: real sockets on loopback."""

import os
import socket
from contextlib import ExitStack, contextmanager

import pytest

from workloads.round_trip import LOOKS, SHARE, RoundTrips

HERE, THERE = "127.0.0.1", "127.0.0.2"
MUCH, LITTLE = b"x" * 100_000, b"x" * 100


@pytest.fixture
def connected():
    """`connected(there)` = both ends of a connection, of which the second is elsewhere."""
    with ExitStack() as stack:

        @contextmanager
        def between(there):
            with (
                socket.create_server((there, 0)) as listener,
                socket.create_connection(listener.getsockname(), source_address=(HERE, 0)) as mine,
                listener.accept()[0] as other,
            ):
                yield mine, other

        yield lambda there=THERE: stack.enter_context(between(there))


@pytest.fixture
def told():
    return []


@pytest.fixture
def look(told, tmp_path):
    """Looks, so often, at these sockets alone; the descriptors of the test's own process."""
    trips = RoundTrips(told.append, tmp_path)

    def look(sockets, times=1, *, sending=()):
        for name in os.listdir(tmp_path):
            (tmp_path / name).unlink()
        for each in sockets:
            (tmp_path / str(each.fileno())).touch()
        for _ in range(times):
            for (mine, other), data in sending:
                mine.sendall(data)
                received = 0
                while received < len(data):
                    received += len(other.recv(len(data)))
            trips()
        return told[-1]

    return look


def test_a_round_trip_is_told_once_half_of_the_looks_saw_data_arrive(connected, look, told):
    pair = connected()
    look(pair[:1], LOOKS, sending=[(pair, MUCH)])

    assert [0] * (LOOKS // 2) == told[: LOOKS // 2]
    assert all(0 < each < 1e9 for each in told[LOOKS // 2 :])


def test_what_nobody_measures_any_more_is_soon_nobodys(connected, look):
    pair = connected()

    assert look(pair[:1], LOOKS + 1, sending=[(pair, MUCH)]) > 0
    assert look(pair[:1], LOOKS) == 0


def test_connections_inside_the_host_tell_nothing(connected, look):
    pair = connected(HERE)

    assert look(pair[:1], 2 * LOOKS, sending=[(pair, MUCH)]) == 0


def test_who_only_receives_measures_nothing(connected, look):
    pair = connected()

    assert look(pair[1:], 2 * LOOKS, sending=[(pair, MUCH)]) == 0


def test_a_store_that_is_written_now_and_then_is_no_exchange(connected, look):
    data, store = connected(), connected()
    assert len(LITTLE) < SHARE * len(MUCH)

    assert look([store[0]], LOOKS, sending=[(store, LITTLE)]) > 0
    assert look([data[0], store[0]], LOOKS, sending=[(data, MUCH), (store, LITTLE)]) > 0
    assert look([data[0], store[0]], 2 * LOOKS, sending=[(store, LITTLE)]) == 0


def test_what_is_no_connection_is_passed_over_and_stays_open(connected, look, tmp_path):
    pair = connected()
    with (
        (tmp_path / "log").open("w") as log,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.create_server((HERE, 0)) as listening,
    ):
        others = [log, datagrams, listening]
        (tmp_path / "log").unlink()

        assert look([*others, pair[0]], LOOKS + 1, sending=[(pair, MUCH)]) > 0
        for each in (*others, *pair):
            os.fstat(each.fileno())


def test_a_connection_that_is_gone_and_a_machine_without_proc_are_no_error(
    connected, look, tmp_path
):
    pair = connected()
    look(pair[:1], LOOKS, sending=[(pair, MUCH)])
    number = pair[0].fileno()
    pair[0].close()

    assert look([], LOOKS) == 0
    (tmp_path / str(number)).touch()
    RoundTrips(lambda _: None, tmp_path)()
    RoundTrips(lambda _: None, tmp_path / "nothing")()
