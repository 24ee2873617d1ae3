"""What strangers do to every port of ours before any login: whoever behaves is answered meanwhile.

The claims hold for all servers alike, whatever serves them.
"""

import contextlib
import resource
import socket
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest

from tests.attack.servers import KINDS, Server, request, running

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

CONNECTIONS = 300
CLIENT = "127.0.0.2"
"""Another address than the attackers'."""
DEADLINE_SECONDS = 20.0
"""A request that is not whole after 10 s is given up; the rest is for a busy machine."""
HELLO = bytes.fromhex("16030100c8010000c40303")
"""How a handshake of TLS begins: 189 bytes of it are still to come."""


@pytest.fixture(scope="module", params=KINDS, ids=str)
def server(request, tmp_path_factory) -> Iterator[Server]:
    package = request.param.needs
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    with running(request.param, tmp_path_factory.mktemp(request.param.name)) as found:
        yield found


def silent(server: Server) -> socket.socket:
    """Says nothing at all, not even the beginning of a handshake."""
    return server.plain()


def half_a_handshake(server: Server) -> socket.socket:
    connection = server.plain()
    connection.sendall(HELLO)
    return connection


def slow_head(server: Server) -> socket.socket:
    return saying(server, request(server.kind.health)[:-2] + b"X-A")


def slow_body(server: Server) -> socket.socket:
    head = request("/alertmanager", "Content-Length: 4000000", method="POST")
    return saying(server, head + b"{")


def keep_alive(server: Server) -> socket.socket:
    return saying(server, request(server.kind.health))


def half_closed(server: Server) -> socket.socket:
    connection = saying(server, request(server.kind.health)[:-2])
    connection.shutdown(socket.SHUT_WR)
    return connection


def huge_head(server: Server) -> socket.socket:
    return saying(server, b"GET / HTTP/1.1\r\nX: " + b"y" * 300_000)


def takes_no_answer(server: Server) -> socket.socket:
    return saying(server, request(server.kind.health) * 100, room=1)


def saying(server: Server, words: bytes, room: int | None = None) -> socket.socket:
    """A connection that has said as much of this as its server takes at once."""
    connection = server.connect()
    if room is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    connection.setblocking(False)
    with contextlib.suppress(OSError):
        connection.sendall(words)
    connection.settimeout(5.0)
    return connection


ATTACKS = (
    silent, half_a_handshake, slow_head, slow_body, keep_alive, half_closed, huge_head,
    takes_no_answer,
)  # fmt: skip


@contextlib.contextmanager
def attacked(server: Server, attack: Callable[[Server], socket.socket]) -> Iterator[None]:
    with contextlib.ExitStack() as kept:
        for _ in range(CONNECTIONS):
            with contextlib.suppress(OSError):
                kept.enter_context(attack(server))
        yield


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_three_hundred_connections_of_a_stranger_cost_nobody_else_an_answer(server, attack):
    with attacked(server, attack):
        time.sleep(0.3)
        answers = [server.answers(source) for source in (CLIENT, "127.0.0.1") * 3]
        again = [server.answers() for answer in answers if not answer]

    # A busy machine may lose one that comes from the attacker's own address.
    assert len(again) <= 1
    assert all(again)
    assert server.answers()
    assert "Traceback" not in server.log()


def test_who_says_nothing_whole_is_hung_up_on_whatever_he_goes_on_to_say(server):
    with contextlib.ExitStack() as kept:
        mute = [kept.enter_context(each(server)) for each in (silent, half_a_handshake, slow_head)]
        drips = kept.enter_context(saying(server, b"GET / HTTP/1.1\r\n"))
        began = time.monotonic()
        waiting = {*mute, drips}
        while waiting and time.monotonic() - began < DEADLINE_SECONDS:
            with contextlib.suppress(OSError):
                drips.sendall(b"X: y\r\n")
            waiting -= {each for each in waiting if closed(each)}

    assert not waiting


def closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it, looked at for a moment."""
    connection.settimeout(0.2)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def test_requests_on_one_connection_are_answered_one_after_the_other(server):
    health = server.kind.health
    said = server.ask(request(health) * 50 + request(health, "Connection: close"))

    assert 51 == said.count(b"HTTP/1.1 200")


BODIES = {
    "length": (("Content-Length: {}",), False),
    "chunked": (("Transfer-Encoding: chunked",), True),
    "both": (("Content-Length: {}", "Transfer-Encoding: chunked"), True),
    "twice": (("Content-Length: 0", "Content-Length: {}"), False),
    "behind no header": (("no header", "Content-Length: {}"), False),
    "with a sign": (("Content-Length: +{}",), False),
    "another coding": (("Transfer-Encoding: gzip, chunked",), True),
}  # fmt: skip
"""Headers that announce a body, its length in place of {}, and whether it is sent in parts."""


@pytest.mark.parametrize("body", BODIES)
def test_the_body_of_a_get_is_never_served_as_a_second_request(server, body):
    inner = request("/the-second-one", "Connection: close")
    names, in_parts = BODIES[body]
    headers = [name.format(len(inner)) for name in names]
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(inner), inner) if in_parts else inner
    said = server.ask(request(server.kind.health, "Connection: close", *headers) + sent)
    kept = server.ask_until_silent(request(server.kind.health, *headers) + sent)

    for answers in (said, kept):
        assert answers.count(b"HTTP/1.1 ") <= 1
    assert server.answers()


def test_ten_thousand_headers_do_not_fill_the_memory(server):
    before = server.resident()
    with attacked(server, huge_head):
        time.sleep(0.5)
        grown = server.resident() - before

    assert grown < 60e6


DESCRIPTORS = 256
"""Fewer than CONNECTIONS, as the 1,024 of a shell are fewer than what a stranger can open."""


def test_the_dashboard_has_descriptors_for_more_silent_connections_than_a_shell_gives(tmp_path):
    dashboard = next(kind for kind in KINDS if kind.name == "dashboard")
    if find_spec(dashboard.needs) is None:
        pytest.skip(f"{dashboard.needs} is not installed")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 4 * CONNECTIONS:
        pytest.skip(f"this process may have {hard} descriptors only")
    with running(dashboard, tmp_path, (DESCRIPTORS, hard)) as server, attacked(server, silent):
        time.sleep(0.3)
        answers = [server.answers(path=path) for path in ("/", "/_stcore/health") * 2]
        log = server.log()

    assert all(answers)
    assert "Traceback" not in log
