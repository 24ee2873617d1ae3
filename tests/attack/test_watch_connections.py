"""What strangers do to the port of `lockstep watch` before any login."""

import contextlib
import socket
import time
from collections.abc import Callable

import pytest

from tests.attack.watch_program import WatchProgram, watching

pytestmark = pytest.mark.distributed

CONNECTIONS = 150
LINE = b"Host: localhost\r\n"


def silent(connection: socket.socket) -> None:
    """Says nothing at all."""


def slow_headers(connection: socket.socket) -> None:
    connection.sendall(b"GET /metrics HTTP/1.1\r\n" + LINE + b"X-A")


def slow_body(connection: socket.socket) -> None:
    connection.sendall(
        b"POST /alertmanager HTTP/1.1\r\n" + LINE + b"Content-Length: 4000000\r\n\r\n{"
    )


def keep_alive(connection: socket.socket) -> None:
    connection.sendall(b"GET /healthz HTTP/1.1\r\n" + LINE + b"\r\n")


def takes_no_answer(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    connection.sendall(b"GET /metrics HTTP/1.1\r\n" + LINE + b"\r\n")


ATTACKS = [silent, slow_headers, slow_body, keep_alive, takes_no_answer]


@pytest.fixture(scope="module", params=[None, 128], ids=["as it is", "128 descriptors"])
def watch(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("watch")
    with watching("http://127.0.0.1:9", folder, descriptors=request.param) as one:
        yield one


def answered(watch: WatchProgram, path: str) -> bool:
    with contextlib.suppress(OSError):
        return 200 == watch.ask(path, seconds=10.0)[0]
    return False


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_no_number_of_connections_silences_it(watch, attack: Callable[[socket.socket], None]):
    with contextlib.ExitStack() as kept:
        for number in range(CONNECTIONS):
            with contextlib.suppress(OSError):
                where = (f"127.0.0.{2 + number % 3}", 0)
                one = kept.enter_context(socket.create_connection(watch.address, 5.0, where))
                attack(one)
        time.sleep(0.3)
        answers = [answered(watch, path) for path in ("/healthz", "/metrics") * 4]

    assert all(answers)
    assert "Traceback" not in watch.log()


def test_headers_without_end_are_refused(watch):
    with socket.create_connection(watch.address, 5.0) as connection, contextlib.suppress(OSError):
        connection.sendall(b"GET /metrics HTTP/1.1\r\n" + b"X: " + b"y" * (1 << 20))
        assert connection.recv(1 << 16)[:12] in (b"", b"HTTP/1.1 431")

    assert answered(watch, "/metrics")
