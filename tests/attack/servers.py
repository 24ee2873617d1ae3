"""Every server of ours as its real program, and a client that behaves."""

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

START_SECONDS = 120.0
END_SECONDS = 240.0
ANSWER_SECONDS = 20.0
"""A well-behaved client waits so long: attackers and servers share this machine's processors."""
NOBODY = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Kind:
    """A server.

    Attributes:
        command: What Python is called with, by the folder of the server's files and its address.
        health: A path that needs no login.
        needs: Package without which it does not start.
    """

    name: str
    command: Callable[[Path, str], Sequence[str]]
    health: str
    tls: bool = False
    needs: str = "os"

    def __str__(self) -> str:
        return self.name


def _collector(folder: Path, listen: str) -> list[str]:
    rings = folder / "rings"
    rings.mkdir(exist_ok=True)
    return ["-m", "lockstep.collector", "--listen", listen, "--sources", "procfs,own_process",
            "--lockstep-dir", str(rings)]  # fmt: skip


def _collector_tls(folder: Path, listen: str) -> list[str]:
    pem, key = certificate(folder)
    web = folder / "web.yml"
    web.write_text(f"tls_server_config: {{cert_file: {pem}, key_file: {key}}}\n")
    return [*_collector(folder, listen), "--web-config-file", str(web)]


def _watch(folder: Path, listen: str) -> list[str]:
    return ["-m", "lockstep", "watch", "--prometheus", NOBODY, "--listen", listen,
            "--out", str(folder / "out"), "--state", str(folder / "state")]  # fmt: skip


def _api(folder: Path, listen: str) -> list[str]:
    return ["-m", "lockstep", "api", str(folder / "runs"), "--listen", listen]


def _api_tls(folder: Path, listen: str) -> list[str]:
    pem, key = certificate(folder)
    return [*_api(folder, listen), "--tls-certificate", str(pem), "--tls-key", str(key)]


def _nodes(folder: Path, listen: str) -> list[str]:
    config = folder / "kubeconfig"
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": NOBODY}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    }))  # fmt: skip
    return ["-m", "lockstep", "nodes", "--watch", NOBODY, "--kubeconfig", str(config),
            "--listen", listen]  # fmt: skip


def _dashboard(folder: Path, listen: str) -> list[str]:
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    return ["-m", "lockstep", "dashboard", str(runs), "--listen", listen]


KINDS = (
    Kind("collector", _collector, "/healthz"),
    Kind("collector-tls", _collector_tls, "/healthz", tls=True),
    Kind("watch", _watch, "/healthz"),
    Kind("api", _api, "/healthz", needs="fastapi"),
    Kind("api-tls", _api_tls, "/healthz", tls=True, needs="fastapi"),
    Kind("nodes", _nodes, "/-/healthy"),
    Kind("dashboard", _dashboard, "/_stcore/health", needs="streamlit"),
)


class Server:
    """One of them on a port of the loopback."""

    def __init__(
        self, kind: Kind, folder: Path, descriptors: tuple[int, int] | None = None
    ) -> None:
        self.kind = kind
        announced = folder / "address"
        self._log = folder / "log"

        def limit() -> None:
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)

        command = [
            sys.executable, *kind.command(folder, "127.0.0.1:0"), "--announce", str(announced)
        ]  # fmt: skip
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=limit
            )
        end = time.monotonic() + START_SECONDS
        while not (announced.exists() and announced.read_text().strip()):
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.05)
        host, _, port = announced.read_text().strip().rpartition("/")[2].rpartition(":")
        self.address = (host, int(port))

    def log(self) -> str:
        """What it said so far."""
        return self._log.read_text(errors="replace")

    def plain(self, source: str = "127.0.0.1", seconds: float = 5.0) -> socket.socket:
        """A connection without TLS, from an address of the loopback's network."""
        return socket.create_connection(self.address, seconds, (source, 0))

    def connect(self, source: str = "127.0.0.1", seconds: float = 5.0) -> socket.socket:
        """A connection, behind TLS where the server has TLS."""
        plain = self.plain(source, seconds)
        if not self.kind.tls:
            return plain
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            return context.wrap_socket(plain)
        except OSError:
            plain.close()
            raise

    def ask(self, request: bytes, source: str = "127.0.0.1") -> bytes:
        """All that is answered on a connection of its own, until the server closes it."""
        with self.connect(source, ANSWER_SECONDS) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))

    def ask_until_silent(self, request: bytes, seconds: float = 0.5) -> bytes:
        """All that is answered until the server closes, or says nothing for a while."""
        said = b""
        with self.connect() as connection, contextlib.suppress(OSError):
            connection.settimeout(seconds)
            connection.sendall(request)
            while part := connection.recv(1 << 16):
                said += part
        return said

    def answers(self, source: str = "127.0.0.1", path: str = "") -> bool:
        """Whether a well-behaved client is told that the server is well, or given a page."""
        with contextlib.suppress(OSError):
            said = self.ask(request(path or self.kind.health, "Connection: close"), source)
            return said.startswith(b"HTTP/1.1 200")
        return False

    def resident(self) -> int:
        """Bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    def close(self) -> None:
        """End it, as systemd does."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    """The head of a request."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


@contextlib.contextmanager
def running(
    kind: Kind, folder: Path, descriptors: tuple[int, int] | None = None
) -> Iterator[Server]:
    """A server until the end of the block, with its limits of descriptors (soft, hard)."""
    server = Server(kind, folder, descriptors)
    try:
        yield server
    finally:
        server.close()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    pem, key = folder / "server.pem", folder / "server.key"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-days", "2", "-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(pem)],
        check=True, capture_output=True, env=os.environ,
    )  # fmt: skip
    return pem, key
