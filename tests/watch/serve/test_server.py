"""The server of the watch: routes, and requests that are none."""

import http.client
import socket
from collections.abc import Iterator
from email.message import Message
from http import HTTPStatus

import pytest

from lockstep.collector.config import Address
from lockstep.watch.serve.server import ListenError, Route, Server, host_check, text

MOST = 100


@pytest.fixture
def ask() -> Iterator:
    """`ask(method, path, body, headers)`: status and body of an answer."""

    def echo(request):
        words = f"{request.path} {request.query} {len(request.body)} {request.headers.get('x-a')}"
        return text(HTTPStatus.OK, words)

    def broken(_):
        raise KeyError("secret")

    routes = Route("POST", "/echo", echo), Route("GET", "/broken", broken)
    where = Address("127.0.0.1", 0)
    server = Server(where, routes, MOST, host_check(where))
    server.start()

    def send(method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", server.address.port, timeout=10)
        connection.request(method, path, body, headers or {})
        with connection.getresponse() as response:
            found = response.status, response.read().decode().strip()
        connection.close()
        return found

    send.address = server.address
    yield send
    server.stop()


def test_a_handler_gets_what_was_sent(ask):
    assert (200, "/echo a=b 3 c") == ask("POST", "/echo?a=b", b"123", {"X-A": "c"})


def test_of_a_body_that_is_too_long_one_byte_more_than_allowed_is_read(ask):
    assert (200, f"/echo  {MOST + 1} None") == ask("POST", "/echo", b"x" * 10_000)


def test_other_paths_and_methods_are_told_what_there_is(ask):
    assert (404, "there are /echo, /broken") == ask("GET", "/")
    assert (405, "there are /echo, /broken") == ask("GET", "/echo")


def test_a_body_of_unknown_length_is_refused(ask):
    assert 411 == ask("POST", "/echo", headers={"Transfer-Encoding": "chunked"})[0]


def test_a_handler_that_fails_shows_nothing_of_it(ask, caplog):
    assert (500, "the answer failed; the log says why") == ask("GET", "/broken")
    assert "this is a bug" in caplog.text


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:9411", "LOCALHOST", "[::1]:80", "127.0.0.1:9999"]
)
def test_on_the_loopback_it_is_called_by_names_of_the_loopback(ask, host):
    assert (405, "there are /echo, /broken") == ask("GET", "/echo", headers={"Host": host})


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:9411", "localhost.evil.example", "127.0.0.1.evil.example",
     "localhost:", "localhost:9411@evil.example", "[::2]", "10.0.0.1", "localhost evil"],
)  # fmt: skip
def test_by_another_name_nothing_is_told(ask, host):
    status, said = ask("GET", "/broken", headers={"Host": host})

    assert (421, "the Host must be one of 127.0.0.1, [::1], localhost") == (status, said)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /echo HTTP/1.0\r\n\r\n", 405),  # a health check by HTTP/1.0; no browser sends none
        (b"POST /echo HTTP/1.0\r\nContent-Length: 0\r\n\r\n", 421),
        (b"GET /broken HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 421),
    ],
)
def test_without_a_name_one_may_only_read_and_with_two_not_even_that(ask, request_, status):
    with socket.create_connection(ask.address) as connection:
        connection.sendall(request_)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 %d " % status)


def test_where_others_reach_it_any_name_is_right_but_only_one():
    told = Message()
    told["Host"] = "watch.example:9411"
    admit = host_check(Address("0.0.0.0", 9411))

    assert admit("GET", told) is None
    told["Host"] = "other.example"
    assert admit("GET", told)[0] == HTTPStatus.BAD_REQUEST


def test_who_is_not_let_in_is_told_before_anything_of_the_body_is_read(ask):
    with socket.create_connection(ask.address) as connection:
        connection.sendall(
            b"POST /echo HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 99\r\n\r\n"
        )
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))

    assert answer.startswith(b"HTTP/1.1 421 ")


def test_every_answer_tells_browsers_to_make_nothing_else_of_it(ask):
    connection = http.client.HTTPConnection(*ask.address, timeout=10)
    connection.request("GET", "/")
    told = connection.getresponse().headers
    connection.close()

    assert "nosniff" == told["X-Content-Type-Options"]
    assert "same-origin" == told["Cross-Origin-Resource-Policy"]


def test_an_address_in_use_is_refused_in_a_sentence(ask):
    with pytest.raises(ListenError, match="choose another address with --listen"):
        Server(ask.address, (), MOST)
