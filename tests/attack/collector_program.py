"""The real collector as its own process, and what an attacker and a scraper do to it."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

SOURCES = "rank_ring,procfs,diskstats,vmstat,own_process"
START_SECONDS = 60.0


class Collector:
    """One collector on a port of the loopback."""

    def __init__(
        self,
        rings: Path,
        *more: str,
        sources: str = SOURCES,
        descriptors: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory()
        announced = Path(self._folder.name) / "address"
        self._log = Path(self._folder.name) / "log"

        def limit() -> None:
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        command = [
            sys.executable, "-m", "lockstep.collector", "--listen", "127.0.0.1:0",
            "--sources", sources, "--lockstep-dir", str(rings), "--announce", str(announced), *more,
        ]  # fmt: skip
        with self._log.open("wb") as log:
            environment = os.environ | (environment or {})
            self.process = subprocess.Popen(command, stderr=log, env=environment, preexec_fn=limit)
        end = time.monotonic() + START_SECONDS
        while not announced.exists():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.05)
        host, _, port = announced.read_text().strip().rpartition(":")
        self.address = (host, int(port))

    def log(self) -> str:
        """What it said so far."""
        return self._log.read_text()

    def connect(self, source: str = "127.0.0.1", timeout: float = 20.0) -> socket.socket:
        """A connection from an address of the loopback's network."""
        return socket.create_connection(self.address, timeout, (source, 0))

    def scrape(self, path: str = "/metrics", source: str = "127.0.0.1") -> float | None:
        """Seconds of one request on a connection of its own; None if it was not answered whole."""
        began = time.perf_counter()
        try:
            with self.connect(source) as connection:
                connection.sendall(request(path, "Connection: close"))
                answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except OSError:
            return None
        head, _, body = answer.partition(b"\r\n\r\n")
        length = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        whole = head.startswith(b"HTTP/1.1 200") and len(body) == int(length[b"Content-Length"])
        return time.perf_counter() - began if whole else None

    def page(self) -> dict[tuple[str, tuple[str, ...]], float]:
        """Values by metric and labels."""
        with urllib.request.urlopen("http://{}:{}/metrics".format(*self.address), timeout=5) as one:
            text = one.read().decode()
        return {
            (sample.name, tuple(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def until(self, holds: Callable[[dict[Any, float]], bool], seconds: float = 120.0) -> float:
        """Seconds until the page is so."""
        began = time.monotonic()
        while not holds(self.page()):
            assert time.monotonic() - began < seconds
            time.sleep(0.05)
        return time.monotonic() - began

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def resident(self) -> int:
        """Bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    def close(self) -> None:
        """End it, as systemd does."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(240)
        self._folder.cleanup()


def request(path: str = "/metrics", *headers: str) -> bytes:
    """A whole request."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: a", *headers, "", ""]).encode()


@contextlib.contextmanager
def running(rings: Path, *more: str, **how: Any) -> Iterator[Collector]:
    """A collector until the end of the block."""
    one = Collector(rings, *more, **how)
    try:
        yield one
    finally:
        one.close()
