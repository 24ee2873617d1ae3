"""`lockstep api` as a process: its parts wired together, its signals, its end."""

import signal
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lockstep.collector.config import Address, ConfigError, address, is_loopback
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.interrupts import log_warnings, signals
from lockstep.terminal.output import fail, note

NEEDED = {"fastapi": "api", "pandas": "analyzer", "torch": "workloads"}
"""Import name -> the extra that brings it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of the command line."""

    folder: Path
    listen: str
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    plain_http: bool = False
    announce: Path | None = None
    results: tuple[Path, ...] = ()


def serve(asked: Asked) -> int:
    """Serve until a signal comes; 130 for Ctrl-C, 0 for SIGTERM. A run that goes on is ended.

    Raises:
        CommandError: 64, a word is wrong; 65, the token's file; 69, the address, the folder or a
            package cannot be had.
    """
    where = place(asked)
    require_installed()
    from lockstep.bench.api.access import bearer
    from lockstep.bench.api.app import application
    from lockstep.bench.api.reading import Reading
    from lockstep.bench.api.server import Server
    from lockstep.bench.api.starting import PLACE, Starting

    log_warnings()
    folder = usable(asked.folder)
    key = bearer(asked.token_file, folder / PLACE)
    assert key is not None  # there is a folder for one
    starting = Starting(folder)
    app = application(Reading(folder, asked.results), key, starting)
    try:
        server = Server(app, where, asked.certificate, asked.key)
    except ConfigError as error:
        fail(ExitCode.UNREACHABLE, f"TLS cannot be used: {error}")
    except OSError as error:
        fail(
            ExitCode.UNREACHABLE,
            f"cannot listen on {where}: {error.strerror or error}; choose another address with"
            " --listen",
        )
    ended = threading.Event()
    with signals(ended) as came:
        server.start()
        scheme = "http" if asked.certificate is None else "https"
        _announce(asked.announce, server.address)
        note(f"API of {folder}: {scheme}://{server.address}  (Ctrl-C ends it, and the run it runs)")
        ended.wait()
        server.stop()
        if names := starting.close():
            note(f"lockstep: ended with it: {', '.join(names)}; what ran has closed its archive")
    return ExitCode.INTERRUPTED if signal.SIGINT in came else ExitCode.OK


def place(asked: Asked) -> Address:
    """Where it listens; beyond this machine only with TLS, for the token would be seen.

    Raises:
        CommandError: 64, it is no HOST:PORT, or a secret would be sent in clear.
    """
    try:
        where = address("--listen", asked.listen)
    except ConfigError as error:
        fail(ExitCode.USAGE, str(error))
    if (asked.certificate is None) != (asked.key is None):
        fail(ExitCode.USAGE, "--tls-certificate and --tls-key go together")
    if not (is_loopback(where.host) or asked.certificate or asked.plain_http):
        fail(
            ExitCode.USAGE,
            f"on {where.host} the token would be sent in clear; give --tls-certificate and"
            " --tls-key, or --plain-http if a proxy in front of it has TLS",
        )
    return where


def require_installed() -> None:
    """All that it needs.

    Raises:
        CommandError: 69, something is not.
    """
    missing = sorted({extra for name, extra in NEEDED.items() if find_spec(name) is None})
    if missing:
        extras = ",".join(missing)
        fail(
            ExitCode.UNREACHABLE,
            f"this installation lacks the extra {extras}; `pip install '.[{extras}]'` in the"
            " checkout brings it",
        )


def usable(folder: Path) -> Path:
    """The folder of the archives, which is made.

    Raises:
        CommandError: 69, it cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".api").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        fail(ExitCode.UNREACHABLE, f"{folder} cannot be used: {error.strerror}")
    return folder.resolve()


def _announce(path: Path | None, where: Address) -> None:
    if path is not None:
        try:
            path.write_text(f"{where}\n")
        except OSError as error:
            fail(ExitCode.UNREACHABLE, f"--announce {path} is not writable: {error.strerror}")
