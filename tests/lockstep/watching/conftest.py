"""A simulated Prometheus over HTTP, and a watch that asks it."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from analyzer.readers.prometheus.access import access
from lockstep.watching.diagnoses import Diagnoses
from lockstep.watching.loop import Watch
from lockstep.watching.settings import Settings
from tests.lockstep.watching.fake_prometheus import FakePrometheus
from tests.lockstep.watching.few_runs import FewRuns, verdict


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[str, list[FakePrometheus]]]:
    """URL of a server, and the one that it asks in a list."""
    asked: list[FakePrometheus] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            self._send(self.path.partition("?")[0], body)

        def do_GET(self) -> None:
            self._send(*self.path.split("?", 1))

        def _send(self, path: str, query: str = "") -> None:
            words = {name: values[0] for name, values in parse_qs(query).items()}
            status, answer = asked[-1].answer(path, words)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", asked
        listening.shutdown()
        thread.join()


@pytest.fixture
def prometheus(server) -> Iterator[FakePrometheus]:
    fake = FakePrometheus()
    server[1].append(fake)
    yield fake
    server[1].remove(fake)


@pytest.fixture
def watching(server, prometheus, tmp_path) -> Callable[..., Watch]:
    """`watching()`: a Watch over the fake, with archives and state in the test's folder."""

    def make(out: Path | None = tmp_path / "out", state: Path | None = tmp_path / "state") -> Watch:
        watch = Watch(Settings(access(server[0], {}), out, state))
        if out is not None:
            watch.start()
        return watch

    return make


@pytest.fixture
def cycles(prometheus) -> Callable[..., list]:
    """`cycles(watch, n, seconds)`: what opened, closed and stayed in n cycles."""

    def run(watch: Watch, count: int, seconds: float = 15.0) -> list:
        changes: list = []
        hook = lambda *change: changes.append(change)  # noqa: E731
        watch.on_change.append(hook)
        for _ in range(count):
            prometheus.now += seconds
            watch.cycle()
        watch.on_change.remove(hook)
        return changes

    return run


@pytest.fixture
def few_runs(monkeypatch) -> Callable[..., FewRuns]:
    """`few_runs(rows, interval)`: runs that do what a test says, and a watch over them."""
    monkeypatch.setattr(Diagnoses, "_one", verdict)
    return FewRuns
