"""Who has a place at a server, and who loses it for whom."""

import errno
import http.client
import resource
import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.config import Address
from lockstep.collector.exporter import bounded_server as bounded
from lockstep.collector.exporter.bounded_server import (
    DESCRIPTOR_SHARE,
    MAX_CONNECTIONS,
    BoundedHandler,
    BoundedServer,
)
from lockstep.collector.exporter.connections import (
    MAX_LEAVING,
    NEW_SECONDS,
    Places,
    Stage,
    client_of,
)
from lockstep.collector.files.persistent_fds import raise_limit, share


class Line:
    """A connection's socket, of which only its end matters."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        self.ours = ours
        self.theirs.setblocking(False)

    @property
    def closed(self) -> bool:
        try:
            return self.theirs.recv(1) == b""
        except BlockingIOError:
            return False

    def end(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def lines():
    made = []

    def line() -> Line:
        made.append(Line())
        return made[-1]

    yield line
    for one in made:
        one.end()


def test_who_has_been_silent_longest_goes_for_who_comes(lines, clock):
    places = Places(4, clock.monotonic)
    all_of_them = [lines() for _ in range(5)]
    for number, one in enumerate(all_of_them):
        clock.sleep(1)
        assert places.take(one.ours, f"10.0.0.{number}") is not None

    assert [True, False, False, False, False] == [one.closed for one in all_of_them]


def test_a_client_that_takes_too_many_loses_its_own(lines, clock):
    places = Places(8, clock.monotonic)
    scraper = lines()
    assert places.take(scraper.ours, "10.0.0.1") is not None
    flood = [lines() for _ in range(4 + MAX_LEAVING)]
    for one in flood:
        clock.sleep(1)
        assert places.take(one.ours, "10.0.0.2") is not None

    assert not scraper.closed
    assert [False] * 4 == [one.closed for one in flood[-4:]]
    assert all(one.closed for one in flood[:-4])


def test_an_answer_that_is_being_made_is_not_broken_off(lines, clock):
    places = Places(2, clock.monotonic)
    busy = [places.take(lines().ours, f"10.0.0.{number}") for number in range(2)]
    assert all(places.turn(one, Stage.WORKING) for one in busy)

    assert places.take(lines().ours, "10.0.0.9") is None
    places.turn(busy[0], Stage.SENDING)
    assert places.take(lines().ours, "10.0.0.9") is not None
    assert [False, True] == [places.turn(one, Stage.SILENT) for one in busy]


def test_who_has_just_come_goes_after_who_has_long_been_here(lines, clock):
    places = Places(4, clock.monotonic)
    new = lines()
    assert places.take(new.ours, "10.0.0.1") is not None
    old = [places.take(lines().ours, f"10.0.0.{number}") for number in (2, 3, 4)]
    clock.sleep(NEW_SECONDS / 2)
    for one in old:  # later than the new one came
        places.turn(one, Stage.WORKING)
        places.turn(one, Stage.SILENT)

    assert places.take(lines().ours, "10.0.0.5") is not None
    assert not new.closed


def test_a_wait_for_room_ends_with_the_answer_that_was_in_the_way(lines):
    places = Places(1)
    one = places.take(lines().ours, "10.0.0.1")
    places.turn(one, Stage.WORKING)
    threading.Timer(0.02, places.turn, (one, Stage.SILENT)).start()

    assert places.take(lines().ours, "10.0.0.2") is not None


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([*Stage, None]), st.floats(0, 1)),
        max_size=60,
    )
)
@settings(max_examples=50, deadline=None)
def test_there_are_never_more_than_there_may_be(events):
    now = 0.0
    places = Places(6, lambda: now)
    ends, here = [], []
    for client, stage, seconds in events:
        now += seconds
        if stage is None:
            line = Line()
            ends.append(line)
            one = places.take(line.ours, client)
            if one is not None:
                here.append((one, line))
        else:
            for one, _ in here:
                if one.client == client:
                    places.turn(one, stage)
        here = [(one, line) for one, line in here if not line.closed or places.leave(one)]

        assert len(here) <= places.most
        assert all(
            sum(one.client == name for one, _ in here) <= places.most_a_client for name in "abc"
        )
    for line in ends:
        line.end()


def test_of_too_many_large_answers_the_one_that_is_not_taken_for_longest_is_given_up(lines, clock):
    places = Places(64, clock.monotonic)
    waiting = [lines() for _ in range(places.most_large)]
    for number, line in enumerate(waiting):
        one = places.take(line.ours, f"10.0.0.{number}")
        places.turn(one, Stage.WORKING)
        places.large(one)
        clock.sleep(1)
        places.turn(one, Stage.SENDING)
    recorder = places.take(lines().ours, "10.0.1.1")
    places.turn(recorder, Stage.WORKING)
    places.large(recorder)

    assert [True] + [False] * (places.most_large - 1) == [line.closed for line in waiting]


def test_an_answer_that_was_taken_is_no_longer_held(lines, clock):
    places = Places(64, clock.monotonic)
    here = [lines() for _ in range(2 * places.most_large)]
    for line in here:
        one = places.take(line.ours, "10.0.0.1")
        for stage in (Stage.WORKING, Stage.SENDING, Stage.SILENT):
            if stage is Stage.SENDING:
                places.large(one)
            places.turn(one, stage)

    assert not any(line.closed for line in here)


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_a_client_is_an_address_or_the_network_that_one_machine_is_given(host, client):
    assert client == client_of(host)


@pytest.mark.parametrize(
    ("descriptors", "most"), [(64, 16), (4, 2), (1024, 64), (resource.RLIM_INFINITY, 64)]
)
def test_there_are_fewer_connections_than_descriptors(monkeypatch, descriptors, most):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))

    assert most == share(DESCRIPTOR_SHARE, MAX_CONNECTIONS)


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
        ((1024, 524288), [(4096, 524288)]),
        ((1024, 2048), [(2048, 2048)]),
        ((64, 64), []),
        ((1 << 20, 1 << 20), []),
        ((1024, resource.RLIM_INFINITY), [(4096, resource.RLIM_INFINITY)]),
    ],
)
def test_a_collector_takes_the_descriptors_that_it_may_have(monkeypatch, limits, taken):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: asked.append(wanted))
    raise_limit()

    assert taken == asked


class Answers(BoundedHandler):
    def do_GET(self) -> None:  # noqa: N802
        self._say(b"got")

    def do_POST(self) -> None:  # noqa: N802
        self._say(self.body(int(self.headers["Content-Length"])))

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def got(connection: socket.socket) -> bool:
    answer = b""
    while more := connection.recv(4096):
        answer += more
        if answer.endswith(b"got"):
            return True
    return False


@pytest.fixture
def server():
    one = BoundedServer(Address("127.0.0.1", 0), Answers)
    one.start()
    yield one
    one.stop()


def test_a_body_is_read_behind_its_head_and_the_next_request_behind_it(server):
    asks = http.client.HTTPConnection(*server.address, timeout=5)
    bodies = []
    for body in (b"", b"a", b"b" * 100_000, b"c" * 10):
        asks.request("POST", "/", body)
        bodies.append(asks.getresponse().read() == body)
    asks.close()

    assert [True] * 4 == bodies


def test_a_body_has_one_deadline(server, monkeypatch):
    monkeypatch.setattr(bounded, "HEAD_SECONDS", 0.3)
    began = time.monotonic()
    with socket.create_connection(server.address, timeout=10) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n")
        while time.monotonic() - began < 8:
            try:
                slow.sendall(b"a")
            except OSError:
                break
            time.sleep(0.05)

    assert time.monotonic() - began < 5


def test_without_descriptors_the_server_gives_up_a_connection_and_does_not_spin(
    server, monkeypatch
):
    asked = []
    real = server.socket

    class Short:
        """Accepts nothing for a while."""

        def accept(self):
            asked.append(None)
            if len(asked) < 10:
                raise OSError(errno.EMFILE, "Too many open files")
            return real.accept()

        def __getattr__(self, name):
            return getattr(real, name)

    with socket.create_connection(server.address, timeout=10) as idle:
        idle.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert got(idle)
        server.socket = Short()
        began = time.monotonic()
        with socket.create_connection(server.address, timeout=10) as other:
            other.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert got(other)
        took = time.monotonic() - began
        assert b"" == idle.recv(1)
    server.socket = real

    assert took >= 9 * bounded.PAUSE_SECONDS


def test_a_stop_ends_every_connection_and_waits_for_none(server):
    with socket.create_connection(server.address, timeout=10) as idle:
        idle.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert got(idle)
        began = time.monotonic()
        server.stop()
        assert b"" == idle.recv(1)

    assert time.monotonic() - began < 5
