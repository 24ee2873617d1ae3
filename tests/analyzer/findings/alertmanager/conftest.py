"""Alerts made by hand, a clock that is set by hand, and an HTTP server that answers as told."""

import contextlib
import email.utils
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lockstep.analyzer.findings.alertmanager.posting import Alert


@pytest.fixture
def alert() -> Callable[..., Alert]:
    """`alert("node-3", summary="...")`."""

    def make(node: str = "node-3", summary: str = "Rank 3 is slow.", **labels: str) -> Alert:
        every = {"alertname": "LockstepFinding", "run": "gpt", "node": node, **labels}
        return Alert(every, {"summary": summary}, 1000.0)

    return make


@dataclass
class Clock:
    now: float = 0.0

    def unix(self) -> float:
        return 1_800_000_000.0 + self.now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@dataclass
class Server:
    """Answers every POST with the next of `answers`, the last one for ever, at `clock`."""

    url: str = ""
    clock: float = 1_800_000_000.0
    answers: list[tuple[int, bytes]] = field(default_factory=lambda: [(200, b"")])
    bodies: list[list[dict[str, object]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    more_headers: dict[str, str] = field(default_factory=dict)
    hold: threading.Event = field(default_factory=threading.Event)
    came: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __post_init__(self) -> None:
        self.hold.set()


@pytest.fixture
def server() -> Iterator[Callable[[], Server]]:
    """`server()`: another one that listens, at an address of the loopback's network."""
    running: list[tuple[ThreadingHTTPServer, Server]] = []

    def make(host: str = "127.0.0.1", port: int = 0) -> Server:
        told = Server()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                told.bodies.append(json.loads(body))
                told.headers.append(dict(self.headers))
                told.came.release()
                told.hold.wait(20)
                status, text = told.answers.pop(0) if len(told.answers) > 1 else told.answers[0]
                self.send_response_only(status)
                date = {"Date": email.utils.formatdate(told.clock, usegmt=True)}
                for name, value in (date | told.more_headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                with contextlib.suppress(OSError):  # who asked may be gone
                    self.end_headers()
                    self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        listening = ThreadingHTTPServer((host, port), Handler)
        told.url = f"http://{host}:{listening.server_port}"
        threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True).start()
        running.append((listening, told))
        return told

    yield make
    for listening, told in running:
        told.hold.set()
        listening.shutdown()
        listening.server_close()
