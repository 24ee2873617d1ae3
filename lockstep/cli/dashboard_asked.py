"""The words of `lockstep dashboard`, checked: which source, which settings, which address."""

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lockstep.analyzer.read.prometheus import RequestError
from lockstep.analyzer.read.prometheus.access import access
from lockstep.collector.config import ConfigError
from lockstep.collector.config.values import Address, address, is_loopback
from lockstep.collector.contract import archive as contract
from lockstep.collector.contract.words import ExitCode
from lockstep.dashboard.context import Settings
from lockstep.terminal.output import fail, note
from lockstep.watch.addresses import GRAFANA_VARIABLE
from lockstep.workloads.sdk.client.calls import endpoint

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
    simulated: int | None = None
    listen: str = "127.0.0.1:0"
    runs: Path | None = None
    grafana: str = ""
    login: Path | None = None
    alertmanager: str = ""
    announce: Path | None = None
    api: str = ""


def source(asked: Asked) -> dict[str, Any]:
    """What lockstep.dashboard.source reads; empty = none.

    Raises:
        CommandError: 64, two sources, or no address; 65, the folder is none.
    """
    given = {"DIR": asked.folder, "--prometheus": asked.prometheus, "--simulated": asked.simulated}
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
    if asked.simulated is not None:
        return {"kind": "simulated", "gpus": asked.simulated, "seed": 0}
    if asked.folder is None and not USUAL_FOLDER.is_dir():
        return {}
    folder = _folder(asked.folder or USUAL_FOLDER)
    kind = "archive" if (folder / contract.RUN_FILE).exists() else "folder"
    return {"kind": kind, "path": str(folder)}


def settings(asked: Asked, where: Address) -> Settings:
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
