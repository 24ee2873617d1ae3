"""The server of the watch: routes, and requests that are none."""

import http.client
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from collector.config import Address
from lockstep.watching.server import ListenError, Route, Server, text

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
    server = Server(Address("127.0.0.1", 0), routes, MOST)
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


def test_an_address_in_use_is_refused_in_a_sentence(ask):
    with pytest.raises(ListenError, match="choose another address with --listen"):
        Server(ask.address, (), MOST)
