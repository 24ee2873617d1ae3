"""`lockstep dashboard` as a process: the server as its child, its signals, its end."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path

from lockstep.cli import dashboard_asked as words
from lockstep.cli.dashboard_asked import Asked
from lockstep.collector.config import Address, is_loopback
from lockstep.collector.contract import bounded_http, threads
from lockstep.collector.contract.visible import visible_line
from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose import newest
from lockstep.terminal.output import fail, note

__all__ = ["Asked", "serve"]

START_SECONDS = 60.0
"""For the server to answer: it loads Streamlit, on a busy machine."""
LOOK_SECONDS = 0.05
STOP_SECONDS = 20.0
"""For the server to end: it may have a run to end first."""
HEALTH = "/_stcore/health"
HEALTH_BYTES = 1 << 14
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - told apart, not listened on


def serve(asked: Asked) -> int:
    """Serve until a signal comes; 130 for Ctrl-C, 0 for SIGTERM.

    Raises:
        CommandError: 64 or 65, a word is wrong; 69, the address cannot be used or something is not
            installed; 70, the server ended by itself.
    """
    if find_spec("streamlit") is None:
        fail(
            ExitCode.UNREACHABLE,
            "streamlit is not installed, and this command needs it; `make dashboard` in the"
            " checkout, or `pip install '.[dashboard]'`, brings it",
        )
    if not os.path.isdir(os.curdir):
        fail(ExitCode.UNREACHABLE, "the folder of this shell is gone; cd to one that is there")
    source, where = words.source(asked), words.place(asked)
    settings = words.settings(asked, where)
    where = free_address(where)
    if not (is_loopback(where.host) or settings.login):
        note(f"lockstep: everybody who reaches {where.host} can read this dashboard; see --login")
    environment = {
        **os.environ,
        "LOCKSTEP_DASHBOARD_SOURCE": json.dumps(source),
        "LOCKSTEP_DASHBOARD_SETTINGS": settings.written(),
    }
    ended = threading.Event()
    with _signals(ended) as came:
        child = _start(where, asked.login, environment)
        threads.task("server", partial(_wait, child, ended)).start()
        try:
            if _answers(where, child, ended):
                _tell(where, source, asked.announce)
                ended.wait()
        finally:
            code = _end(child)
    if not came:
        fail(ExitCode.INTERNAL, f"the dashboard's server ended by itself, with exit code {code}")
    return ExitCode.INTERRUPTED if signal.SIGINT in came else ExitCode.OK


def free_address(where: Address) -> Address:
    """The address with a port on which nobody listens, the one asked for or any.

    Raises:
        CommandError: 69, it is taken, or it is not of this machine.
    """
    try:
        family = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((where.host, where.port))
            return Address(where.host, probe.getsockname()[1])
    except OSError as error:
        fail(
            ExitCode.UNREACHABLE,
            f"{where.host}:{where.port} cannot be listened on: {error.strerror};"
            " --listen 127.0.0.1:0 takes any free port",
        )


def _start(
    where: Address, secrets: Path | None, environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "lockstep.dashboard",
        str(os.getpid()),
        where.host,
        str(where.port),
    ]
    if secrets is not None:
        command.append(str(secrets.resolve()))
    # In a session of its own, so that Ctrl-C comes to us alone and we end it in order.
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


def _answers(where: Address, child: "subprocess.Popen[bytes]", ended: threading.Event) -> bool:
    """Whether the server answers in time; False when it, or we, ended before.

    Raises:
        CommandError: 70, it does not answer.
    """
    until = time.monotonic() + START_SECONDS
    while not ended.wait(LOOK_SECONDS):
        if _is_healthy(where):
            return child.poll() is None
        if time.monotonic() > until:
            fail(ExitCode.INTERNAL, f"the server did not answer in {START_SECONDS:g} s")
    return False


def _is_healthy(where: Address) -> bool:
    host = ANY.get(where.host, where.host)
    try:
        url = f"http://{Address(host, where.port)}{HEALTH}"
        return bounded_http.get(url, 2.0, HEALTH_BYTES, proxies=False).startswith(b"ok")
    except (OSError, HTTPException, bounded_http.ExceededError):
        return False


def _tell(where: Address, source: dict[str, object], announce: Path | None) -> None:
    host = f"[{where.host}]" if ":" in where.host else where.host
    if announce is not None:
        try:
            announce.write_text(f"{host}:{where.port}\n")
        except OSError as error:
            fail(ExitCode.UNREACHABLE, f"--announce {announce} is not writable: {error.strerror}")
    if source.get("kind") == "folder":
        _tell_newest(Path(str(source["path"])))
    shown = source.get("path") or source.get("url") or source.get("kind") or "no source"
    note(f"dashboard of {shown}: http://{host}:{where.port}  (Ctrl-C ends it)")


def _tell_newest(folder: Path) -> None:
    """All archives of a folder are shown; which one is looked for most often, and how alone."""
    archives = newest.archives_in(folder)
    last = newest.last_ended(archives)
    if last is None:
        note(f"{folder} holds no run that ended; runs are shown once their archives are there")
    else:
        note(
            visible_line(
                f"{newest.described(folder, archives, last)}; all are shown, it alone by: lockstep"
                f" dashboard {shlex.quote(str(last))}"
            )
        )


def _wait(child: "subprocess.Popen[bytes]", ended: threading.Event) -> None:
    child.wait()
    ended.set()


def _end(child: "subprocess.Popen[bytes]") -> int:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
    return child.wait()


@contextmanager
def _signals(ended: threading.Event) -> Iterator[set[int]]:
    """Ctrl-C and SIGTERM end it; which of them came."""
    came: set[int] = set()

    def end(number: int, _frame: object) -> None:
        came.add(number)
        ended.set()

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
