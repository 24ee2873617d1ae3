"""A Prometheus whose answers do not end, drip, or unpack to more than memory: every question."""

import gzip
import json
import time
import tracemalloc

import pytest
import requests

from lockstep.analyzer.read.bounded_session import session
from lockstep.analyzer.read.prometheus import connection
from lockstep.analyzer.read.prometheus.access import SourceError, TooMuchError, access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.collector.contract.bounded_http import Allowance, TooLargeError, allowed
from tests.hostile_server import HEAD, drops, endless, serving

MOST = 1 << 20
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
GOOD = b'{"status":"success","data":{"resultType":"scalar","result":[5,"5"]}}'
PACKED = gzip.compress(b" " * (MOST * 200), mtime=0)
QUESTIONS = {
    "time": lambda asked: asked.now(),
    "instant": lambda asked: asked.instant("up", 1.0),
    "labels": lambda asked: asked.labels("run", "up", 0.0, 1.0),
    "targets": lambda asked: asked.targets(),
    "range": lambda asked: asked.body("query_range", {"query": "up"}),
}
LARGE = {
    "endless": lambda: endless(HEAD + b'\r\n{"data":"', b"a"),
    "endless headers": lambda: endless(b"HTTP/1.1 100 A\r\n\r\n", b"HTTP/1.1 100 A\r\n\r\n"),
    "endless line between chunks": lambda: endless(HEAD + CHUNKED, b"0"),
    "packed": lambda: [HEAD, b"Content-Encoding: gzip\r\n\r\n", PACKED],
}
LATE = {
    "headers drip": lambda: drops(b"HTTP/1.1 200 OK\r\nA: " + b"a" * 900),
    "body drips": lambda: drops(HEAD + b"Content-Length: 9000\r\n\r\n" + b"a" * 900),
    "chunks drip": lambda: drops(HEAD + CHUNKED + b"1\r\na\r\n" * 900),
    "an error drips": lambda: drops(b"HTTP/1.1 400 Bad\r\n\r\n" + b"a" * 900),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch) -> None:
    monkeypatch.setattr(connection, "MAX_BYTES", MOST)
    monkeypatch.setattr(connection, "SMALL_BYTES", MOST)


@pytest.mark.sweep
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("what", LARGE)
def test_no_question_reads_more_than_its_bytes(what, question):
    tracemalloc.start()
    try:
        with (
            serving(lambda _: LARGE[what]()) as url,
            Connection(access(url, {}), pause=0.0) as asked,
            # urllib3 itself gives up on a line between chunks that is too long.
            pytest.raises(SourceError, match=r"more than the 1 MiB that are read|ends too early"),
        ):
            QUESTIONS[question](asked)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert most < 8 * MOST


@pytest.mark.sweep
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("what", LATE)
def test_no_question_waits_longer_than_its_time(what, question):
    begin = time.monotonic()
    with (
        serving(lambda _: LATE[what]()) as url,
        Connection(access(url, {}), seconds=0.4, pause=0.0) as asked,
        pytest.raises(TooMuchError, match="did not answer in time"),
    ):
        QUESTIONS[question](asked)

    assert time.monotonic() - begin < 10.0  # 45 s of drops


@pytest.mark.parametrize("question", QUESTIONS)
def test_all_questions_together_end_at_their_deadline(question):
    begin = time.monotonic()
    with (
        serving(lambda _: LATE["body drips"]()) as url,
        Connection(access(url, {}), pause=0.0, until=begin + 0.4) as asked,
    ):
        for _ in range(3):
            with pytest.raises(TooMuchError, match="did not answer in time"):
                QUESTIONS[question](asked)

    assert time.monotonic() - begin < 10.0


def test_a_small_answer_of_very_many_values_is_refused_before_it_is_taken_apart(monkeypatch):
    monkeypatch.setattr(connection, "MOST_VALUES", 1000)
    body = json.dumps({"status": "success", "data": {"result": [[]] * 1000}}).encode()
    with (
        serving(lambda _: [HEAD, b"\r\n", body]) as url,
        Connection(access(url, {})) as asked,
        pytest.raises(TooMuchError, match="more than 1000 values"),
    ):
        asked.instant("up", 1.0)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [(b"br", GOOD), (b"gzip, gzip", GOOD), (b"gzip", GOOD), (b"gzip", gzip.compress(GOOD)[:-9])],
    # Named, because gzip writes the second into its bytes: two workers would collect two tests.
    ids=["brotli", "gzip twice", "not packed", "cut short"],
)
def test_what_is_packed_as_nobody_asked_or_wrongly_is_no_answer(encoding, body):
    head = HEAD + b"Content-Encoding: " + encoding + b"\r\n\r\n"
    with (
        serving(lambda _: [head, body]) as url,
        Connection(access(url, {})) as asked,
        pytest.raises(SourceError),
    ):
        asked.now()


def test_an_answer_packed_with_gzip_is_read():
    head = HEAD + b"Content-Encoding: gzip\r\n\r\n"
    with (
        serving(lambda _: [head, gzip.compress(GOOD)]) as url,
        Connection(access(url, {})) as asked,
    ):
        assert 5.0 == asked.now()


def test_redirects_share_the_bytes_of_their_answer():
    body = b"a" * (MOST // 4)
    head = b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: %d\r\n\r\n" % len(body)
    asked = []
    with (
        serving(lambda request: [asked.append(request) or head, body]) as url,
        session() as asking,
        allowed(Allowance(20.0, MOST)),
        pytest.raises((TooLargeError, requests.TooManyRedirects)),
    ):
        asking.get(url, timeout=5.0)

    assert len(asked) < 31


def test_a_connection_is_kept_for_the_next_question():
    requests_of = []

    def answer(first: bytes):
        requests_of.append(first)
        yield HEAD + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD
        time.sleep(0.3)
        yield HEAD + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD
        time.sleep(0.3)

    with serving(answer) as url, Connection(access(url, {})) as asked:
        assert [5.0, 5.0] == [asked.now(), asked.now()]

    assert 1 == len(requests_of)
