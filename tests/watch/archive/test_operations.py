"""Operations of a finding: from every collector that answers in time, and nothing from the rest."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.watch.archive.archivist import addresses
from lockstep.watch.archive.jobs import Plan
from lockstep.watch.judge.diagnoses import Pages
from lockstep.watch.look import collectors as operations
from lockstep.watch.look.collectors import fetch

SLOW = 3.0


@pytest.fixture
def collector() -> Iterator[Callable[..., str]]:
    """`collector(status, body, seconds)`: page of one that answers so; `.asked` are its paths."""
    servers = []

    def make(status: int = 200, body: bytes = b"", seconds: float = 0.0) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                time.sleep(seconds)
                self.send_response(status)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body if "?run=a%22b&from_step=7" in self.path else b"?")

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/metrics"

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def test_who_does_not_answer_is_named_and_waited_for_no_longer_than_told(collector):
    empty = b'{"schema_version": 1, "run": "a\\"b", "ranks": []}'
    slow = collector(seconds=SLOW)
    pages = {
        collector(body=empty): None,
        collector(status=404): "it has no rank of this run any more",
        collector(status=401): "it answers 401",
        collector(body=b"<html>"): "its answer is not as agreed",
        "http://127.0.0.1:9/metrics": "it cannot be asked (ConnectionError)",
        "http://[::1/metrics": "it cannot be asked (ValueError)",
    }
    begin = time.monotonic()

    given = fetch([slow, *pages], 'a"b', 7, seconds=1.0)

    assert time.monotonic() - begin < SLOW
    # Of its own time or of all answers' time: on a busy machine either may be over first.
    assert dict(given.silent).pop(slow) in (
        "it did not answer in time",
        "its answer takes too long",
    )
    told = {page: why for page, why in given.silent.items() if page != slow}
    assert {page: why for page, why in pages.items() if why} == told
    assert 1 + len(pages) == given.asked
    assert ([], []) == (given.steps, given.ops)


def test_all_answers_together_may_be_so_long_and_the_first_ones_go_first(collector, monkeypatch):
    monkeypatch.setattr(operations, "AT_ONCE", 1)
    empty = b'{"schema_version": 1, "run": "a\\"b", "ranks": []}'
    body = empty + b" " * 1000
    pages = [collector(body=body, seconds=0.02 * (2 - place)) for place in range(3)]

    given = fetch(pages, 'a"b', 7, most=2 * len(body) + 700)  # headers count

    assert {pages[2]: "all answers together are too large"} == given.silent


def test_the_pages_of_the_culprit_and_its_peers_are_asked_first():
    class Thanos:
        def targets(self):
            raise SourceError("no targets here")

    names = tuple(f"n{number}:9" for number in range(9))
    plan = Plan(Pages({"j": ("n7:9", "n2:9")}, part=True), {"j": names}, 0.0, 1.0, 0, None)

    found = addresses(Thanos(), plan)

    assert ["http://n7:9/metrics", "http://n2:9/metrics"] == found[:2]
    assert {f"http://{name}/metrics" for name in names} == set(found)


def test_a_run_without_collectors_is_no_error():
    given = fetch([], "run", 0)

    assert (0, {}) == (given.asked, given.silent)
