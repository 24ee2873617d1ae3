"""The two ends of an alert: a collector's page on which XIDs happen, and a webhook."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

from lockstep.analyzer.findings.alertmanager.webhook import ReceivedAlert, parse
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metric_rows.alerted import XID_ZEROS
from lockstep.collector.contract.xid import describe
from lockstep.collector.exporter.page import render


class Receiver:
    """A webhook: alerts that fire, and when they came (monotonic seconds)."""

    def __init__(self) -> None:
        self.alerts: Queue[tuple[float, ReceivedAlert]] = Queue()
        self.address = ""

    def answer(self, body: bytes) -> bytes:
        came = time.monotonic()
        for alert in parse(body).alerts if body else ():  # Prometheus looks for a page, too
            if alert.firing:
                self.alerts.put((came, alert))
        return b"ok"


class Page:
    """A collector's page of eight GPUs without an XID so far."""

    def __init__(self) -> None:
        self.address = ""
        self.scraped = threading.Event()
        self._counts = {(str(gpu), xid): 0 for xid, _ in XID_ZEROS for gpu in range(8)}
        self._next = iter(
            [(str(gpu), xid) for xid, rated in XID_ZEROS if rated == "fatal" for gpu in range(8)]
        )

    def happen(self) -> tuple[str, str]:
        """Let one of the XIDs that are fatal happen; its GPU and number."""
        where = next(self._next)
        self._counts[where] += 1
        return where

    def answer(self, _: bytes) -> bytes:
        self.scraped.set()
        place = {gpu: (gpu, f"GPU-{gpu}", f"0000:{gpu}0:00.0") for gpu, _ in self._counts}
        return render(
            [m.GPU_XID_ERRORS(count, *place[gpu], xid, "nvml", str(describe(int(xid)).severity))
             for (gpu, xid), count in self._counts.items()]
        ).encode()  # fmt: skip


@contextmanager
def beside(thing: Page | Receiver) -> Iterator[None]:
    """Serve it; its address is set."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = thing.answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - as the base class wants it

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        thing.address = f"127.0.0.1:{server.server_port}"
        yield
        server.shutdown()
