"""How to get in: address and credentials, which no message or log ever shows."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from analyzer.readers.prometheus.errors import RequestError

TOKEN = "LOCKSTEP_PROMETHEUS_TOKEN"  # noqa: S105 - the variable's name
USER = "LOCKSTEP_PROMETHEUS_USER"
PASSWORD = "LOCKSTEP_PROMETHEUS_PASSWORD"  # noqa: S105 - the variable's name


@dataclass(frozen=True, slots=True)
class Access:
    """A Prometheus, or another server, and how to get in.

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


def access(
    url: str, environment: Mapping[str, str] | None = None, service: str = "prometheus"
) -> Access:
    """The address without its credentials, and these, or those of the environment.

    Args:
        url: May hold a user and a password.
        environment: Where TOKEN, USER and PASSWORD stand; None = this process's.
        service: What is asked, in place of `prometheus` in the option and in those names.

    Raises:
        RequestError: This is no address of such a service.
    """
    token_name, user_name, password_name = (
        name.replace("PROMETHEUS", service.upper()) for name in (TOKEN, USER, PASSWORD)
    )
    environment = os.environ if environment is None else environment
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        shown = url.rpartition("@")[2]
        raise RequestError(
            f"--{service} {shown} is no address; it must be http://HOST:PORT or https://HOST"
        )
    name = f"[{host}]" if ":" in host else host
    place = name if port is None else f"{name}:{port}"
    user = environment.get(user_name) or None
    password = environment.get(password_name)
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
    token = (environment.get(token_name) or "").strip() or None
    if any(not text.isprintable() for text in (token, user, password) if text):
        raise RequestError(
            f"{token_name}, {user_name} or {password_name} has a character that no header can hold"
        )
    return Access(
        url=urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")),
        token=token,
        user=user,
        password=password,
    )
