"""Answers that never end, or drop by drop, or packed: what is read of them, and for how long."""

import gzip
import time
import urllib.error
from http.client import HTTPException

import pytest

from lockstep.analyzer.read.bounded_session import session
from lockstep.collector.contract.bounded_http import (
    Allowance,
    ExceededError,
    TooLargeError,
    TooLateError,
    allowed,
    get,
)
from lockstep.collector.recorder.recorder import FetchError, Target
from tests.hostile_server import HEAD, drops, endless, serving

MOST = 1 << 20
SECONDS = 0.2
PATIENT = 20.0

LATE = {
    "no answer": lambda: drops(b"HTTP", 9.0),
    "its status": lambda: drops(b"HTTP/1.1 200 OK" + b" " * 900),
    "its headers": lambda: drops(b"HTTP/1.1 200 OK\r\nA: " + b"b" * 900),
    "its body": lambda: drops(HEAD + b"Content-Length: 9000\r\n\r\n" + b"b" * 900, 0.01),
    "its chunks": lambda: drops(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nb\r\n" * 90),
    "the trailer": lambda: drops(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 90, 0.01
    ),
}
LARGE = {
    "its headers": lambda: endless(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 A\r\n\r\n"),
    "its body": lambda: endless(HEAD + b"\r\n", b"b"),
    "a body of known length": lambda: endless(HEAD + b"Content-Length: 99999999999\r\n\r\n", b"b"),
    "its chunks": lambda: endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nb\r\n"),
}


@pytest.mark.parametrize("what", LATE)
def test_who_sends_drop_by_drop_is_not_waited_for(what):
    begin = time.monotonic()
    with serving(lambda _: LATE[what]()) as url, pytest.raises(TooLateError):
        get(url, SECONDS, MOST)

    assert time.monotonic() - begin < SECONDS + PATIENT / 2


@pytest.mark.parametrize("what", LARGE)
def test_of_an_endless_answer_no_more_is_read_than_allowed(what):
    with serving(lambda _: LARGE[what]()) as url, pytest.raises(TooLargeError, match="1048576 by"):
        get(url, PATIENT, MOST)


def test_a_redirect_has_no_time_of_its_own():
    circles = []

    def answer(request: bytes):
        circles.append(request)
        time.sleep(SECONDS / 2)
        yield b"HTTP/1.1 302 Found\r\nLocation: /%d\r\nContent-Length: 0\r\n\r\n" % len(circles)

    with serving(answer) as url, pytest.raises(TooLateError):
        get(url, SECONDS, MOST)

    assert len(circles) <= 3


@pytest.mark.parametrize("to", ["ftp://127.0.0.1:1/a", "file:///etc/hostname", "data:,a"])
def test_a_redirect_leads_to_http_only(to):
    answer = b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % to.encode()
    with (
        serving(lambda _: [answer]) as url,
        pytest.raises(urllib.error.URLError, match=r"unknown url type: ftp|is not allowed"),
    ):
        get(url, PATIENT, MOST)


def through_requests(url, seconds, most):
    with session() as asked, allowed(Allowance(seconds, most)):
        asked.get(url, timeout=seconds)


CONNECT = {
    "its status drips": (TooLateError, SECONDS, LATE["its status"]),
    "its headers drip": (TooLateError, SECONDS, LATE["its headers"]),
    "its headers do not end": (
        TooLargeError,
        PATIENT,
        lambda: endless(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
    ),
}


@pytest.mark.parametrize("ask", [get, through_requests])
@pytest.mark.parametrize("what", CONNECT)
def test_a_proxy_has_no_more_for_its_way_through(what, ask, monkeypatch):
    error, seconds, script = CONNECT[what]
    begin = time.monotonic()
    with serving(lambda _: script()) as proxy, monkeypatch.context() as environment:
        environment.setenv("https_proxy", proxy)
        with pytest.raises(error):
            ask("https://lockstep.invalid/", seconds, MOST)

    assert time.monotonic() - begin < SECONDS + PATIENT / 2


def test_an_answer_in_bounds_is_had_whole_and_half_a_one_is_told():
    body = b"page" * 20_000
    head = HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
    with serving(lambda _: [head, body]) as url:
        assert body == get(url, PATIENT, MOST)
    with serving(lambda _: [head, body[:-1]]) as url, pytest.raises(HTTPException):
        get(url, PATIENT, MOST)


def test_nobody_asks_for_a_packed_page_and_who_packs_it_is_not_unpacked():
    packed = gzip.compress(b"b" * (MOST * 20))
    with serving(lambda _: [HEAD, b"Content-Encoding: gzip\r\n\r\n", packed]) as url:
        assert packed == get(url, PATIENT, MOST)


@pytest.mark.parametrize("script", [LATE["its headers"], LATE["its body"], LARGE["its body"]])
def test_the_recorder_gives_such_a_collector_up(script, monkeypatch):
    monkeypatch.setattr("lockstep.collector.recorder.recorder.MAX_BYTES", MOST)
    with serving(lambda _: script()) as url, pytest.raises(FetchError, match="takes too long or"):
        Target(url).get("/metrics", SECONDS)


def _says(status: str) -> list[bytes]:
    return [f"HTTP/1.1 {status}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody".encode()]


def test_the_recorder_asks_a_busy_collector_again():
    asked = []

    def answer(request: bytes):
        asked.append(request)
        return _says("503 Service Unavailable" if len(asked) < 3 else "200 OK")

    with serving(answer) as url:
        assert b"body" == Target(url).get("/ops", PATIENT)


def test_the_recorder_gives_a_collector_up_that_stays_busy():
    with (
        serving(lambda _: _says("503 Service Unavailable")) as url,
        pytest.raises(FetchError, match="503"),
    ):
        Target(url).get("/ops", PATIENT)


def test_what_goes_beyond_is_no_error_of_the_network_that_somebody_tries_again():
    assert not issubclass(ExceededError, OSError)
