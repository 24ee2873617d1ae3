"""What a Prometheus can do wrong: each is one sentence with a next step, and no credentials."""

import json
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard.shapes import FLEET_METRICS, Span
from lockstep.dashboard.sources.grid import grid
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.source import PrometheusSource
from lockstep.dashboard.trouble import Kind, TroubleError

NOW = 1_795_000_000.0
YEAR = 366 * 86400.0


class Fake:
    """Answers as told; refuses as Prometheus does what has more than 11,000 points."""

    def __init__(self):
        self.status, self.body, self.url, self.warnings = 200, None, "", []
        self.headers = {}

    def answer(self, path, words):
        if self.body is not None or self.status != 200:
            return self.status, self.body or b"{}"
        if path.endswith("query_range"):
            start, end, step = (float(words[name]) for name in ("start", "end", "step"))
            if (end - start) / step > 11_000:
                why = "exceeded maximum resolution of 11,000 points per timeseries"
                return 400, json.dumps({"status": "error", "error": why}).encode()
            return self._good("matrix", [])
        if path.endswith("/labels"):
            return 200, b'{"status":"success","data":[]}'
        if words.get("query") == "time()":
            return self._good("scalar", [NOW, str(NOW)])
        return self._good("vector", [])

    def _good(self, kind, result):
        tree = {"status": "success", "data": {"resultType": kind, "result": result}}
        if self.warnings:
            tree["warnings"] = self.warnings
        return 200, json.dumps(tree).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[Fake]:
    state = Fake()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            path, _, query = self.path.partition("?")
            self.reply(path, query)

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.reply(self.path, body)

        def reply(self, path, query):
            status, body = state.answer(path, dict(urllib.parse.parse_qsl(query)))
            self.send_response(status)
            for name, text in {"Content-Type": "application/json", **state.headers}.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        served.daemon_threads = True
        thread = threading.Thread(target=served.serve_forever, args=(0.02,))
        thread.start()
        state.url = f"http://me:secret@127.0.0.1:{served.server_port}"
        yield state
        served.shutdown()
        thread.join()


@pytest.fixture
def fake(server: Fake) -> Fake:
    server.status, server.body, server.warnings, server.headers = 200, None, [], {}
    return server


def said(ask) -> TroubleError:
    with pytest.raises(TroubleError) as error:
        ask()
    assert "secret" not in f"{error.value.sentence} {error.value.next_step}"
    assert error.value.sentence.endswith((".", "address?", "up?"))
    assert error.value.next_step
    return error.value


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, Kind.REFUSED), (403, Kind.REFUSED), (404, Kind.REFUSED), (400, Kind.REFUSED),
     (500, Kind.REFUSED), (302, Kind.UNREADABLE), (422, Kind.UNREACHABLE)],
)  # fmt: skip
def test_a_status_is_told_with_the_address(fake, status, kind):
    fake.status, fake.headers = status, {"Location": "http://x/"} if status == 302 else {}
    trouble = said(PrometheusSource(fake.url, environment={}).answer)
    assert kind == trouble.kind
    assert "127.0.0.1" in trouble.sentence
    assert str(status) in trouble.sentence


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"null", b'{"status": "success"}', b'{"data": {"result": 3}}', b""]
)
def test_what_is_no_prometheus_is_told(fake, body):
    fake.body = body or b" "
    source = PrometheusSource(fake.url, environment={})
    assert Kind.UNREADABLE == said(source.answer).kind
    assert Kind.UNREADABLE == said(lambda: source._asking.instant("up", NOW)).kind


def test_who_does_not_answer_is_told():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    source = PrometheusSource(f"http://127.0.0.1:{port}", environment={})
    assert Kind.UNREACHABLE == said(source.extent).kind


def test_what_is_no_address_is_told():
    assert Kind.NO_SOURCE == said(lambda: PrometheusSource("ftp://me:secret@x", None, {})).kind


def test_an_empty_prometheus_says_what_it_must_scrape(fake):
    source = PrometheusSource(fake.url, environment={})
    answer = source.answer()
    assert (None, (0, 0)) == (answer.at, answer.nodes)
    for ask in (source.extent, source.runs, source.nodes, source.health,
                lambda: source.fleet(FLEET_METRICS[0]), lambda: source.run("x")):  # fmt: skip
        assert Kind.EMPTY == said(ask).kind


def test_a_warning_of_the_server_is_told_with_every_answer(fake):
    fake.warnings = ["store 10.0.0.3 did not answer"]
    source = PrometheusSource(fake.url, environment={})
    source.answer()
    assert ("Prometheus says: store 10.0.0.3 did not answer",) == source.answer().missing


@given(st.floats(300, YEAR), st.sampled_from([1.0, 15.0, 60.0]), st.integers(2, 5000))
def test_no_range_from_five_minutes_to_a_year_is_refused(server, seconds, scrape, points):
    server.status, server.body, server.warnings = 200, None, []
    asking = _ASKING.setdefault(server.url, Asking(server.url, {}))
    assert [] == asking.over("up", grid(Span(NOW - seconds, NOW), scrape, points))


_ASKING: dict[str, Asking] = {}
