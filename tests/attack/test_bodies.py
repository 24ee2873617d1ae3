"""Requests that hide another one in what is behind their head, on every server of the monitor."""

import socket
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from lockstep.collector.config import Address
from lockstep.watch.serve.server import Request, Route, Server, text
from tests.attack.collector_program import running

pytestmark = pytest.mark.distributed

HIDDEN = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
LENGTH = b"%d" % len(HIDDEN)
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)
HEADS = {
    "length": (b"Content-Length: " + LENGTH, HIDDEN),
    "length-without-a-space": (b"content-length:" + LENGTH, HIDDEN),
    "chunked": (b"Transfer-Encoding: chunked", CHUNKED),
    "chunked-badly": (b"Transfer-Encoding: chunked", b"0\r\n\r\n" + HIDDEN),
    "unknown-coding": (b"Transfer-Encoding: xchunked", HIDDEN),
    "both": (b"Content-Length: 0\r\nTransfer-Encoding: chunked", b"0\r\n\r\n" + HIDDEN),
    "both-the-other-way": (b"Transfer-Encoding: chunked\r\nContent-Length: " + LENGTH, HIDDEN),
    "two-lengths": (b"Content-Length: 0\r\nContent-Length: " + LENGTH, HIDDEN),
    "a-list-of-lengths": (b"Content-Length: 0, " + LENGTH, HIDDEN),
    "signed": (b"Content-Length: +" + LENGTH, HIDDEN),
    "negative": (b"Content-Length: -1", HIDDEN),
    "hexadecimal": (b"Content-Length: 0x10", HIDDEN),
    "empty": (b"Content-Length: ", HIDDEN),
    "a-space-before-the-colon": (b"Content-Length : " + LENGTH, HIDDEN),
    "behind-a-line-without-a-colon": (b"nonsense\r\nContent-Length: " + LENGTH, HIDDEN),
    "folded": (b"X: a\r\n Content-Length: 0\r\nContent-Length: " + LENGTH, HIDDEN),
    "expects": (b"Expect: 100-continue\r\nContent-Length: " + LENGTH, HIDDEN),
}

WHOLE = ("length", "length-without-a-space", "folded", "expects")
"""Those that say how long they are, so that a server that reads bodies knows where they end."""


@pytest.fixture(scope="module")
def collector(tmp_path_factory) -> Iterator[tuple[str, int]]:
    with running(tmp_path_factory.mktemp("rings"), sources="own_process") as one:
        yield one.address


@pytest.fixture(scope="module")
def watch() -> Iterator[tuple[str, int]]:
    def said(request: Request):
        return text(HTTPStatus.OK, f"{len(request.body)} bytes")

    routes = [Route("GET", "/healthz", said), Route("POST", "/hook", said),
              Route("DELETE", "/hook", said)]  # fmt: skip
    server = Server(Address("127.0.0.1", 0), routes, 100)
    server.start()
    yield tuple(server.address)
    server.stop()


@pytest.fixture(params=["collector", "watch"])
def address(request) -> tuple[str, int]:
    return request.getfixturevalue(request.param)


def answers(address: tuple[str, int], *parts: bytes, seconds: float = 20.0) -> list[bytes]:
    """The answers until the server closes, without those that only ask to go on."""
    with socket.create_connection(address, seconds) as connection:
        for part in parts:
            connection.sendall(part)
        whole = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    found = [b"HTTP/1.1" + each for each in whole.split(b"HTTP/1.1")[1:]]
    return [each for each in found if not each.startswith(b"HTTP/1.1 100")]


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"DELETE", b"POST", b"TRACE"])
@pytest.mark.parametrize("kind", HEADS)
def test_a_body_is_never_served_as_a_request(address, method, kind):
    head, body = HEADS[kind]
    path = b"/hook" if method in (b"POST", b"DELETE") else b"/healthz"
    first = method + b" " + path + b" HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n"
    # Who closes after the first answers nothing that comes behind it, either.
    last = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

    for parts in ((first + body,), (first, body)):
        found = answers(address, *parts, last)
        assert not any(each.startswith(b"HTTP/1.1 404") for each in found[1:]), kind
        read = len(found) == 2 and LENGTH + b" bytes" in found[0] and kind in WHOLE
        assert 1 == len(found) or (read and method in (b"POST", b"DELETE"))


def test_get_is_answered_whatever_it_brings_along(address):
    for head, body in HEADS.values():
        first = b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n"
        (answer,) = answers(address, first + body)
        assert answer.startswith(b"HTTP/1.1 200"), head
        assert b"\r\nConnection: close\r\n" in answer


def test_requests_without_a_body_follow_each_other_on_one_connection(address):
    one = b"GET /healthz HTTP/1.1\r\nHost: a\r\n%s\r\n"
    several = one % b"" + one % b"Content-Length: 0\r\n" + one % b"Connection: close\r\n"

    assert [b"200"] * 3 == [each.split()[1] for each in answers(address, several)]


def test_a_body_that_was_read_whole_leaves_the_connection_open(watch):
    post = b"POST /hook HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
    last = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

    found = answers(watch, post + post + last)
    assert 3 == len(found)
    assert all(b"3 bytes" in each for each in found[:2])


def test_a_large_body_beside_a_get_does_not_cost_its_answer(address):
    """To close with bytes unread would reset the connection, and with it the answer."""
    head = b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n"
    (answer,) = answers(address, head + HIDDEN, b"x" * 399_000)

    assert answer.startswith(b"HTTP/1.1 200")


def test_who_announces_a_body_and_sends_none_is_let_go_in_seconds(address):
    head = b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n"

    assert 1 == len(answers(address, head, seconds=10.0))
