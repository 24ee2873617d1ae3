"""How to get in: address and credentials, which no message or log ever shows."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from analyzer.load.prometheus.errors import RequestError

TOKEN = "LOCKSTEP_PROMETHEUS_TOKEN"  # noqa: S105 - the variable's name
USER = "LOCKSTEP_PROMETHEUS_USER"
PASSWORD = "LOCKSTEP_PROMETHEUS_PASSWORD"  # noqa: S105 - the variable's name


@dataclass(frozen=True, slots=True)
class Access:
    """A Prometheus and how to get in.

    Attributes:
        url: `http[s]://host[:port][/path]`, without credentials and without a last slash.
        token: Bearer token; it goes before user and password.
        user: For basic authentication.
        password: Likewise.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


def access(url: str, environment: Mapping[str, str] | None = None) -> Access:
    """The address without its credentials, and these, or those of the environment.

    Raises:
        RequestError: This is no address of a Prometheus.
    """
    environment = os.environ if environment is None else environment
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        shown = url.rpartition("@")[2]
        raise RequestError(
            f"--prometheus {shown} is no address; it must be http://HOST:PORT or https://HOST"
        )
    name = f"[{host}]" if ":" in host else host
    place = name if port is None else f"{name}:{port}"
    user = environment.get(USER) or None
    password = environment.get(PASSWORD)
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
    token = (environment.get(TOKEN) or "").strip() or None
    if any(not text.isprintable() for text in (token, user, password) if text):
        raise RequestError(f"{TOKEN}, {USER} or {PASSWORD} has a character that no header can hold")
    return Access(
        url=urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")),
        token=token,
        user=user,
        password=password,
    )
