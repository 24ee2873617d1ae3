"""What alerts of `lockstep watch` lead to: its own runbooks, and the reports of its findings."""

import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from lockstep.analyzer.rules.alert_rules.shape import PLACEHOLDERS, Addresses
from lockstep.collector.config import Address
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail
from lockstep.watch.archive import finding_folders
from lockstep.watch.serve.server import Reply, Request, Route, text

RUNBOOKS, FINDINGS = "/runbooks/", "/findings/"
KINDS = {
    "report.html": "text/html; charset=utf-8",
    "report.md": "text/plain; charset=utf-8",
    "report.json": "application/json",
    "verdict.json": "application/json",
    "finding.json": "application/json",
}
"""Files of a finding's archive that are served, and no others."""
MOST_BYTES = 16 << 20
REPORT = "report.html"
AGAIN_SECONDS = 5
"""After so many a browser asks again for a report that is being written."""
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - nothing is listened on here


Known = Callable[[str], str]
"""Folder of a finding below that of all archives -> what is known of it; "" = there is none."""
Trouble = Callable[[Path], str]
"""Folder of an archive -> why its report could not be written yet; "" = nothing is in its way."""


def routes(
    out: Path | None, known: Known = lambda _: "", trouble: Trouble = lambda _: ""
) -> tuple[Route, ...]:
    """Who answers below /runbooks/ and, where archives are written, below /findings/.

    Args:
        out: Folder of the archives; None = there are none.
        known: Findings whose report may be on its way.
        trouble: Why one is late.
    """
    found = [Route("GET", RUNBOOKS, _runbook)]
    if out is not None:

        def finding(request: Request) -> Reply:
            return _finding(out, request.path, known, trouble)

        found.append(Route("GET", FINDINGS, finding))
    return tuple(found)


def served(addresses: Addresses, here: Address, out: Path | None, prometheus: str) -> Addresses:
    """Where alerts point to: what the environment named, and else what this process serves.

    Args:
        addresses: Of the environment.
        here: Where this process listens.
        out: Folder of the archives; None = no report is served.
        prometheus: The address that is asked.
    """
    host = socket.gethostname() if here.host in EVERYWHERE else here.host
    base = f"http://{Address(host, here.port)}"
    own = addresses.runbooks == PLACEHOLDERS.runbooks
    return replace(
        addresses,
        runbooks=f"{base}{RUNBOOKS.rstrip('/')}" if own else addresses.runbooks,
        reports=addresses.reports or ("" if out is None else f"{base}{FINDINGS.rstrip('/')}"),
        prometheus=addresses.prometheus or _public(prometheus),
    )


def _public(url: str) -> str:
    """An address without the name and password that it may have."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")


def _runbook(request: Request) -> Reply:
    name = request.path.removeprefix(RUNBOOKS)
    folder = _folder()
    names = sorted(path.name for path in folder.glob("*.md")) if folder is not None else []
    if folder is None or name not in names:
        return text(HTTPStatus.NOT_FOUND, f"there is no such runbook; there are {', '.join(names)}")
    return HTTPStatus.OK, KINDS["report.md"], (folder / name).read_bytes()


def _folder() -> Path | None:
    """Of the runbooks: in an installed package beside the code, in a checkout below deploy/."""
    inside = Path(str(files("lockstep"))) / "runbooks"
    checkout = Path(str(files("lockstep"))).parent / "deploy" / "runbooks"
    return next((each for each in (inside, checkout) if each.is_dir()), None)


def _finding(out: Path, path: str, known: Known, trouble: Trouble) -> Reply:
    *place, name = unquote(path.removeprefix(FINDINGS)).split("/")
    missing = text(HTTPStatus.NOT_FOUND, "there is no such file of a finding")
    # Run, finding, file: names as they are, none that leads elsewhere or is not finished.
    if len(place) != 2 or name not in KINDS or any(each[:1] in ("", ".") for each in place):
        return missing
    try:
        asked = out.resolve().joinpath(*place, name)
        # A link in an archive would let others read what they may not.
        if name == REPORT and not asked.exists() and (words := _words(out, place, known)):
            return _being_written(words, trouble(out.joinpath(*place)))
        if asked.resolve() != asked or not asked.is_file() or asked.stat().st_size > MOST_BYTES:
            return missing
        return HTTPStatus.OK, KINDS[name], asked.read_bytes()
    except (OSError, ValueError):
        return missing


def _words(out: Path, parts: list[str], known: Known) -> str:
    """What is known of a finding; "" = there is none."""
    sentence = (finding_folders.read(out.joinpath(*parts)) or {}).get("sentence")
    return known("/".join(parts)) or (sentence if isinstance(sentence, str) else "")


def _being_written(words: str, trouble: str) -> Reply:
    """In place of a report that is not there yet: what is known, and a page that asks again."""
    late = f"<p>It could not be written yet: {escape(trouble)}. It is tried again.</p>"
    why = late if trouble else ""
    page = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="{AGAIN_SECONDS}">'
        "<title>The report is being written</title></head><body>"
        f"<h1>The report is being written</h1>{why}<p>{escape(words)}</p>"
        f"<p>This page asks for it again every {AGAIN_SECONDS} seconds.</p></body></html>\n"
    )
    return HTTPStatus.OK, KINDS[REPORT], page.encode("utf-8", "replace")


# Links in texts of alerts, by the environment.

RUNBOOKS_VARIABLE = "LOCKSTEP_RUNBOOKS_URL"
"""Where deploy/runbooks/ is served."""
DASHBOARD_VARIABLE = "LOCKSTEP_DASHBOARD_URL"
"""Where `lockstep dashboard` is served."""
GRAFANA_VARIABLE = "LOCKSTEP_GRAFANA_URL"
"""Where Grafana shows its dashboards."""
WATCH_VARIABLE = "LOCKSTEP_WATCH_URL"
"""Where people reach `lockstep watch`, which serves runbooks and the reports of its findings."""
PROMETHEUS_VARIABLE = "LOCKSTEP_PROMETHEUS_URL"
"""Where people reach the Prometheus that watch asks."""
_PARENT = re.compile(r"https?://[\w.~:/%@!$&'()*+,;=\[\]-]+", re.ASCII)
"""An address that a name can be put after: no query, and no braces, which are templates there."""


def addresses(environment: Mapping[str, str]) -> Addresses:
    """Those of the environment; placeholders where it says nothing.

    Raises:
        CommandError: 64, one is no address of a folder, or has a name and password.
    """
    watch = _parent(environment, WATCH_VARIABLE, "")
    runbooks = f"{watch}/runbooks" if watch else PLACEHOLDERS.runbooks
    return Addresses(
        runbooks=_parent(environment, RUNBOOKS_VARIABLE, runbooks),
        dashboard=_parent(environment, DASHBOARD_VARIABLE, PLACEHOLDERS.dashboard),
        grafana=_parent(environment, GRAFANA_VARIABLE, PLACEHOLDERS.grafana),
        reports=f"{watch}/findings" if watch else "",
        prometheus=_parent(environment, PROMETHEUS_VARIABLE, ""),
    )


def _parent(environment: Mapping[str, str], variable: str, otherwise: str) -> str:
    told = environment.get(variable, "") or otherwise
    if "@" in told.partition("://")[2].partition("/")[0]:
        fail(
            ExitCode.USAGE,
            f"{variable} has an @ before its path: links are sent to people; give it without name"
            " and password",
        )
    if told and not _PARENT.fullmatch(told):
        fail(
            ExitCode.USAGE,
            f"{variable} is {told!r}; it must be an http:// or https:// address without ? and #,"
            f" as {otherwise or PLACEHOLDERS.runbooks}",
        )
    return told.rstrip("/")
