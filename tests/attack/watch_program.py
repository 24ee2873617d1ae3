"""The real `lockstep watch` as its own process, over a Prometheus of the test's."""

import contextlib
import http.client
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

START_SECONDS = 90.0
PATIENCE_SECONDS = 60.0


class WatchProgram:
    """One watch on a port of the loopback, its folders below `folder`."""

    def __init__(
        self, prometheus: str, folder: Path, *more: str, descriptors: int | None = None
    ) -> None:
        self.folder = folder
        announced = folder / f"address-{time.monotonic_ns()}"
        self._log = folder / "log"

        def limit() -> None:
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        command = [
            sys.executable, "-m", "lockstep", "watch", "--prometheus", prometheus,
            "--interval", "0.5", "--listen", "127.0.0.1:0", "--announce", str(announced),
            "--out", str(folder / "out"), "--state", str(folder / "state"), *more,
        ]  # fmt: skip
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=limit
            )
        end = time.monotonic() + START_SECONDS
        while not (announced.exists() and announced.read_text().endswith("\n")):
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.05)
        host, _, port = announced.read_text().strip().rpartition(":")
        self.address = (host, int(port))

    @property
    def token(self) -> str:
        """Of the webhook."""
        return (self.folder / "state" / "webhook-token").read_text().strip()

    def log(self) -> str:
        """What it said so far, and its predecessors in the same folder."""
        return self._log.read_text(errors="replace")

    def ask(
        self, path: str, body: bytes | None = None, seconds: float = 20.0, **headers: str
    ) -> tuple[int, str]:
        """Status and text of an answer; a body makes it a POST of JSON with the token."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            told = {
                "Content-Type": "application/json", "Authorization": f"Bearer {self.token}",
            } | told  # fmt: skip
        connection = http.client.HTTPConnection(*self.address, timeout=seconds)
        try:
            connection.request("GET" if body is None else "POST", path, body, told)
            with connection.getresponse() as answer:
                return answer.status, answer.read().decode()
        finally:
            connection.close()

    def until(self, holds: Callable[[str], bool]) -> str:
        """The first page of which this holds."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(OSError, http.client.HTTPException):
                page = self.ask("/metrics")[1]
                if holds(page):
                    return page
            time.sleep(0.05)
        raise AssertionError(f"it does not come to that; watch said:\n{self.log()[-4000:]}")

    def resident(self) -> int:
        """The most bytes that it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def kill(self) -> None:
        """As the kernel does."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(240)

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(240)


@contextlib.contextmanager
def watching(
    prometheus: str, folder: Path, *more: str, descriptors: int | None = None
) -> Iterator[WatchProgram]:
    """A watch until the end of the block."""
    one = WatchProgram(prometheus, folder, *more, descriptors=descriptors)
    try:
        yield one
    finally:
        one.close()
