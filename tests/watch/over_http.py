"""A fake Prometheus for other processes, which cannot ask it but over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from tests.watch.fake_prometheus import FakePrometheus


@contextmanager
def over_http(prometheus: FakePrometheus) -> Iterator[str]:
    """The address where another process asks it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            self._send(self.path.partition("?")[0], body)

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            self._send(path, query)

        def _send(self, path: str, query: str) -> None:
            words = {name: values[0] for name, values in parse_qs(query).items()}
            status, answer = prometheus.answer(path, words)
            with suppress(OSError):  # who asked may be gone
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()
