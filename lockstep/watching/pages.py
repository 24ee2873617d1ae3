"""What alerts of `lockstep watch` lead to: its own runbooks, and the reports of its findings."""

import socket
from dataclasses import replace
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from analyzer.alert_rules.shape import PLACEHOLDERS, Addresses
from collector.config import Address
from lockstep.watching.server import Reply, Request, Route, text

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
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - nothing is listened on here


def routes(out: Path | None) -> tuple[Route, ...]:
    """Who answers below /runbooks/ and, where archives are written, below /findings/.

    Args:
        out: Folder of the archives; None = there are none.
    """
    found = [Route("GET", RUNBOOKS, _runbook)]
    if out is not None:

        def finding(request: Request) -> Reply:
            return _finding(out, request.path)

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


def _finding(out: Path, path: str) -> Reply:
    *place, name = unquote(path.removeprefix(FINDINGS)).split("/")
    missing = text(HTTPStatus.NOT_FOUND, "there is no such file of a finding")
    # Run, finding, file: names as they are, none that leads elsewhere or is not finished.
    if len(place) != 2 or name not in KINDS or any(each[:1] in ("", ".") for each in place):
        return missing
    try:
        asked = out.resolve().joinpath(*place, name)
        # A link in an archive would let others read what they may not.
        if asked.resolve() != asked or not asked.is_file() or asked.stat().st_size > MOST_BYTES:
            return missing
        return HTTPStatus.OK, KINDS[name], asked.read_bytes()
    except (OSError, ValueError):
        return missing
