"""The standalone set-up, run from its own files: only what its README names may be changed."""

import contextlib
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = DEPLOY / "standalone"
SERVICES = sorted((FILES / "systemd").glob("*.service"))
ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
PATIENCE_SECONDS = 300.0


def documented() -> list[str]:
    """What may be changed, as the last table of the README has it."""
    return ROW.findall((FILES / "README.md").read_text())


def changed(text: str, values: Mapping[str, str]) -> str:
    """A file with other values for what may be changed."""
    assert set() == values.keys() - set(documented())
    for default, value in values.items():
        text = text.replace(default, value)
    return text


def command(service: str, values: Mapping[str, str]) -> list[str]:
    """What a service starts."""
    [line] = re.findall(
        r"^ExecStart=(.*)$", (FILES / "systemd" / f"lockstep-{service}.service").read_text(),
        re.MULTILINE,
    )  # fmt: skip
    words = shlex.split(changed(line, values))
    # A value of several words is a program and its first arguments.
    return [*shlex.split(words[0]), *words[1:]]


class Standalone:
    """The files in a folder of the test, on free ports, and the programs that are started.

    Attributes:
        values: What was changed: default -> value.
        archives: Where `lockstep watch` writes.
        token: Where its webhook's token is, which systemd hands to Alertmanager.
        prometheus: URL.
    """

    def __init__(self, folder: Path, seconds: int = 1, watch: str = "") -> None:
        """In a folder; `watch` is the address of a stand-in for `lockstep watch`."""
        free = _free_addresses(4)
        if watch:
            free[2] = watch
        self.values = {
            "127.0.0.1:9090": free[0],
            "127.0.0.1:9093": free[1],
            "127.0.0.1:9411": free[2],
            "127.0.0.1:8501": free[3],
            "/etc/lockstep": str(folder / "etc"),
            "/opt/lockstep/bin/lockstep": f"'{sys.executable} -m lockstep'",
            "/run/credentials/lockstep-alertmanager.service": str(
                folder / "state" / "lockstep-watch" / "state"
            ),
            "%S": str(folder / "state"),
        }
        if seconds != 1:
            self.values |= {"_interval: 1s": f"_interval: {seconds}s",
                            "--interval 1": f"--interval {seconds}"}  # fmt: skip
        self.folder = folder
        self.prometheus, self.alertmanager, self.watch = (f"http://{each}" for each in free[:3])
        self.token = folder / "state" / "lockstep-watch" / "state" / "webhook-token"
        self.archives = folder / "state" / "lockstep-watch" / "findings"
        for name in ("rules", "targets"):
            (folder / "etc" / name).mkdir(parents=True)
        for service in SERVICES:
            (folder / "state" / service.stem).mkdir(parents=True)
        if watch:  # nobody else writes the token, without which Alertmanager sends nothing
            self.token.parent.mkdir(parents=True, exist_ok=True)
            self.token.write_text("of-a-stand-in")
        for name in ("prometheus.yml", "alertmanager.yml"):
            text = changed((FILES / name).read_text(), self.values)
            (folder / "etc" / name).write_text(text)
        words = FILES / "lockstep.tmpl"
        (folder / "etc" / words.name).write_bytes(words.read_bytes())
        for path in (DEPLOY / "rules").glob("*.rules.yml"):
            (folder / "etc" / "rules" / path.name).write_bytes(path.read_bytes())

    def targets(self, addresses: Mapping[str, str]) -> None:
        """Have Prometheus scrape these: node -> address."""
        text = "[" + ", ".join(
            f'{{"targets": ["{address}"], "labels": {{"node": "{node}"}}}}'
            for node, address in addresses.items()
        ) + "]"  # fmt: skip
        complete = self.folder / "etc" / "targets" / "nodes.new"
        complete.write_text(text)
        complete.replace(complete.with_suffix(".json"))

    @contextlib.contextmanager
    def running(self, *services: str) -> Iterator[None]:
        """Start services, until they answer; end them."""
        pages = {
            "prometheus": f"{self.prometheus}/-/ready",
            "alertmanager": f"{self.alertmanager}/-/ready",
            "watch": f"{self.watch}/-/healthy",
        }
        with contextlib.ExitStack() as stack:
            for service in services:
                log = stack.enter_context((self.folder / f"{service}.log").open("wb"))
                process = subprocess.Popen(
                    command(service, self.values), stdout=log, stderr=log,
                    stdin=subprocess.DEVNULL,
                )  # fmt: skip
                stack.callback(_end, process)
            for service in services:
                _answers(pages[service])
            yield

    def log(self, service: str) -> str:
        """What a service said."""
        return (self.folder / f"{service}.log").read_text(errors="replace")


def _free_addresses(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def _answers(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.1)
    raise TimeoutError(f"{url} did not answer")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(240)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
