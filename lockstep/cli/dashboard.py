"""`lockstep dashboard` as a process: the server as its child, its signals, its end."""

import json
import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lockstep.analyzer.read.prometheus.access import RequestError, access
from lockstep.collector.config import Address, ConfigError, address, is_loopback
from lockstep.collector.contract import archive as contract
from lockstep.collector.contract import bounded_http, threads
from lockstep.collector.contract.visible import visible_line
from lockstep.collector.contract.words import ExitCode
from lockstep.dashboard.context import Settings
from lockstep.diagnose import newest
from lockstep.terminal.interrupts import signals
from lockstep.terminal.output import fail, note
from lockstep.terminal.processes import stop
from lockstep.watch.serve.pages import GRAFANA_VARIABLE
from lockstep.workloads.sdk.client.calls import endpoint

# The options of `lockstep dashboard`, checked: source, settings and address.

USUAL_FOLDER = Path("runs")
"""Where `lockstep run` writes."""
AUTH_WORDS = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
"""What Streamlit's login cannot do without (st.login)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of the command line."""

    folder: Path | None = None
    prometheus: str | None = None
    findings: Path | None = None
    listen: str = "127.0.0.1:0"
    runs: Path | None = None
    grafana: str = ""
    login: Path | None = None
    alertmanager: str = ""
    announce: Path | None = None
    api: str = ""


def source_of(asked: Asked) -> dict[str, Any]:
    """What lockstep.dashboard.sources.opened reads; empty = none.

    Raises:
        CommandError: 64, two sources, or no address; 65, the folder is none.
    """
    given = {"DIR": asked.folder, "--prometheus": asked.prometheus}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        fail(ExitCode.USAGE, f"{' and '.join(named)} are two sources; give one of them")
    if asked.findings is not None and asked.prometheus is None:
        fail(ExitCode.USAGE, "--findings goes with --prometheus: archives are shown with DIR")
    if asked.prometheus is not None:
        return {
            "kind": "prometheus",
            "url": _server(asked.prometheus),
            "findings": None if asked.findings is None else str(_coming(asked.findings)),
        }
    if asked.folder is None and not USUAL_FOLDER.is_dir():
        return {}
    folder = _folder(asked.folder or USUAL_FOLDER)
    kind = "archive" if (folder / contract.RUN_FILE).exists() else "folder"
    return {"kind": kind, "path": str(folder)}


def settings_of(asked: Asked, where: Address) -> Settings:
    """How it is started; Grafana is where LOCKSTEP_GRAFANA_URL says, unless --grafana does.

    Raises:
        CommandError: 64, runs could be started by strangers, or a word is wrong; 65, the file of
            the login; 69, a folder cannot be used, or what the login needs is not installed.
    """
    if asked.runs is not None and asked.api:
        fail(ExitCode.USAGE, "--runs and --api are two ways to start runs; give one of them")
    starts = "--api" if asked.api else "--runs" if asked.runs is not None else ""
    if starts and not (is_loopback(where.host) or asked.login):
        fail(
            ExitCode.USAGE,
            f"with {starts} everybody who reaches {where.host} could start runs;"
            " add --login FILE, or listen on 127.0.0.1",
        )
    if asked.runs is not None:
        try:
            asked.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fail(ExitCode.UNREACHABLE, f"--runs {asked.runs} cannot be used: {error.strerror}")
    grafana = asked.grafana or os.environ.get(GRAFANA_VARIABLE, "")
    if grafana and not re.fullmatch(r"https?://[^\s?#\"<>]+", grafana):
        word = "--grafana" if asked.grafana else GRAFANA_VARIABLE
        fail(ExitCode.USAGE, f"{word} is {grafana!r}; it must be http://HOST or https://HOST")
    if asked.login is not None:
        check_login(asked.login)
    if asked.alertmanager and asked.login is None:
        fail(
            ExitCode.USAGE,
            "--alertmanager lets readers silence alerts in their own name, so it goes with"
            " --login FILE",
        )
    runs = None if asked.runs is None else asked.runs.resolve()
    return Settings(
        runs, grafana.rstrip("/"), login=asked.login is not None,
        alertmanager=_server(asked.alertmanager, "alertmanager") if asked.alertmanager else "",
        local=is_loopback(where.host), api=_api(asked.api),
    )  # fmt: skip


def _api(url: str) -> str:
    """The address of an API whose token the environment has; empty = none is asked for."""
    if not url:
        return ""
    try:
        return endpoint(url).url
    except ValueError as error:
        fail(ExitCode.USAGE, f"--api: {error}")
    except OSError as error:
        fail(
            ExitCode.BAD_INPUT, f"the API's token {error.filename} cannot be read: {error.strerror}"
        )


def place(asked: Asked) -> Address:
    """Where it listens.

    Raises:
        CommandError: 64, it is no HOST:PORT.
    """
    try:
        return address("--listen", asked.listen)
    except ConfigError as error:
        fail(ExitCode.USAGE, str(error))


def check_login(path: Path) -> None:
    """The file of secrets: readable by its owner alone, with what a login needs.

    Raises:
        CommandError: 65, it is not so; 69, Authlib is not installed. None shows a secret.
    """
    try:
        mode = path.stat().st_mode
        told = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        fail(ExitCode.BAD_INPUT, f"--login {path} cannot be read: {error.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        # The error's own words would show the line, and with it a secret.
        fail(ExitCode.BAD_INPUT, f"--login {path} is not TOML")
    if stat.S_IMODE(mode) & (stat.S_IRWXG | stat.S_IRWXO):
        fail(
            ExitCode.BAD_INPUT,
            f"--login {path} holds secrets and others can read it; chmod 600 {path}",
        )
    missing = _missing(told.get("auth"))
    if missing:
        fail(ExitCode.BAD_INPUT, f"--login {path} has no {', '.join(missing)} in [auth]")
    if find_spec("authlib") is None:
        fail(
            ExitCode.UNREACHABLE,
            "--login needs Authlib, which is not installed; `pip install 'streamlit[auth]'`",
        )


def _missing(auth: object) -> list[str]:
    if not isinstance(auth, Mapping):
        return list(AUTH_WORDS)
    # A single provider stands in [auth] itself; Streamlit also knows several, as [auth.NAME].
    providers = [each for each in auth.values() if isinstance(each, Mapping)] or [auth]
    return [
        word
        for word in AUTH_WORDS
        if word not in auth and not all(word in each for each in providers)
    ]


def _server(url: str, service: str = "prometheus") -> str:
    try:
        where = access(url, service=service)
    except RequestError as error:
        fail(ExitCode.USAGE, str(error))
    if "@" in url.partition("://")[2].partition("/")[0]:
        fail(
            ExitCode.USAGE,
            f"--{service} holds credentials, which other users of this machine could read; set"
            f" LOCKSTEP_{service.upper()}_USER and LOCKSTEP_{service.upper()}_PASSWORD instead",
        )
    return where.url


def _coming(path: Path) -> Path:
    """A folder, or where one will be: `watch` makes it with its first finding."""
    if not path.exists():
        note(f"{path} is not there yet; findings are shown from it once `lockstep watch` makes it")
        return path.resolve()
    return _folder(path)


def _folder(path: Path) -> Path:
    if not path.is_dir():
        fail(ExitCode.BAD_INPUT, f"{path} is not a folder; give an archive or a folder of archives")
    if not os.access(path, os.R_OK | os.X_OK):
        fail(ExitCode.BAD_INPUT, f"{path} cannot be read")
    return path.resolve()


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
    source, where = source_of(asked), place(asked)
    settings = settings_of(asked, where)
    where = free_address(where)
    if not (is_loopback(where.host) or settings.login):
        note(f"lockstep: everybody who reaches {where.host} can read this dashboard; see --login")
    environment = {
        **os.environ,
        "LOCKSTEP_DASHBOARD_SOURCE": json.dumps(source),
        "LOCKSTEP_DASHBOARD_SETTINGS": settings.written(),
    }
    ended = threading.Event()
    with signals(ended) as came:
        child = _start(where, asked.login, environment)
        threads.task("server", partial(_wait, child, ended)).start()
        try:
            if _answers(where, child, ended):
                _tell(where, source, asked.announce)
                ended.wait()
        finally:
            stop([child], STOP_SECONDS)
    if not came:
        fail(
            ExitCode.INTERNAL,
            f"the dashboard's server ended by itself, with exit code {child.returncode}",
        )
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
