"""What a rank's own connections tell of the way to the other hosts: real sockets on loopback."""

import os
import socket
import threading
from contextlib import ExitStack, contextmanager

import pytest

from lockstep.workloads.measure.round_trip import (
    ENOUGH,
    KEPT_LOOKS,
    LEAST_BYTES,
    LOOKS_AT_START,
    RoundTrips,
)

HERE, THERE, ELSEWHERE = "127.0.0.1", "127.0.0.2", "127.0.0.3"
MUCH, LITTLE = b"x" * LEAST_BYTES, b"x" * 100


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
                other.settimeout(10)
                sender = threading.Thread(target=mine.sendall, args=(data,))
                sender.start()
                received = 0
                while received < len(data):
                    received += len(other.recv(len(data)))
                sender.join()
            trips()
        return told[-1]

    return look


@pytest.fixture
def two(connected):
    """Connections with two other hosts, between which a rank of a ring is."""
    return [connected(THERE), connected(ELSEWHERE)]


def mine(pairs):
    return [pair[0] for pair in pairs]


def sending(pairs, data=MUCH):
    return [(pair, data) for pair in pairs]


def test_a_round_trip_is_told_once_some_looks_saw_data_arrive(two, look, told):
    look(mine(two), ENOUGH + 3, sending=sending(two))

    assert [0] * ENOUGH == told[:ENOUGH]
    assert 0 < told[-1] < 1e9


def test_of_one_way_alone_nobody_knows_whose_end_it_is(two, look):
    assert look(mine(two), 2 * LOOKS_AT_START, sending=sending(two[:1])) == 0


def test_steps_that_exchange_seldom_are_told_too_and_what_is_old_is_not(two, look):
    look(mine(two))
    for _ in range(2 * ENOUGH):
        look(mine(two), 1, sending=sending(two))
        look(mine(two), 3)

    assert look(mine(two)) > 0
    assert look(mine(two), KEPT_LOOKS) == 0


def test_connections_inside_the_host_tell_nothing(connected, look):
    inside = [connected(HERE), connected(HERE)]

    assert look(mine(inside), LOOKS_AT_START, sending=sending(inside)) == 0


def test_who_only_receives_measures_nothing(two, look):
    theirs = [pair[1] for pair in two]

    assert look(theirs, LOOKS_AT_START, sending=sending(two)) == 0


def test_stores_that_are_written_now_and_then_are_no_exchange(two, look):
    assert look(mine(two), LOOKS_AT_START, sending=sending(two, LITTLE)) == 0


def test_the_descriptors_of_others_stay_as_they_are(two, look, tmp_path):
    """Also where sockets of this program time out by default, which a socket object would set."""
    usual = socket.getdefaulttimeout()
    socket.setdefaulttimeout(30)
    try:
        with (
            (tmp_path / "log").open("w") as log,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
            socket.socket(socket.AF_UNIX) as inside,
            socket.create_server((HERE, 0)) as listening,
        ):
            others = [log, datagrams, listening, inside]
            (tmp_path / "log").unlink()
            for each in (*others, *mine(two)):
                os.set_blocking(each.fileno(), True)

            assert look([*others, *mine(two)], LOOKS_AT_START, sending=sending(two)) > 0
            assert all(os.get_blocking(each.fileno()) for each in (*others, *mine(two)))
    finally:
        socket.setdefaulttimeout(usual)


def test_connections_that_are_gone_are_no_error(two, look, tmp_path, told):
    look(mine(two), LOOKS_AT_START, sending=sending(two))
    numbers = [each.fileno() for each in mine(two)]
    for each in mine(two):
        each.close()
    for number in numbers:
        (tmp_path / str(number)).touch()

    RoundTrips(told.append, tmp_path)()
    assert told[-1] == 0


@pytest.mark.parametrize("lacking", ["proc", "libc", "TCP_INFO"])
def test_where_something_lacks_nothing_is_told(two, look, told, tmp_path, monkeypatch, lacking):
    def no_libc(_):
        raise OSError("a static program")

    look(mine(two))
    if lacking == "libc":
        monkeypatch.setattr("ctypes.CDLL", no_libc)
    if lacking == "TCP_INFO":
        monkeypatch.delattr(socket, "TCP_INFO")
    RoundTrips(told.append, tmp_path if lacking != "proc" else tmp_path / "nothing")()

    assert told[-1] == 0
